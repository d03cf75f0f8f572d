"""Legs of a trace, call by call: an agent's trace holds many requests, a user's one.

What stands beneath a call belongs to it. Legs whose way up is broken are put together where only
one way fits; otherwise each stays alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from domain.family import Family
from domain.kin import kin
from domain.leg import ENGINES, Leg, LegKind
from domain.pair import Pair
from domain.telling import JOINED_LEGS_MAX

__all__ = ["calls"]


def calls(legs: Sequence[Leg], family: Family | None = None) -> list[list[Leg]]:
    """The legs of each request, in order of the first one's start; links alone are none."""
    ordered = sorted(legs, key=_begun)
    if len(ordered) > JOINED_LEGS_MAX and len(groups := kin(ordered)) > 1:
        return sorted(
            (call for group in groups for call in calls(group)), key=lambda call: _begun(call[0])
        )
    together = _Groups(ordered, family or Family(ordered))
    if len(ordered) <= JOINED_LEGS_MAX:
        together.meet()
        together.adopt()
    return together.requests()


class _Groups:
    """Legs that belong together, as far as that is known."""

    def __init__(self, legs: Sequence[Leg], family: Family) -> None:
        self._legs = legs
        self._family = family
        self._chief = {_key(leg): _key(leg) for leg in legs}
        for leg in legs:
            self._unite(leg, family.head(leg))

    def meet(self) -> None:
        """Halves that nobody above holds together."""
        prefills, decodes = self._lacking(LegKind.PREFILL), self._lacking(LegKind.DECODE)
        for decode in list(decodes):
            fitting = [each for each in prefills if Pair(each, decode).fits]
            chosen = next((each for each in fitting if Pair(each, decode).met), None) or next(
                (each for each in fitting if self._family.are_siblings(each, decode)), None
            )
            if chosen is not None:
                self._unite(chosen, decode)
                prefills.remove(chosen)
                decodes.remove(decode)
        if len(prefills) == len(decodes) == 1 and self._may_meet(prefills[0], decodes[0]):
            self._unite(prefills[0], decodes[0])

    def adopt(self) -> None:
        """Servers that nobody stands above, by the one frontend or a client of their trace."""
        frontends = [leg for leg in self._legs if leg.kind is LegKind.FRONTEND]
        clients = [leg for leg in self._legs if leg.kind is LegKind.CLIENT]
        if len(frontends) == 1:
            for orphan in self._orphans(LegKind.CLIENT, LegKind.FRONTEND):
                if orphan[0].trace_id == frontends[0].trace_id:
                    self._unite(orphan[0], frontends[0])
        for orphan in self._orphans(LegKind.CLIENT):
            above = self._family.clients_of(clients, orphan)
            traces = {leg.trace_id for leg in orphan}
            near = [client for client in clients if client.trace_id in traces]
            idle = [client for client in near if not self._serves(client)]
            alike = [client for client in idle if any(_counted(client, leg) for leg in orphan)]
            lone = idle if len(near) == 1 else []
            best = [client for client in above if client in idle] or above
            for chosen in (best or alike or lone)[:1]:
                self._unite(chosen, orphan[0])

    def requests(self) -> list[list[Leg]]:
        found: dict[tuple[bytes, bytes], list[Leg]] = {}
        for leg in self._legs:
            found.setdefault(self._find(_key(leg)), []).append(leg)
        return [group for group in found.values() if any(leg.kind in _SAY for leg in group)]

    def _lacking(self, kind: LegKind) -> list[Leg]:
        """The first leg of this kind of each group that has not the other half."""
        other = LegKind.DECODE if kind is LegKind.PREFILL else LegKind.PREFILL
        halves = [[leg for leg in group if leg.kind in (kind, other)] for group in self.requests()]
        return [group[0] for group in halves if group and all(leg.kind is kind for leg in group)]

    def _may_meet(self, prefill: Leg, decode: Leg) -> bool:
        """Whether one prompt can have made both, and no two calls."""
        calls = (LegKind.CLIENT, LegKind.FRONTEND)
        held = [self._family.nearest(half, *calls) for half in (prefill, decode)]
        return None in held and Pair(prefill, decode).fits

    def _orphans(self, *above: LegKind) -> list[list[Leg]]:
        """The servers of each group that has none of these kinds."""
        return [
            [leg for leg in group if leg.kind in _SERVE]
            for group in self.requests()
            if not any(leg.kind in above for leg in group)
            and any(leg.kind in _SERVE for leg in group)
        ]

    def _serves(self, client: Leg) -> bool:
        chief = self._find(_key(client))
        return any(leg.kind in _SERVE and self._find(_key(leg)) == chief for leg in self._legs)

    def _unite(self, one: Leg, other: Leg) -> None:
        self._chief[self._find(_key(other))] = self._find(_key(one))

    def _find(self, key: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        while self._chief[key] != key:
            key = self._chief[key]
        return key


_SERVE = ENGINES | {LegKind.FRONTEND}
_SAY = _SERVE | {LegKind.CLIENT}


def _key(leg: Leg) -> tuple[bytes, bytes]:
    return leg.trace_id, leg.span_id


def _begun(leg: Leg) -> tuple[int, bytes]:
    return leg.start_at_ns, leg.span_id


def _counted(client: Leg, server: Leg) -> bool:
    """Whether both counted the same tokens."""
    told = client.prompt_tokens, client.output_tokens
    return None not in told and told == (server.prompt_tokens, server.output_tokens)
