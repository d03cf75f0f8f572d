"""One target: its pages one after the other, as pairs, increments and levels in our names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from domain.labels import Labels, labels_of, value_of
from exporters.engine.capability import Cache, missing
from exporters.engine.choice import Choice
from exporters.engine.doubt import Answers
from exporters.engine.failure import ScrapeError
from exporters.engine.growth import Memory
from exporters.engine.progress import Progress, pulse
from exporters.engine.reading import Increment, Level, Reading
from exporters.engine.recognition import engines_of, strangers
from exporters.engine.scraped import Pending, Scraped
from exporters.engine.table import CREATED, START_TIME, Engine
from exporters.engine.text import Page

__all__ = ["STALL_AFTER_S", "TargetState"]

STALL_AFTER_S = 5.0
_SAME_START_S = 1.0
_SECOND_NS = 1_000_000_000
_LONGEST_NS = 35 * 3600 * _SECOND_NS  # an interval of 36 h and more is refused by the collector


class TargetState:
    """What is remembered of one target between two scrapes.

    The first page is only where counting begins, unless `from_zero`: then everything that the
    engine counted since it started is told. What it runs is seen on its pages, not configured.
    """

    def __init__(
        self,
        labels: Labels,
        *,
        from_zero: bool = False,
        stall_after_s: float = STALL_AFTER_S,
        declared: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        """`declared`: levels that no page tells, but the operator."""
        self.labels = labels_of((*labels, ("source", "page")))
        self.role = value_of(labels, "role")
        self.engine = ""
        self.families: dict[str, Memory] = {}
        self.choice = Choice()
        self.pending: Pending = {}
        self.page_at_ns: int | None = None
        self._from_zero = from_zero
        self._declared = declared
        self._stall_after_s = stall_after_s
        self._progress, self._cache, self._answers = Progress(), Cache(), Answers()
        self._tried_at_ns: int | None = None
        self._started_at_s: float | None = None
        self.models: frozenset[str] = frozenset()

    def observe(self, page: Page, at_ns: int) -> Reading:
        """What is new on the page, and what was wrong with it."""
        at_ns, tried_at_ns = self._next_instant(at_ns)
        engines = engines_of(page)
        if not engines:
            return self._down("unknown_page", strangers(page), at_ns, tried_at_ns)
        started_at_s = max((value for _, value in page.samples(START_TIME)), default=None)
        if self._is_older(started_at_s):
            return self._two_processes(at_ns, tried_at_ns)
        self.engine = engines[0].name
        if self._from_zero and self.page_at_ns is None:
            self.page_at_ns = _beginning_ns(page, started_at_s, at_ns)
        restarted = self._is_newer(started_at_s)
        scraped = Scraped(self, page, at_ns=at_ns, since_ns=tried_at_ns, restarted=restarted)
        self._take(scraped, engines)
        self._drift(scraped, same_process=started_at_s is not None and not restarted)
        scraped.finish()
        self._started_at_s = started_at_s or self._started_at_s
        self._from_zero = False
        if self.page_at_ns is None and page.torn:
            self.families.clear()  # why: what was cut off may have counted for long
        else:
            self.page_at_ns = at_ns
        return self._reading(scraped, page, engines, at_ns)

    def failed(self, failure: ScrapeError, at_ns: int) -> Reading:
        """A scrape that gave nothing: what is remembered stays."""
        at_ns, tried_at_ns = self._next_instant(at_ns)
        return self._down(failure.reason, str(failure), at_ns, tried_at_ns)

    def forget_standstill(self) -> None:
        """Nobody knows for how long nothing has moved: somebody set the clock."""
        self._progress.still_since_ns = None

    def _take(self, scraped: Scraped, engines: Iterable[Engine]) -> None:
        self.choice.begin()
        for engine in engines:
            for row in engine.rows:
                if self.role in row.roles:
                    scraped.take(engine, row)
        self.models = scraped.models or self.models

    def _drift(self, scraped: Scraped, *, same_process: bool) -> None:
        for note in self.choice.notes:
            scraped.note(note)
        same = same_process or (scraped.continued and not scraped.any_reset)
        serving = bool(scraped.gathered.increase("requests_finished"))
        for metric, family in self.choice.drifted(same_process=same, serving=serving):
            note = f"schema drift: {family} is gone while the engine is up"
            scraped.count("schema_drift", metric, note)

    def _reading(
        self, scraped: Scraped, page: Page, engines: tuple[Engine, ...], at_ns: int
    ) -> Reading:
        gathered = scraped.gathered
        lacking = missing(page, engines, self.role)
        if self._doubt_cache(scraped):
            lacking = tuple(dict.fromkeys((*lacking, "kv_cache_usage")))
        stalled = self._stalled(scraped, page, engines, at_ns)
        self._question_role(scraped)
        return Reading(
            target=self.labels,
            at_ns=at_ns,
            up=True,
            engine=", ".join(dict.fromkeys(engine.title for engine in engines)),
            latencies=gathered.latencies(),
            increments=gathered.increments(),
            levels=(
                *self._up(1.0),
                *gathered.levels(),
                *stalled,
                *(self._level("not_reported", 1.0, stage) for stage in lacking),
                *(self._level(metric, value) for metric, value in self._declared.items()),
            ),
            absent=tuple(sorted(self.choice.absent)),
            missing=lacking,
            notes=tuple(gathered.notes),
        )

    def _doubt_cache(self, scraped: Scraped) -> bool:
        gathered = scraped.gathered
        capacity = gathered.together("kv_cache_capacity")
        running = gathered.together("requests_running")
        finished = gathered.increase("requests_finished")
        why = self._cache.doubt(
            gathered.together("kv_cache_usage"),
            capacity,
            busy=bool(running if running is not None else finished),
        )
        if capacity == 0:
            gathered.drop_levels("kv_cache_capacity")
        if why:
            gathered.drop_levels("kv_cache_usage")
            scraped.note(why)
        return bool(why)

    def _stalled(
        self, scraped: Scraped, page: Page, engines: Iterable[Engine], at_ns: int
    ) -> tuple[Level, ...]:
        gathered, marks = scraped.gathered, pulse(page, engines)
        levels = [gathered.together(name) for name in ("requests_running", "requests_waiting")]
        told = [level for level in levels if level is not None]
        if not marks or not told:
            return ()
        requests = sum(told)
        still_s = self._progress.standstill_s(marks, requests, at_ns)
        is_stalled = still_s >= self._stall_after_s
        if is_stalled:
            scraped.note(
                f"the engine stands still: {requests:g} requests are there, and no step and no "
                f"token came for {still_s:.1f} s"
            )
        return (self._level("engine_stalled", float(is_stalled)),)

    def _question_role(self, scraped: Scraped) -> None:
        if self.role == "prefill":
            return
        told = (scraped.gathered.increase(n) for n in ("generation_tokens", "requests_finished"))
        if question := self._answers.question(self.role, *told):
            scraped.note(question)

    def _down(self, reason: str, note: str, at_ns: int, tried_at_ns: int) -> Reading:
        labels = labels_of({**self._own(), "reason": reason})
        count = Increment(metric="failed_scrapes", labels=labels, start_at_ns=tried_at_ns, by=1)
        return Reading(
            target=self.labels,
            at_ns=at_ns,
            up=False,
            increments=(count,),
            levels=self._up(0.0, reason),
            absent=tuple(sorted(self.choice.absent)),
            notes=(note,),
        )

    def _own(self) -> dict[str, str]:
        """The labels of what is said of the target itself."""
        return {"engine": self.engine, **dict(self.labels)}

    def _level(self, metric: str, value: float, reason: str = "") -> Level:
        (model,) = self.models if len(self.models) == 1 else ("",)
        labels = labels_of({"model": model, **self._own(), "reason": reason})
        return Level(metric=metric, labels=labels, value=value)

    def _up(self, value: float, reason: str = "") -> tuple[Level, ...]:
        """One level per model of the page, so that a question about a model finds it."""
        models = sorted(self.models) or [""]
        return tuple(
            Level(
                metric="up",
                labels=labels_of({"model": model, **self._own(), "reason": reason}),
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
        self.pending.clear()
        self.choice.forget()
        self.page_at_ns = self._started_at_s = None
        note = (
            "an engine answered that started before the last one did: several processes behind "
            "one address. Name each as a target of its own."
        )
        return self._down("several_processes", note, at_ns, tried_at_ns)


def _beginning_ns(page: Page, started_at_s: float | None, at_ns: int) -> int:
    """When an engine began to count: its start, else its oldest family's, else a second before."""
    if started_at_s is None:
        made = (name for name in page.names() if name.endswith(CREATED))
        times = [value for name in made for _, value in page.samples(name)]
        started_at_s = min(times, default=None)
    if started_at_s is None or not 0 < started_at_s * _SECOND_NS < at_ns:
        return at_ns - _SECOND_NS
    return max(int(started_at_s * _SECOND_NS), at_ns - _LONGEST_NS)
