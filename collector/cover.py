"""Which tiles answer a window: the fewest of the four tiers that cover it, whole and up to date.

A coarse tile that is dirty gives way to the finer ones inside it. Where a finer tier is retired,
the coarse tile that contains the edge of the window is used as a whole, and the window is wider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from collector.schema import TIERS_S

__all__ = ["Kept", "Piece", "TileRange", "pieces", "ranges"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What may be read of one metric: below `cutoff_s` a tier is retired; `dirty` is (tier, at_s)."""

    cutoff_s: Mapping[int, int] = field(default_factory=dict)
    dirty: frozenset[tuple[int, int]] = frozenset()

    def finest_s(self, at_s: int) -> int:
        """The finest tier that is kept at this instant."""
        for tier_s in TIERS_S[:-1]:
            if at_s // tier_s * tier_s >= self.cutoff_s.get(tier_s, 0):
                return tier_s
        return TIERS_S[-1]


@dataclass(frozen=True, slots=True)
class Piece:
    """One step of an answer, on tiles that are kept: [since_s, until_s)."""

    since_s: int
    until_s: int


@dataclass(frozen=True, slots=True)
class TileRange:
    """Consecutive tiles of one tier: [since_s, until_s)."""

    tier_s: int
    since_s: int
    until_s: int


def pieces(since_s: int, until_s: int, step_s: int | None, kept: Kept) -> list[Piece]:
    """The window in steps (at whole multiples of `step_s`), each widened to tiles that are kept.

    The first and last step end with the window. Steps finer than what is kept become one.
    """
    found: list[Piece] = []
    reached_s = since_s
    while reached_s < until_s:
        end_s = until_s if step_s is None else min(until_s, (reached_s // step_s + 1) * step_s)
        first_s, last_s = kept.finest_s(reached_s), kept.finest_s(end_s - 1)
        start_s = reached_s // first_s * first_s
        end_s = -(-end_s // last_s) * last_s
        found.append(Piece(max(start_s, found[-1].until_s) if found else start_s, end_s))
        reached_s = end_s
    return found


def ranges(parts: Iterable[Piece], kept: Kept, *, coarsest_s: int = TIERS_S[-1]) -> list[TileRange]:
    """The fewest tiles that cover these pieces, as few runs of tiles."""
    top = TIERS_S.index(coarsest_s)
    runs: list[TileRange] = []
    for part in parts:
        for tier_s, at_s in _tiles(part.since_s, part.until_s, kept, top):
            last = runs[-1] if runs else None
            if last is not None and last.tier_s == tier_s and last.until_s == at_s:
                runs[-1] = TileRange(tier_s, last.since_s, at_s + tier_s)
            else:
                runs.append(TileRange(tier_s, at_s, at_s + tier_s))
    return runs


def _tiles(since_s: int, until_s: int, kept: Kept, place: int) -> Iterator[tuple[int, int]]:
    tier_s = TIERS_S[place]
    finer_s = TIERS_S[place - 1] if place else 0
    for at_s in range(since_s // tier_s * tier_s, until_s, tier_s):
        whole = since_s <= at_s and at_s + tier_s <= until_s and (tier_s, at_s) not in kept.dirty
        if whole or not place or at_s < kept.cutoff_s.get(finer_s, 0):
            yield tier_s, at_s
        else:
            end_s = min(until_s, at_s + tier_s)
            yield from _tiles(max(since_s, at_s), end_s, kept, place - 1)
