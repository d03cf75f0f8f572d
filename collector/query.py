"""The one door through which alerts, dashboard, command line and API read telemetry.

Instants are whole seconds since 1970 (UTC); a window is half-open, [since_s, until_s), and is
widened outward to the finest tier (10 s). Labels in `where` must all match, "" meaning absent.
Of several sources that measured the same service at the same time one answers, spans first
(`docs/decisions/0004`), unless `where` names a `source`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction
from typing import Protocol

from domain.condition import Condition, ConditionKind
from domain.distribution import Distribution
from domain.endpoint import EndpointKey, PointState
from domain.gpu import Gpus
from domain.indicator import Indicator
from domain.labels import Labels
from domain.leg_columns import LegColumns
from domain.request import Request, Stage
from domain.request_columns import RequestColumns, Traced
from domain.slice import MINUTE_S, Slice

__all__ = [
    "EndpointReading",
    "EndpointSeries",
    "Flow",
    "Freshness",
    "NumberPoint",
    "Numbers",
    "Point",
    "Reader",
    "Replica",
    "Selection",
    "Series",
    "StageShare",
    "Stages",
    "Unmeasured",
    "Window",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """[since_s, until_s)."""

    since_s: int
    until_s: int

    def __post_init__(self) -> None:
        if self.until_s <= self.since_s:
            raise ValueError(f"a window ends after it begins: {self}")

    @property
    def minutes(self) -> range:
        """The whole minutes inside it, by when they begin."""
        first_s = -(-self.since_s // MINUTE_S) * MINUTE_S
        return range(first_s, self.until_s // MINUTE_S * MINUTE_S, MINUTE_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which series, how grouped, and in which steps; `step_s=None` is one point for it all.

    `counted`: of stages, the requests in and out too; whoever only compares durations need not ask.
    """

    window: Window
    where: Labels = ()
    by: tuple[str, ...] = ()
    step_s: int | None = None
    counted: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One step of a latency. `failed` requests have no value and belong in any denominator."""

    since_s: int
    until_s: int
    distribution: Distribution
    failed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One group of a latency query. Steps without values are absent. `sources`: who measured."""

    labels: Labels
    points: Sequence[Point]
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberPoint:
    """One step of a gauge (mean, least, most, last over the step) or a counter (its increase)."""

    since_s: int
    until_s: int
    value: float  # a counter's increase; a gauge's mean over time, added or averaged over replicas
    low: float
    high: float
    last: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """One group of a gauge or counter query. Steps without readings are absent.

    `weighted_by`: the gauge by which a ratio is averaged over replicas; empty for a plain mean.
    """

    labels: Labels
    points: Sequence[NumberPoint]
    weighted_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Requests in and out of a window. None where nobody counts it; that is not zero.

    `started` counts first tokens: answers begun. `in_flight_before`: what ran when the window
    began, of which some had begun before and may have ended in it.
    """

    started: int | None
    finished: int | None
    failed: int | None
    cancelled: int | None
    rejected: int | None
    in_flight_before: int | None = None

    @property
    def unfinished_low(self) -> int | None:
        """Answers begun and not ended, at least: still running, or given up without a word.

        Survivors' percentiles leave these out. Never below zero: what began before the window and
        ended in it is no debt.
        """
        if self.started is None or self.finished is None:
            return None
        return max(self.started - self.finished, 0)

    @property
    def unfinished_high(self) -> int | None:
        """The same at most; None where it is not known what ran when the window began."""
        if self.started is None or self.finished is None or self.in_flight_before is None:
            return None
        low = max(self.started - self.finished, 0)
        return max(self.in_flight_before + self.started - self.finished, low)


class Unmeasured(StrEnum):
    """Why nobody measured a stage."""

    NOT_REPORTED = "the engine does not report it"
    NO_CLIENT = "no client sends spans"
    NO_SPANS = "no spans, and pages cannot tell it"
    NOT_TOLD = "nobody tells it"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageShare:
    """One stage of a group; the mean is None where only an interval of quantiles is known.

    `share` is mean over the group's mean E2E, of which the network is no part: None there.
    """

    stage: Stage
    distribution: Distribution
    mean_s: float | None
    share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Where a group's requests spend their time.

    `missing` stages were measured by nobody; `reasons` say why not, for each of them.
    """

    labels: Labels
    window: Window
    e2e: Distribution
    ttft: Distribution
    stages: Sequence[StageShare]
    missing: tuple[Stage, ...]
    flow: Flow
    reasons: Mapping[Stage, Unmeasured] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """One replica, and what it last said of itself. `up` is None where nobody asks.

    `since_s`: the oldest of its data in the window. `sources`: who told of it.
    """

    labels: Labels
    last_seen_at_s: int
    up: bool | None
    since_s: int | None = None
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """How old the newest value of a service is, and how much of it is watched.

    `since_s`: the oldest of its data in the window; before that nobody watched.
    """

    service: str
    newest_at_s: int | None
    replicas: Sequence[Replica]
    since_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointReading:
    """One period of a managed endpoint. `provisional`: it may still change. No reading: unknown."""

    since_s: int
    until_s: int
    state: PointState
    statistics: Mapping[str, float]
    provisional: bool
    fetched_at_s: float
    revision: int
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointSeries:
    """One metric of one endpoint. Of several levels of one metric add up only one."""

    key: EndpointKey
    service: str
    metric: str
    unit: str
    level: str
    settled_until_s: int | None
    points: Sequence[EndpointReading]


