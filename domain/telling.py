"""What legs of one request tell: each value once, by the first set of legs that can tell it.

Adding a leg only adds values, so nothing published is ever taken back, whichever leg comes late.
What needs two legs is told when both are there; what one clock cannot say is left out and counted.
Only legs that ended well tell anything: a failed one is bad by every objective however fast it was,
a cancelled or rejected one is in none; both are counted instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from domain.family import Family
from domain.kin import kin
from domain.labels import Labels
from domain.leg import ENGINES, Leg, LegKind, Outcome, difference_s
from domain.pair import Cut, Pair

__all__ = ["JOINED_LEGS_MAX", "Observation", "Told", "cut_of", "observations", "tell", "wholes"]

JOINED_LEGS_MAX = 128
"""Of more legs each group of kin is looked at alone; one that is larger still is somebody's loop,
whose legs tell only their own."""

CLOCKS_DISAGREE = "clock_disagreements_total"
OVERLAPS = "overlapping_transfers_total"
NEGATIVE_NETWORK = "negative_networks_total"

_OWN = {
    LegKind.CLIENT: ("ttft", "e2e", "tpot", "itl_max"),
    LegKind.FRONTEND: ("ttft", "e2e", "tpot", "itl_max"),
    LegKind.SERVER: ("ttft", "e2e", "tpot", "itl_max", "queue", "prefill", "decode", "overhead"),
    LegKind.PREFILL: ("queue", "prefill"),
    LegKind.DECODE: ("queue", "decode", "tpot"),
}
"""What a leg of each kind tells alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One value of one metric, whose it is, and the instant it belongs to."""

    metric: str
    labels: Labels
    at_ns: int
    value_s: float


@dataclass(slots=True)
class Told:
    """Values, and how often something could not be told."""

    values: list[Observation] = field(default_factory=list)
    doubts: Counter[str] = field(default_factory=Counter)

    def add(self, leg: Leg, **values_s: float | None) -> None:
        """Values that belong to a leg; None is not told."""
        self.values += [
            Observation(metric=metric, labels=leg.labels, at_ns=leg.end_at_ns, value_s=value_s)
            for metric, value_s in values_s.items()
            if value_s is not None
        ]


def observations(legs: Sequence[Leg]) -> Iterator[Observation]:
    """Every value these legs tell; more legs tell these and more."""
    yield from tell(legs).values


def tell(legs: Sequence[Leg]) -> Told:
    """The same, with what is in doubt."""
    told = Told()
    fine = [leg for leg in legs if leg.outcome is Outcome.OK]
    for leg in fine:
        if not leg.is_handler:
            told.add(leg, **{name: getattr(leg, f"{name}_s") for name in _OWN.get(leg.kind, ())})
    for group in [legs] if len(legs) <= JOINED_LEGS_MAX else kin(legs):
        if 2 <= len(group) <= JOINED_LEGS_MAX:
            _Together(group, [leg for leg in group if leg.outcome is Outcome.OK], told).tell()
    return told


class _Together:
    """What several legs tell and none alone."""

    def __init__(self, legs: Sequence[Leg], fine: Sequence[Leg], told: Told) -> None:
        self._family = Family(legs)
        self._legs = fine
        self._told = told
        self._clients = self._of(LegKind.CLIENT)

    def tell(self) -> None:
        self._slices()
        self._handlers()
        for one in (*self._of(LegKind.FRONTEND), *self._of(LegKind.SERVER)):
            for client in self._family.clients_of(self._clients, [one]):
                self._network(client, one, one.ttft_s)
        for pair in self._pairs():
            self._pair(pair)

    def _of(self, kind: LegKind) -> list[Leg]:
        return [leg for leg in self._legs if leg.kind is kind]

    def _slices(self) -> None:
        """Pieces of a leg that does not say itself what they say."""
        for leg in self._legs:
            if leg.kind not in ENGINES:
                continue
            for piece in _pieces(self._family, self._legs, leg, LegKind.QUEUE_SLICE):
                if leg.queue_s is None:
                    self._told.add(leg, queue=piece.length_s)
            for piece in _pieces(self._family, self._legs, leg, LegKind.PREFILL_SLICE):
                if leg.prefill_s is None:
                    self._told.add(leg, prefill=piece.length_s)
            if leg.kind is LegKind.SERVER and leg.overhead_s is None:
                for whole in wholes(self._family, self._legs, leg):
                    self._told.add(leg, overhead=whole.overhead_s)

    def _handlers(self) -> None:
        """Workers under a frontend that ended well, which speaks of the outcome for all."""
        decodes: dict[bytes, list[Leg]] = {}
        for leg in self._of(LegKind.DECODE):
            frontend = self._frontend_of(leg)
            if frontend is not None:
                self._told.add(leg, decode=frontend.decode_s)
                decodes.setdefault(frontend.span_id, []).append(leg)
        for leg in self._of(LegKind.PREFILL):
            frontend = self._frontend_of(leg)
            if frontend is None:
                continue
            self._told.add(leg, prefill=leg.prefill_s)
            cut = cut_of(self._family, frontend, leg)
            self._told.doubts[OVERLAPS] += cut.overlaps
            self._told.doubts[CLOCKS_DISAGREE] += not cut.clocks_agree
            for decode in decodes.get(frontend.span_id, ()):
                self._told.add(decode, kv_transfer=cut.kv_transfer_s, overhead=cut.arrival_s)

    def _frontend_of(self, leg: Leg) -> Leg | None:
        if not leg.is_handler:
            return None
        found = self._family.nearest(leg, LegKind.FRONTEND)
        return found if found is not None and found.outcome is Outcome.OK else None

    def _pairs(self) -> Iterator[Pair]:
        halves = (self._of(LegKind.PREFILL), self._of(LegKind.DECODE))
        for prefill, decode in product(*halves):
            pair = Pair(prefill, decode)
            if prefill.is_handler or decode.is_handler or not pair.fits:
                continue
            if pair.met or self._family.are_siblings(prefill, decode):
                yield pair

    def _pair(self, pair: Pair) -> None:
        self._told.add(pair.prefill, ttft=pair.ttft_s)
        self._told.add(pair.decode, e2e=pair.e2e_s)
        self._told.doubts[CLOCKS_DISAGREE] += not pair.clocks_agree
        transfers_s = [pair.kv_transfer_s]
        if pair.met:
            kind = LegKind.TRANSFER_SLICE
            pieces = _pieces(self._family, self._legs, pair.prefill, kind)
            transfers_s = [piece.length_s for piece in pieces]
        for transfer_s in transfers_s:
            self._told.add(pair.decode, kv_transfer=transfer_s)
            for whole in wholes(self._family, self._legs, pair.prefill):
                overhead_s = Pair(whole, pair.decode).overhead_s(transfer_s)
                self._told.add(pair.decode, overhead=overhead_s)
        for client in self._family.clients_of(self._clients, (pair.prefill, pair.decode)):
            if pair.clocks_agree:
                self._network(client, pair.decode, pair.ttft_s)
            else:
                self._told.add(pair.decode, kv_transfer=pair.kv_transfer_within_s(client.ttft_s))

    def _network(self, client: Leg, at: Leg, ttft_s: float | None) -> None:
        """The client's TTFT minus the server's: two durations, so the clocks need not agree."""
        if client.ttft_s is None or ttft_s is None:
            return
        network_s = difference_s(client.ttft_s, ttft_s)
        self._told.doubts[NEGATIVE_NETWORK] += network_s is None
        self._told.add(at, network=network_s)


def cut_of(family: Family, frontend: Leg, prefill: Leg) -> Cut:
    """How the frontend's wait is cut by a prefill handler beneath it."""
    return Cut(frontend, family.above(prefill)[0], prefill)


def wholes(family: Family, legs: Sequence[Leg], leg: Leg) -> Iterator[Leg]:
    """The leg completed by its slices: one for each way, normally one; itself where it has none."""
    queues_s: list[float | None] = [
        each.length_s for each in _pieces(family, legs, leg, LegKind.QUEUE_SLICE)
    ]
    prefills_s: list[float | None] = [
        each.length_s for each in _pieces(family, legs, leg, LegKind.PREFILL_SLICE)
    ]
    if leg.queue_s is not None or not queues_s:
        queues_s = [leg.queue_s]
    if leg.prefill_s is not None or not prefills_s:
        prefills_s = [leg.prefill_s]
    for queue_s, prefill_s in product(queues_s, prefills_s):
        yield replace(leg, queue_s=queue_s, prefill_s=prefill_s)


def _pieces(family: Family, legs: Sequence[Leg], leg: Leg, kind: LegKind) -> list[Leg]:
    return [piece for piece in legs if piece.kind is kind and family.engine_of(piece) is leg]
