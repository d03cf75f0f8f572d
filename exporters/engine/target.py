"""One target: its pages one after the other, as pairs, increments and levels in our names."""

from __future__ import annotations

from collections.abc import Iterable

from domain.labels import Labels, labels_of, value_of
from exporters.engine.failure import ScrapeError
from exporters.engine.growth import Memory
from exporters.engine.reading import Increment, Level, Reading
from exporters.engine.scraped import Scraped
from exporters.engine.text import Page
from exporters.engine.vllm import START_TIME, TABLE, Row

__all__ = ["TargetState"]

_SAME_START_S = 1.0


class TargetState:
    """What is remembered of one target between two scrapes.

    The first page is only where counting begins, unless `from_zero`: then everything that the
    engine counted since it started is told.
    """

    def __init__(
        self, labels: Labels, *, table: Iterable[Row] = TABLE, from_zero: bool = False
    ) -> None:
        self.labels = labels_of((*labels, ("source", "page")))
        role = value_of(labels, "role")
        self.rows = tuple(row for row in table if role in row.roles)
        self.families: dict[str, Memory] = {}
        self.chosen: dict[str, str] = {}
        self.absent: set[str] = set()
        self.page_at_ns: int | None = 0 if from_zero else None
        self._tried_at_ns: int | None = None
        self._started_at_s: float | None = None
        self._models: frozenset[str] = frozenset()

    def observe(self, page: Page, at_ns: int) -> Reading:
        """What is new on the page, and what was wrong with it."""
        at_ns, tried_at_ns = self._next_instant(at_ns)
        started_at_s = max((value for _, value in page.samples(START_TIME)), default=None)
        if self._is_older(started_at_s):
            return self._two_processes(at_ns, tried_at_ns)
        restarted = self._is_newer(started_at_s)
        self._started_at_s = started_at_s or self._started_at_s
        scraped = Scraped(self, page, at_ns=at_ns, since_ns=tried_at_ns, restarted=restarted)
        for row in self.rows:
            scraped.take(row)
        scraped.finish()
        self.page_at_ns = at_ns
        self._models = scraped.models or self._models
        return Reading(
            target=self.labels,
            at_ns=at_ns,
            up=True,
            latencies=scraped.merged_latencies(),
            increments=scraped.merged_increments(),
            levels=(*self._up(1.0), *scraped.merged_levels()),
            absent=tuple(sorted(self.absent)),
            notes=tuple(scraped.notes),
        )

    def failed(self, failure: ScrapeError, at_ns: int) -> Reading:
        """A scrape that gave nothing: what is remembered stays."""
        at_ns, tried_at_ns = self._next_instant(at_ns)
        return self._down(failure.reason, str(failure), at_ns, tried_at_ns)

    def _down(self, reason: str, note: str, at_ns: int, tried_at_ns: int) -> Reading:
        labels = labels_of((*self.labels, ("reason", reason)))
        count = Increment(metric="failed_scrapes", labels=labels, start_at_ns=tried_at_ns, by=1)
        return Reading(
            target=self.labels,
            at_ns=at_ns,
            up=False,
            increments=(count,),
            levels=self._up(0.0, reason),
            absent=tuple(sorted(self.absent)),
            notes=(note,),
        )

    def _up(self, value: float, reason: str = "") -> tuple[Level, ...]:
        """One level per model of the page, so that a question about a model finds it."""
        models = sorted(self._models) or [""]
        return tuple(
            Level(
                metric="up",
                labels=labels_of({"model": model, **dict(self.labels), "reason": reason}),
                value=value,
            )
            for model in models
        )

    def _next_instant(self, at_ns: int) -> tuple[int, int]:
        """The instants of this scrape and of the one before; never backwards, clocks may be set."""
        before = self._tried_at_ns if self._tried_at_ns is not None else at_ns - 1
        self._tried_at_ns = max(at_ns, before + 1)
        return self._tried_at_ns, before

    def _is_older(self, started_at_s: float | None) -> bool:
        if started_at_s is None or self._started_at_s is None:
            return False
        return started_at_s < self._started_at_s - _SAME_START_S

    def _is_newer(self, started_at_s: float | None) -> bool:
        if started_at_s is None or self._started_at_s is None:
            return False
        return started_at_s > self._started_at_s + _SAME_START_S

    def _two_processes(self, at_ns: int, tried_at_ns: int) -> Reading:
        """An address that several engines answer in turn: their counters cannot be told apart."""
        self.families.clear()
        self.page_at_ns = self._started_at_s = None
        note = (
            "an engine answered that started before the last one did: several processes behind "
            "one address. Name each as a target of its own."
        )
        return self._down("several_processes", note, at_ns, tried_at_ns)
