"""Cumulative families between two of their readings: what each series grew by, across restarts.

A series that is missing for a while keeps its place: what it grew by meanwhile is counted when it
is back. A family that was not there while its target was up begins at zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.counter import increase
from domain.labels import Labels
from exporters.engine.family import Histogram

__all__ = ["Grown", "GrownCounter", "GrownHistogram", "Memory"]

_SAME_START_S = 1.0
"""Start times closer than this are one start: some are computed from clocks that are corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """One histogram between two readings: counts per bucket, and the growth of its sum.

    `total` is None where either reading has no sum; `greatest_total` tells how coarsely the sums
    were rounded.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    total: float | None
    greatest_total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownHistogram:
    """A histogram family since its last reading."""

    start_at_ns: int
    restarted: bool
    series: Mapping[Labels, Grown]


@dataclass(frozen=True, slots=True, kw_only=True)
class GrownCounter:
    """A counter family since its last reading."""

    start_at_ns: int
    restarted: bool
    by: Mapping[Labels, float]


@dataclass(slots=True)
class Memory:
    """What is remembered of one family. `at_ns` is its last reading, or when it was not there."""

    at_ns: int | None
    created_at_s: float | None = None
    counters: dict[Labels, float] = field(default_factory=dict)
    histograms: dict[Labels, Histogram] = field(default_factory=dict)

    @property
    def has_counted(self) -> bool:
        """Whether anything was above 0 when the family was last read."""
        return any(self.counters.values()) or any(any(h.counts) for h in self.histograms.values())

    def restarted(self, created_at_s: float | None) -> bool:
        """Is the family younger than the one we remember? Remembers the newer."""
        before, self.created_at_s = self.created_at_s, created_at_s or self.created_at_s
        if before is None or created_at_s is None:
            return False
        return created_at_s > before + _SAME_START_S

    def counter(
        self, now: Mapping[Labels, float], *, at_ns: int, restarted: bool
    ) -> GrownCounter | None:
        """The growth since the last reading; None if this is the first."""
        start_at_ns, self.at_ns = self.at_ns, at_ns
        before = self.counters if start_at_ns is not None else None
        grown = increase(before, now, restarted=restarted and before is not None)
        self.counters = dict(now) if grown.restarted else {**self.counters, **now}
        if start_at_ns is None:
            return None
        return GrownCounter(start_at_ns=start_at_ns, restarted=grown.restarted, by=grown.by)

    def histogram(
        self, now: Mapping[Labels, Histogram], *, at_ns: int, restarted: bool
    ) -> GrownHistogram | None:
        """The growth since the last reading; None if this is the first.

        Buckets are compared one by one, not cumulated, so that a restart shows as soon as one of
        them falls. Of two layouts the edges they share are compared.
        """
        start_at_ns, self.at_ns = self.at_ns, at_ns
        old = self.histograms
        edges = {labels: _shared(old.get(labels), new) for labels, new in now.items()}
        flat = {
            labels: dict(zip(edges[labels], old[labels].at(edges[labels]), strict=True))
            for labels in now
            if labels in old
        }
        before = {(labels, e): n for labels, counts in flat.items() for e, n in counts.items()}
        after = {
            (labels, edge): count
            for labels, new in now.items()
            for edge, count in zip(edges[labels], new.at(edges[labels]), strict=True)
        }
        fell = increase(before, after, restarted=restarted).restarted
        if fell:
            edges = {labels: new.edges for labels, new in now.items()}
            old = {}
        self.histograms = dict(now) if fell else {**self.histograms, **now}
        if start_at_ns is None:
            return None
        series = {
            labels: _grown(old.get(labels), new, edges[labels]) for labels, new in now.items()
        }
        return GrownHistogram(start_at_ns=start_at_ns, restarted=fell, series=series)


def _shared(old: Histogram | None, new: Histogram) -> tuple[float, ...]:
    if old is None or old.edges == new.edges:
        return new.edges
    kept = set(old.edges)
    return tuple(edge for edge in new.edges if edge in kept)


def _grown(old: Histogram | None, new: Histogram, edges: tuple[float, ...]) -> Grown:
    """The difference of two histograms at shared edges; of one alone, all of it."""
    if old is None:
        total, greatest = new.total, abs(new.total or 0.0)
        return Grown(edges=edges, counts=new.counts, total=total, greatest_total=greatest)
    counts = tuple(b - a for a, b in zip(old.at(edges), new.at(edges), strict=True))
    if old.total is None or new.total is None:
        return Grown(edges=edges, counts=counts, total=None, greatest_total=0.0)
    return Grown(
        edges=edges,
        counts=counts,
        total=new.total - old.total,
        greatest_total=max(abs(old.total), abs(new.total)),
    )
