"""One good page against what is remembered of its target: row by row of the engines' tables."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Protocol, TypeVar

import numpy as np

from domain.buckets import from_buckets, layout
from domain.distribution import Distribution
from domain.labels import Labels, labels_of
from domain.metric import METRICS, Kind
from exporters.engine.choice import Choice
from exporters.engine.doubt import all_at_nothing
from exporters.engine.estimate import Part, estimate, part_of
from exporters.engine.failure import FamilyError
from exporters.engine.family import counter, created_at_s, gauge, histogram, info, matching, without
from exporters.engine.gathered import Gathered
from exporters.engine.growth import Grown, GrownCounter, GrownHistogram, Memory
from exporters.engine.table import Engine, Family, Row, Shape, Spelling, names
from exporters.engine.text import Page

__all__ = ["Pending", "Remembered", "Scraped"]

_MAX_EVENTS = 2**40
_NO_VALUE = ("None", "undefined")

Value = TypeVar("Value")
Pending = dict[tuple[Engine, Row, Labels], tuple[int, dict[int, Part]]]
"""Of estimates: since when which part has grown by what, without the others yet."""


class Remembered(Protocol):
    """What is kept of a target from page to page."""

    labels: Labels
    engine: str
    models: frozenset[str]
    families: dict[str, Memory]
    choice: Choice
    pending: Pending
    page_at_ns: int | None


class Scraped:
    """What one page says."""

    def __init__(
        self, state: Remembered, page: Page, *, at_ns: int, since_ns: int, restarted: bool
    ) -> None:
        self.gathered = Gathered()
        self.models: frozenset[str] = frozenset()
        self.any_reset = False
        self.continued = False
        self._state, self._page = state, page
        self._at_ns, self._since_ns, self._restarted = at_ns, since_ns, restarted
        self._grown: dict[str, GrownHistogram | GrownCounter | None] = {}
        self._refused: set[str] = set()
        self._suspects: dict[str, str] = {}
        self._counted_before = False

    def take(self, engine: Engine, row: Row) -> None:
        """What this row's family says, if the page has it."""
        chosen = self._state.choice.of(self._page, engine, row)
        if not chosen:
            return
        take = {
            Shape.LATENCY: self._latency,
            Shape.MEAN: self._mean,
            Shape.EVENTS: self._events,
            Shape.TOTAL: self._total,
            Shape.COUNTER: self._counted,
            Shape.GAUGE: self._gauge,
            Shape.INFO: self._gauge,
        }
        try:
            if row.shape is Shape.ESTIMATE:
                self._estimate(engine, row, chosen)
            else:
                take[row.shape](engine, row, chosen[0])
        except FamilyError as refusal:
            # why: on a first page it may have counted for long, so the next one is its beginning
            self._state.families.setdefault(refusal.where, Memory(at_ns=self._state.page_at_ns))
            if refusal.where not in self._refused:
                self._refused.add(refusal.where)
                self.count("refused_families", row.metric, str(refusal))

    def finish(self) -> None:
        """What concerns the page as a whole."""
        if self.any_reset:
            self.count("counter_resets", "", "the engine's counters began anew: it restarted")
        if self.gathered.increase("generation_tokens") != 0:
            for metric, why in self._suspects.items():
                self.count("suspect_families", metric, why)
        if self._page.torn:
            self.note("the page ends in the middle of a line, which is not believed")
        if self._page.bad_lines:
            self.note(f"{self._page.bad_lines} line(s) of the page cannot be read")

    def count(self, metric: str, reason: str, note: str) -> None:
        labels = labels_of({"engine": self._state.engine, **dict(self._state.labels)})
        labels = labels_of((*labels, ("reason", reason)))
        self.gathered.add(metric, labels, self._since_ns, 1)
        self.note(note)

    def note(self, note: str) -> None:
        self.gathered.notes.append(note)

    def _latency(self, engine: Engine, row: Row, spelling: Spelling) -> None:
        grown = self._histogram(spelling.name)
        if grown is None:
            return
        zeros = self._one_token_answers(engine, row, grown) if row.without else {}
        for labels, each in self._meant(engine, spelling.family, grown).items():
            ours = self._ours(engine, labels)
            pair = self._pair(row, spelling.family, each, zeros.get(labels, 0))
            if pair is not None:
                self.gathered.pair(row.metric, ours, grown.start_at_ns, pair)
                self.gathered.sample(row.metric, spelling.family.sample)

    def _pair(self, row: Row, family: Family, grown: Grown, zeros: int) -> Distribution | None:
        """The pair of one series, or None where nothing happened."""
        scale = family.seconds_per_unit
        first, *others = grown.counts
        counts = np.array((max(first - zeros, 0), *others), np.int64)
        rounded = 8 + int(counts.sum())  # why: every value added may have rounded the sum
        interval = from_buckets(
            layout(tuple(edge * scale for edge in grown.edges)),
            counts,
            None if grown.total is None else grown.total * scale,
            noise_s=rounded * math.ulp(grown.greatest_total * scale),
        )
        if grown.total is not None and not interval.sum_used:
            note = f"{row.metric}: the sum grew by {grown.total:g}, which its counts deny"
            self.count("refused_sums", row.metric, note)
        if not zeros and (why := all_at_nothing(row.metric, grown, scale=scale)):
            self._suspects.setdefault(row.metric, why)
        return interval.distribution if interval.distribution.n else None

    def _one_token_answers(
        self, engine: Engine, row: Row, grown: GrownHistogram
    ) -> dict[Labels, int]:
        """How many of the zeros are answers without a second token, where the page can say it."""
        spelled = names(engine, row.without)
        name = next((name for name in spelled if self._page.has(f"{name}_count")), None)
        lengths = self._histogram(name) if name is not None else None
        if lengths is None or lengths.start_at_ns != grown.start_at_ns:
            return {}
        return {
            labels: sum(n for edge, n in zip(one.edges, one.counts, strict=True) if edge <= 1)
            for labels, one in lengths.series.items()
            if 1 in one.edges
        }

    def _mean(self, engine: Engine, row: Row, spelling: Spelling) -> None:
        """Time and what took it: one bucket without an edge, and its sum."""
        family, per = spelling.family, spelling.family.per
        spelled = names(engine, per.name, counts=True) if per is not None else ()
        name = next((name for name in spelled if self._page.has(name)), None)
        if per is None or name is None:
            return
        spent, events = self._counter(spelling.name), self._counter(name)
        if spent is None or events is None or spent.start_at_ns != events.start_at_ns:
            return
        seconds = self._by_ours(engine, family, spelling.name, spent)
        for ours, counted in self._by_ours(engine, per, name, events).items():
            pair = self._without_buckets(row, family, spelling.name, counted, seconds.get(ours, 0))
            if pair is not None:
                self.gathered.pair(row.metric, ours, spent.start_at_ns, pair)
                self.gathered.sample(row.metric, family.sample)

    def _without_buckets(
        self, row: Row, family: Family, name: str, events: float, units: float
    ) -> Distribution | None:
        n, seconds = round(events), units * family.seconds_per_unit
        if not 0 < n <= _MAX_EVENTS:
            return None
        greatest = max(self._state.families[name].counters.values()) * family.seconds_per_unit
        noise_s = (8 + n) * math.ulp(greatest)
        if family.digits:
            noise_s += greatest * 10.0 ** (1 - family.digits)
        counts = np.array([n], np.int64)
        interval = from_buckets(layout((math.inf,)), counts, seconds, noise_s=noise_s)
        if not interval.sum_used:
            self.count("refused_sums", row.metric, f"{row.metric}: its seconds cannot be believed")
        return interval.distribution

    def _estimate(self, engine: Engine, row: Row, parts: tuple[Spelling, ...]) -> None:
        """One pair as soon as every part has grown; until then what has grown waits."""
        touched: set[Labels] = set()
        for position, spelling in enumerate(parts):
            grown = self._histogram(spelling.name)
            if grown is None:
                continue
            for labels, each in self._meant(engine, spelling.family, grown).items():
                part, ours = part_of(each), self._ours(engine, labels)
                if part is None:
                    continue
                key = (engine, row, ours)
                since_ns, held = self._state.pending.get(key, (grown.start_at_ns, {}))
                held[position] = held[position] + part if position in held else part
                self._state.pending[key] = (min(since_ns, grown.start_at_ns), held)
                touched.add(ours)
        for ours in touched:
            since_ns, held = self._state.pending[engine, row, ours]
            if len(held) == len(parts):
                whole = estimate([held[position] for position in range(len(parts))])
                self.gathered.pair(row.metric, ours, since_ns, whole)
                del self._state.pending[engine, row, ours]

    def _events(self, engine: Engine, row: Row, spelling: Spelling) -> None:
        grown = self._histogram(spelling.name)
        if grown is None:
            return
        for labels, each in self._meant(engine, spelling.family, grown).items():
            self._add(engine, row, labels, grown.start_at_ns, sum(each.counts))

    def _total(self, engine: Engine, row: Row, spelling: Spelling) -> None:
        grown = self._histogram(spelling.name)
        if grown is None:
            return
        for labels, each in self._meant(engine, spelling.family, grown).items():
            if each.total is not None and each.total >= 0:
                self._add(engine, row, labels, grown.start_at_ns, each.total)

    def _counted(self, engine: Engine, row: Row, spelling: Spelling) -> None:
        grown = self._counter(spelling.name)
        if grown is None:
            return
        for ours, by in self._by_ours(engine, spelling.family, spelling.name, grown).items():
            self.gathered.add(row.metric, ours, grown.start_at_ns, by)

    def _gauge(self, engine: Engine, row: Row, spelling: Spelling) -> None:
        family = spelling.family
        if row.shape is Shape.INFO:
            told = info(self._page, spelling.name, family.label, engine.copies)
        else:
            told = gauge(self._page, spelling.name, engine.copies)
        for labels, value in matching(told, family).items():
            if METRICS[row.metric].kind is not Kind.RATIO or value <= 1:
                self.gathered.level(row.metric, self._ours(engine, labels), value)

    def _add(self, engine: Engine, row: Row, labels: Labels, start_at_ns: int, by: float) -> None:
        self.gathered.add(row.metric, self._ours(engine, labels), start_at_ns, by)

    def _meant(
        self, engine: Engine, family: Family, grown: GrownHistogram
    ) -> Mapping[Labels, Grown]:
        """The series that the table means, of ranks that tell the same only one."""
        meant = matching(grown.series, family)
        if not engine.copies:
            return meant
        kept = without({labels: sum(one.counts) for labels, one in meant.items()}, engine.copies)
        return {labels: one for labels, one in meant.items() if labels in kept}

    def _by_ours(
        self, engine: Engine, family: Family, name: str, grown: GrownCounter
    ) -> dict[Labels, float]:
        """What a counter's meant series grew by, by our labels."""
        meant = matching(grown.by, family)
        counters = self._state.families[name].counters
        outer = {
            labels
            for labels in meant
            if counters[labels] and not set(family.rather).isdisjoint(labels)
        }
        kept = without(meant, engine.copies)
        found: dict[Labels, float] = defaultdict(float)
        for labels, by in meant.items():
            if labels in kept and (not outer or labels in outer):
                found[self._ours(engine, labels)] += by
        return found

    def _counter(self, name: str) -> GrownCounter | None:
        if name not in self._grown:
            now = counter(self._page, name)
            memory, restarted = self._memory(name)
            grown = memory.counter(now, at_ns=self._at_ns, restarted=restarted)
            self._grown[name] = self._noted(grown)
        found = self._grown[name]
        return found if isinstance(found, GrownCounter) else None

    def _histogram(self, name: str) -> GrownHistogram | None:
        if name not in self._grown:
            now = histogram(self._page, name)
            memory, restarted = self._memory(name)
            grown = memory.histogram(now, at_ns=self._at_ns, restarted=restarted)
            self._grown[name] = self._noted(grown)
        found = self._grown[name]
        return found if isinstance(found, GrownHistogram) else None

    def _memory(self, name: str) -> tuple[Memory, bool]:
        """What is remembered of a family; a new one begins at zero if its target was up before."""
        known = self._state.choice.has_seen(name)
        created = Memory(at_ns=None if known else self._state.page_at_ns)
        memory = self._state.families.setdefault(name, created)
        self._counted_before = memory.has_counted
        younger = memory.restarted(created_at_s(self._page, name))
        return memory, younger or (self._restarted and memory is not created)

    def _noted(self, grown: Value) -> Value:
        if isinstance(grown, GrownHistogram | GrownCounter):
            self.any_reset = self.any_reset or grown.restarted
            self.continued = self.continued or (self._counted_before and not grown.restarted)
        return grown

    def _ours(self, engine: Engine, labels: Labels) -> Labels:
        """Our labels of one of the page's series; what the operator says of the target wins."""
        theirs, told = dict(labels), {"engine": self._state.engine}
        for name, ours in engine.labels:
            if (value := theirs.get(name, "")) not in _NO_VALUE:
                told[ours] = told.get(ours) or value
        own = {**told, **dict(self._state.labels)}
        if engine.source != "page":
            own["source"] = engine.source
        if own.get("model"):
            self.models |= {own["model"]}
        elif len(models := self.models or self._state.models) == 1:
            (own["model"],) = models  # why: a question about the one model should find all of it
        return labels_of(own)
