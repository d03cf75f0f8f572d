"""One good page against what is remembered of its target."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Protocol

import numpy as np

from domain.buckets import from_buckets, layout
from domain.distribution import Distribution, add_all
from domain.labels import Labels, labels_of
from domain.metric import METRICS, Kind
from exporters.engine.failure import FamilyError
from exporters.engine.family import counter, created_at_s, gauge, histogram
from exporters.engine.growth import Grown, GrownCounter, GrownHistogram, Memory
from exporters.engine.reading import Increment, Latency, Level
from exporters.engine.text import Page
from exporters.engine.vllm import LABELS, PREFIXES, Row, Shape, names_of

__all__ = ["Remembered", "Scraped"]

Key = tuple[str, Labels, int]


class Remembered(Protocol):
    """What is kept of a target from page to page."""

    labels: Labels
    families: dict[str, Memory]
    chosen: dict[str, str]
    absent: set[str]
    page_at_ns: int | None


class Scraped:
    """What one page says, row by row of the table.

    Numbers of several ranks or models of one target add up where their labels of ours are the same.
    """

    def __init__(
        self, state: Remembered, page: Page, *, at_ns: int, since_ns: int, restarted: bool
    ) -> None:
        self.notes: list[str] = []
        self.models: frozenset[str] = frozenset()
        self._state, self._page = state, page
        self._at_ns, self._since_ns, self._restarted = at_ns, since_ns, restarted
        self._any_reset = False
        self._grown: dict[str, GrownHistogram | GrownCounter | None] = {}
        self._refused: set[str] = set()
        self._pairs: dict[Key, list[Distribution]] = defaultdict(list)
        self._samples: dict[str, str] = {}
        self._sums: dict[Key, float] = defaultdict(float)
        self._levels: dict[tuple[str, Labels], list[float]] = defaultdict(list)

    def take(self, row: Row) -> None:
        """What this row's family says, if the page has it."""
        family = self._source(row)
        if family is None:
            return
        try:
            match row.shape:
                case Shape.LATENCY:
                    self._take_latency(row, family)
                case Shape.EVENTS:
                    self._take_events(row, family)
                case Shape.COUNTER:
                    self._take_counter(row, family)
                case Shape.GAUGE:
                    self._take_gauge(row, family)
        except FamilyError as refusal:
            if family not in self._refused:
                self._refused.add(family)
                self._count("refused_families", row.metric, str(refusal))

    def finish(self) -> None:
        """What concerns the page as a whole."""
        if self._any_reset:
            self._count("counter_resets", "", "the engine's counters began anew: it restarted")
        if self._page.torn:
            self.notes.append("the page ends in the middle of a line, which is not believed")
        if self._page.bad_lines:
            self.notes.append(f"{self._page.bad_lines} lines of the page cannot be read")

    def merged_latencies(self) -> tuple[Latency, ...]:
        return tuple(
            Latency(
                metric=metric,
                labels=labels,
                start_at_ns=start_at_ns,
                distribution=parts[0] if len(parts) == 1 else add_all(parts),
                sample=self._samples[metric],
            )
            for (metric, labels, start_at_ns), parts in self._pairs.items()
        )

    def merged_increments(self) -> tuple[Increment, ...]:
        return tuple(
            Increment(metric=metric, labels=labels, start_at_ns=start_at_ns, by=by)
            for (metric, labels, start_at_ns), by in self._sums.items()
        )

    def merged_levels(self) -> tuple[Level, ...]:
        """Levels of several ranks add up, ratios are averaged: the ranks are of one size."""
        return tuple(
            Level(metric=metric, labels=labels, value=_together(metric, values))
            for (metric, labels), values in self._levels.items()
        )

    def _source(self, row: Row) -> str | None:
        """The family read for this row: the one read before while it is there, else the first."""
        names = names_of(row)
        before = self._state.chosen.get(row.metric)
        present = [name for name in names if self._is_there(row, name)]
        if before in present:
            return before
        if present:
            self._state.chosen[row.metric] = present[0]
            self._state.absent.discard(row.metric)
            if before is not None:
                self.notes.append(f"{row.metric}: {before} is now called {present[0]}")
            return present[0]
        if before is not None and not self._page.torn:
            del self._state.chosen[row.metric]
            self._state.absent.add(row.metric)
            note = f"schema drift: {before} is gone while the engine is up"
            self._count("schema_drift", row.metric, note)
        return None

    def _is_there(self, row: Row, family: str) -> bool:
        if row.shape in (Shape.COUNTER, Shape.GAUGE):
            return self._page.has(family)
        return any(self._page.has(family + part) for part in ("_bucket", "_count", "_sum"))

    def _take_latency(self, row: Row, family: str) -> None:
        grown = self._histogram(family)
        if grown is None:
            return
        zeros = self._one_token_answers(row, grown) if row.without else {}
        for labels, each in grown.series.items():
            if not _chosen(labels, row.only):
                continue
            ours = self._ours(labels)
            pair = self._pair(row, each, zeros.get(labels, 0))
            if pair is not None:
                self._pairs[row.metric, ours, grown.start_at_ns].append(pair)
                self._samples[row.metric] = row.sample

    def _pair(self, row: Row, grown: Grown, zeros: int) -> Distribution | None:
        """The pair of one series, or None where nothing happened."""
        scale = row.seconds_per_unit
        first, *others = grown.counts
        counts = np.array((max(first - zeros, 0), *others), np.int64)
        source = layout(tuple(edge * scale for edge in grown.edges))
        rounded = 8 + int(counts.sum())  # why: every value added may have rounded the sum
        interval = from_buckets(
            source,
            counts,
            None if grown.total is None else grown.total * scale,
            noise_s=rounded * math.ulp(grown.greatest_total * scale),
        )
        if grown.total is not None and not interval.sum_used:
            note = f"{row.metric}: the sum grew by {grown.total:g} s, which its counts deny"
            self._count("refused_sums", row.metric, note)
        return interval.distribution if interval.distribution.n else None

    def _one_token_answers(self, row: Row, grown: GrownHistogram) -> dict[Labels, int]:
        """How many of the zeros are answers without a second token, where the page can say it."""
        names = (prefix + row.without for prefix in PREFIXES)
        name = next((name for name in names if self._page.has(f"{name}_count")), None)
        lengths = self._histogram(name) if name is not None else None
        if lengths is None or lengths.start_at_ns != grown.start_at_ns:
            return {}
        return {
            labels: sum(n for edge, n in zip(one.edges, one.counts, strict=True) if edge <= 1)
            for labels, one in lengths.series.items()
            if 1 in one.edges
        }

    def _take_events(self, row: Row, family: str) -> None:
        grown = self._histogram(family)
        if grown is None:
            return
        for labels, each in grown.series.items():
            self._add(row, labels, grown.start_at_ns, sum(each.counts))

    def _take_counter(self, row: Row, family: str) -> None:
        if family not in self._grown:
            now = counter(self._page, family)
            memory, restarted = self._memory(family)
            self._grown[family] = memory.counter(now, at_ns=self._at_ns, restarted=restarted)
            self._note_reset(self._grown[family])
        grown = self._grown[family]
        if isinstance(grown, GrownCounter):
            for labels, by in grown.by.items():
                self._add(row, labels, grown.start_at_ns, by)

    def _take_gauge(self, row: Row, family: str) -> None:
        for labels, value in gauge(self._page, family).items():
            if METRICS[row.metric].kind is not Kind.RATIO or value <= 1:
                self._levels[row.metric, self._ours(labels)].append(value)

    def _add(self, row: Row, labels: Labels, start_at_ns: int, by: float) -> None:
        if _chosen(labels, row.only):
            self._sums[row.metric, self._ours(labels), start_at_ns] += by

    def _histogram(self, family: str) -> GrownHistogram | None:
        if family not in self._grown:
            now = histogram(self._page, family)
            memory, restarted = self._memory(family)
            self._grown[family] = memory.histogram(now, at_ns=self._at_ns, restarted=restarted)
            self._note_reset(self._grown[family])
        grown = self._grown[family]
        return grown if isinstance(grown, GrownHistogram) else None

    def _memory(self, family: str) -> tuple[Memory, bool]:
        """What is remembered of a family; a new one begins at zero if its target was up before."""
        created = Memory(at_ns=self._state.page_at_ns)
        memory = self._state.families.setdefault(family, created)
        younger = memory.restarted(created_at_s(self._page, family))
        return memory, younger or (self._restarted and memory is not created)

    def _note_reset(self, grown: GrownHistogram | GrownCounter | None) -> None:
        self._any_reset = self._any_reset or (grown is not None and grown.restarted)

    def _ours(self, labels: Labels) -> Labels:
        """Our labels of one of the page's series; what the operator says of the target wins."""
        told = {LABELS[name]: value for name, value in labels if name in LABELS}
        ours = labels_of({**told, **dict(self._state.labels)})
        self.models |= {value for name, value in ours if name == "model"}
        return ours

    def _count(self, metric: str, reason: str, note: str) -> None:
        labels = labels_of((*self._state.labels, ("reason", reason)))
        self._sums[metric, labels, self._since_ns] += 1
        self.notes.append(note)


def _chosen(labels: Labels, only: Labels) -> bool:
    return not only or set(only) <= set(labels)


def _together(metric: str, values: Iterable[float]) -> float:
    all_of_them = list(values)
    together = math.fsum(all_of_them)
    return together / len(all_of_them) if METRICS[metric].kind is Kind.RATIO else together
