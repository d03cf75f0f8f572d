"""Of several sources that measured one service at one time, the one to believe: spans first.

A tile of a source is believed unless a better source of the same service has something in that
tile, or (for tiles of up to a minute) within a minute of it. See `docs/decisions/0004`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from collector.schema import TIERS_S
from domain.labels import SOURCES, Labels, value_of

__all__ = ["NEAR_S", "Precedence", "contested", "giving_way"]

NEAR_S = 60
_SLOT_S = TIERS_S[0]
_RANK = {source: rank for rank, source in enumerate(SOURCES)}

Tile = tuple[int, int, int]  # tier_s, at_s, series_id


def contested(labels: Mapping[int, Labels], *, apart: bool = False) -> dict[int, tuple[str, int]]:
    """Service and rank of source (0 the best) of those series whose service has several sources.

    `apart`: the question looks behind the frontend, at the replicas that did the work: what the
    frontend saw of the same requests stands beside them, and hides nothing.
    """
    place = {
        number: (value_of(own, "service"), _RANK.get(value_of(own, "source"), len(SOURCES)))
        for number, own in labels.items()
        if not (apart and value_of(own, "source") == "frontend")
    }
    ranks: dict[str, set[int]] = {}
    for service, rank in place.values():
        ranks.setdefault(service, set()).add(rank)
    return {number: own for number, own in place.items() if len(ranks[own[0]]) > 1}


def giving_way(places: Mapping[int, tuple[str, int]]) -> frozenset[int]:
    """The series of which not every tile is believed: a better source of the service is known."""
    best: dict[str, int] = {}
    for service, rank in places.values():
        best[service] = min(rank, best.get(service, rank))
    return frozenset(n for n, (service, rank) in places.items() if rank > best[service])


class Precedence:
    """Judges tiles. `held`: which tiles of contested series hold anything; read when it matters."""

    def __init__(self, places: Mapping[int, tuple[str, int]], held: Iterable[Tile]) -> None:
        self._places = places
        self._held: Iterable[Tile] | None = held
        self._gives_way = giving_way(places)
        self._coarse: set[tuple[str, int, int, int]] = set()
        self._slots: dict[tuple[str, int], list[int]] = {}
        self._known: dict[tuple[str, int, int, int], bool] = {}

    def believes(self, tier_s: int, at_s: int, series_id: int) -> bool:
        """Whether no better source of the service tells of this time."""
        if series_id not in self._gives_way:
            return True
        if self._held is not None:
            self._read(self._held)
        place = self._places[series_id]
        key = (*place, tier_s, at_s)
        verdict = self._known.get(key)
        if verdict is None:
            verdict = self._known[key] = not any(
                self._tells(place[0], rank, tier_s, at_s) for rank in range(place[1])
            )
        return verdict

    def _read(self, held: Iterable[Tile]) -> None:
        self._held = None
        slots: dict[tuple[str, int], set[int]] = {}
        for tier_s, at_s, series_id in held:
            place = self._places.get(series_id)
            if place is None:
                continue
            if tier_s > NEAR_S:
                self._coarse.add((*place, tier_s, at_s))
            else:
                first = at_s // _SLOT_S
                slots.setdefault(place, set()).update(range(first, first + tier_s // _SLOT_S))
        self._slots = {place: sorted(found) for place, found in slots.items()}

    def _tells(self, service: str, rank: int, tier_s: int, at_s: int) -> bool:
        if tier_s > NEAR_S:
            return (service, rank, tier_s, at_s) in self._coarse
        slots = self._slots.get((service, rank), ())
        first = bisect_left(slots, (at_s - NEAR_S) // _SLOT_S)
        return first < len(slots) and slots[first] * _SLOT_S < at_s + tier_s + NEAR_S