class Reader(Protocol):
    """What may be asked. Every answer carries its doubt; nothing is interpolated."""

    def latency(self, metric: str, selection: Selection) -> Sequence[Series]:
        """Distributions of a latency (`domain.metric.LATENCIES`), one series per group."""
        ...

    def numbers(self, metric: str, selection: Selection) -> Sequence[Numbers]:
        """A gauge or a counter, added up as its kind says."""
        ...

    def stages(self, selection: Selection) -> Sequence[Stages]:
        """Where the time goes, one per group. `step_s` is not used."""
        ...

    def requests(
        self, window: Window, *, where: Labels = (), limit: int = 100, slowest_by: str | None = None
    ) -> Sequence[Request]:
        """Requests that ended in the window: newest first, or slowest by a field such as `ttft`."""
        ...

    def request(self, trace_id: bytes) -> Request | None:
        """One request, joined from all its legs, or None."""
        ...

    def traced(self, trace_id: bytes) -> Sequence[Traced]:
        """The requests of one trace, each with its legs; the one that began first comes first."""
        ...

    def request_columns(self, window: Window, *, where: Labels = ()) -> RequestColumns:
        """The newest of the requests that ended in the window, by the thousand."""
        ...

    def legs(self, window: Window, *, where: Labels = (), most: int = 20_000) -> LegColumns:
        """What single processes said of requests in the window, not joined: the newest `most`."""
        ...

    def slices(self, indicator: Indicator, window: Window) -> Sequence[Slice]:
        """One slice per whole minute of the window, in order, none left out.

        Exact where requests are kept, bounds where only histograms are. A minute that no source
        covers is not observed; that is not the same as a minute without traffic.
        """
        ...

    def slices_of(
        self, indicators: Sequence[Indicator], window: Window
    ) -> Sequence[Sequence[Slice]]:
        """The same for many at once, in one view of the store: what they share is read once.

        One that cannot be told fails all of them; whoever wants the others asks one by one.
        """
        ...

    def settled_s(self, indicator: Indicator, now_s: float) -> int | None:
        """Up to here its minutes may be judged; None: where the watermark says, as of all others.

        Periods of managed endpoints change for a while after their end. Their minutes are not
        observed until they have settled, so whoever judges earlier judges nothing. What nobody
        settles is given up after an hour: from then on it stays not observed.
        """
        ...

    def edges_around(
        self, indicator: Indicator, window: Window
    ) -> tuple[Fraction, Fraction] | None:
        """The nearest thresholds that a coarse source decides exactly.

        None for exact sources, and for what is no promise about a single latency.
        """
        ...

    def endpoints(
        self, window: Window, *, service: str = "", metric: str = ""
    ) -> Sequence[EndpointSeries]:
        """Managed endpoints as CloudWatch tells of them; "" means all. `metric`: our name or AWS's."""
        ...

    def gpus(self, window: Window, *, where: Labels = (), step_s: int | None = None) -> Gpus:
        """GPUs over a window: what each does, what holds it down, whom it serves, what its pool lacks.

        `where` asks for a GPU's labels or for whom it serves. With `step_s` each has its moments.
        What a MIG instance, a model of GPU or an exporter does not tell is None, and named.
        """
        ...

    def label_values(self, name: str, window: Window) -> Sequence[str]:
        """The values a label took, sorted."""
        ...

    def freshness(self, window: Window, *, service: str = "") -> Sequence[Freshness]:
        """How old each service's newest data are, or one's."""
        ...

    def conditions(
        self,
        at_s: int,
        *,
        where: Labels = (),
        kinds: Collection[ConditionKind] = tuple(ConditionKind),
        over_within_s: int = 120,
    ) -> Sequence[Condition]:
        """What is wrong with the engines themselves at an instant whose finest tiles are kept.

        Of the quarter of an hour before it. Worst first; what was over within `over_within_s` comes
        last. A condition that nobody confirms any more is told too, and says so.
        """
        ...

    def watermark_s(self) -> int | None:
        """Up to here the data of every live source has arrived; None while there is none."""
        ...

    def health(self) -> Mapping[str, float]:
        """The collector's own counters by name, for the status page and `/metrics`."""
        ...

    def export(self, window: Window, *, where: Labels = ()) -> Iterator[Request]:
        """All requests of a window, streamed in order of their end."""
        ...
