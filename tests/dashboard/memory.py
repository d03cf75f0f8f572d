"""A reader and a ledger that hold everything in memory, for pages to be drawn from."""
# ruff: noqa: ARG002 - a protocol names its arguments, also those that nothing here depends on

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from alerts.change import Change
from alerts.ledger import AlertRecord, Budget, Standing, StandingState
from collector.query import (
    Flow,
    Freshness,
    NumberPoint,
    Numbers,
    Point,
    Replica,
    Series,
    Stages,
    StageShare,
    Window,
)
from domain.buckets import from_buckets, layout
from domain.condition import Condition, ConditionKind
from domain.distribution import EMPTY, add_all, exact
from domain.gpu import Gpus
from domain.indicator import Indicator
from domain.labels import matches, project, value_of
from domain.leg_columns import LegColumns
from domain.objective import Objective
from domain.request import Stage
from domain.request_columns import RequestColumns
from domain.slice import Slice, SliceState, tally

EDGES_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, float("inf"))


class BrokenReaderError(RuntimeError):
    """What a reader raises whose store has gone."""


@dataclass(kw_only=True)
class Stream:
    """All values of one metric of one series."""

    metric: str
    labels: tuple
    at_s: np.ndarray
    value_s: np.ndarray
    coarse: bool = False
    known: dict = field(default_factory=dict)

    def between(self, since_s, until_s):
        first, last = np.searchsorted(self.at_s, (since_s, until_s))
        return self.value_s[first:last]

    def distribution(self, since_s, until_s):
        window = (since_s, until_s)
        if window not in self.known:
            self.known[window] = self._distribution(since_s, until_s)
        return self.known[window]

    def _distribution(self, since_s, until_s):
        values = self.between(since_s, until_s)
        if not len(values):
            return None
        if not self.coarse:
            return exact(values)
        places = np.searchsorted(np.array(EDGES_S), values)
        counts = np.bincount(places, minlength=len(EDGES_S)).astype(np.int64)
        return from_buckets(layout(EDGES_S), counts, float(values.sum())).distribution


@dataclass(kw_only=True)
class Gauge:
    """The last readings of one gauge of one replica."""

    metric: str
    labels: tuple
    at_s: int
    value: float


@dataclass(kw_only=True)
class World:
    """Everything that was ever measured, and who was looking when."""

    streams: list[Stream] = field(default_factory=list)
    endpoint_series: list = field(default_factory=list)
    gauges: list[Gauge] = field(default_factory=list)
    replicas: dict[str, list[Replica]] = field(default_factory=dict)
    unobserved: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    unfinished: dict[str, int] = field(default_factory=dict)
    newest_at_s: dict[str, int | None] = field(default_factory=dict)
    since_s: dict[str, int] = field(default_factory=dict)
    objectives: list[tuple[Objective, str]] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    condition_alerts: list[AlertRecord] = field(default_factory=list)
    told: list[Change] = field(default_factory=list)
    now_s: int = 0


class MemoryReader:
    """The query door over a world; `broken` is a store that has gone."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.broken = False
        self.asked = 0

    def _streams(self, metric, where):
        self.asked += 1
        if self.broken:
            raise BrokenReaderError("store 'stagewatch.db': no such file. Start the collector.")
        return [s for s in self.world.streams if s.metric == metric and matches(s.labels, where)]

    def latency(self, metric, selection) -> Sequence[Series]:
        window, step = selection.window, selection.step_s
        groups: dict[tuple, list[Stream]] = {}
        for stream in self._streams(metric, selection.where):
            groups.setdefault(project(stream.labels, selection.by), []).append(stream)
        begins = (
            range(window.since_s // step * step, window.until_s, step)
            if step
            else (window.since_s,)
        )
        found = []
        for labels, streams in groups.items():
            points = []
            for begin_s in begins:
                end_s = begin_s + step if step else window.until_s
                parts = [s.distribution(max(begin_s, window.since_s), end_s) for s in streams]
                parts = [part for part in parts if part is not None]
                if parts:
                    points.append(
                        Point(since_s=begin_s, until_s=end_s, distribution=add_all(parts))
                    )
            if points:
                found.append(Series(labels=labels, points=points, sources=frozenset({"span"})))
        return found

    def numbers(self, metric, selection) -> Sequence[Numbers]:
        groups: dict[tuple, list[Gauge]] = {}
        for gauge in self.world.gauges:
            inside = selection.window.since_s <= gauge.at_s < selection.window.until_s
            if gauge.metric == metric and matches(gauge.labels, selection.where) and inside:
                groups.setdefault(project(gauge.labels, selection.by), []).append(gauge)
        window = selection.window
        answer = []
        for labels, gauges in groups.items():
            total = sum(gauge.value for gauge in gauges)
            value = total / len(gauges) if metric == "kv_cache_usage" else total
            step = selection.step_s
            since_s = gauges[0].at_s // step * step if step else window.since_s
            until_s = since_s + step if step else window.until_s
            point = NumberPoint(
                since_s=since_s, until_s=until_s, value=value, low=value, high=value, last=value
            )
            answer.append(Numbers(labels=labels, points=[point]))
        return answer

    def stages(self, selection) -> Sequence[Stages]:
        window = selection.window
        whole: dict[str, Mapping] = {}
        for metric in ("ttft", "e2e", *Stage):
            series = self.latency(str(metric), selection)
            whole[str(metric)] = {
                each.labels: add_all(point.distribution for point in each.points) for each in series
            }
        groups = {labels for found in whole.values() for labels in found}
        answer = []
        for labels in groups:
            e2e = whole["e2e"].get(labels, EMPTY)
            shares = [
                StageShare(
                    stage=stage,
                    distribution=whole[stage][labels],
                    mean_s=whole[stage][labels].mean_s,
                    share=(whole[stage][labels].mean_s or 0) / e2e.mean_s if e2e.mean_s else None,
                )
                for stage in Stage
                if labels in whole[stage]
            ]
            missing = tuple(stage for stage in Stage if labels not in whole[stage])
            answer.append(
                Stages(
                    labels=labels, window=window, e2e=e2e,
                    ttft=whole["ttft"].get(labels, EMPTY), stages=shares, missing=missing,
                    flow=self._flow(selection, labels, e2e.n),
                )
            )  # fmt: skip
        return answer

    def _flow(self, selection, labels, finished):
        picked = dict(selection.where) | dict(labels)
        unfinished = self.world.unfinished.get(picked.get("replica") or picked.get("service"))
        started = None if unfinished is None else finished + unfinished
        return Flow(started=started, finished=finished, failed=0, cancelled=2, rejected=0)

    def slices(self, indicator: Indicator, window: Window) -> Sequence[Slice]:
        service = value_of(indicator.where, "service")
        streams = self._streams(indicator.metric, indicator.where)
        gaps = self.world.unobserved.get(service, [])
        answer = []
        for minute_s in range(window.since_s // 60 * 60, window.until_s // 60 * 60, 60):
            parts = [s.distribution(minute_s, minute_s + 60) for s in streams]
            whole = add_all(part for part in parts if part is not None)
            low, high = whole.at_most(float(indicator.threshold_s))
            seen = not any(since <= minute_s < until for since, until in gaps)
            answer.append(
                Slice(
                    minute_at_s=minute_s, good_low=low, good_high=high, total=whole.n,
                    observed=seen or bool(whole.n),
                )
            )  # fmt: skip
        return answer

    def edges_around(self, indicator, window):
        return None

    def requests(self, window, *, where=(), limit=100, slowest_by=None):
        return ()

    def request(self, trace_id):
        return None

    def traced(self, trace_id):
        return ()

    def legs(self, window, *, where=(), most=20_000):
        return LegColumns.empty()

    def request_columns(self, window, *, where=()):
        return RequestColumns.empty()

    def endpoints(self, window, *, service="", metric=""):
        return [each for each in self.world.endpoint_series if service in ("", each.service)]

    def label_values(self, name, window):
        return sorted({value_of(s.labels, name) for s in self.world.streams} - {""})

    def freshness(self, window, *, service="") -> Sequence[Freshness]:
        if self.broken:
            raise BrokenReaderError("store 'stagewatch.db': no such file. Start the collector.")
        return [
            Freshness(
                service=name,
                newest_at_s=self.world.newest_at_s.get(name),
                replicas=replicas,
                since_s=self.world.since_s.get(name),
            )
            for name, replicas in self.world.replicas.items()
            if service in ("", name)
        ]

    def conditions(self, at_s, *, where=(), kinds=tuple(ConditionKind), over_within_s=120):
        return [
            each for each in self.world.conditions if each.kind in kinds and _is_of(each, where)
        ]

    def gpus(self, window, *, where=(), step_s=None):
        return Gpus(since_s=window.since_s, until_s=window.until_s)

    def watermark_s(self):
        return self.world.now_s

    def health(self):
        return {}

    def export(self, window, *, where=()):
        return iter(())


class MemoryLedger:
    """The ledger over the same world, judged once a call."""

    def __init__(self, reader: MemoryReader) -> None:
        self.reader = reader

    def standings(self, *, spark_s: int = 10_800) -> Sequence[Standing]:
        return [self._standing(*each) for each in self.reader.world.objectives]

    def standing(self, objective_id, *, spark_s=10_800):
        return next((each for each in self.standings() if each.id == objective_id), None)

    def slices(self, objective_id, since_s, until_s):
        return ()

    def alerts(self, *, limit=100):
        return ()

    def alert(self, alert_id):
        return None

    def conditions(self):
        return self.reader.world.condition_alerts

    def history(self, objective_id, *, limit=200):
        return ()

    def silences(self, *, at_s, limit=200):
        return ()

    def told_changes(self, since_s, until_s, *, where=()):
        return [each for each in self.reader.world.told if since_s <= each.at_s < until_s]

    def _standing(self, objective: Objective, message: str) -> Standing:
        now_s = self.reader.world.now_s
        minutes = Window(since_s=now_s - 3600, until_s=now_s)
        broken, self.reader.broken = self.reader.broken, False
        slices = self.reader.slices(objective.indicator, minutes)
        self.reader.broken = broken
        hour = tally(slices)
        state = _state(objective, hour, slices)
        allowed = objective.budget * hour.total * 24
        seen = [each.minute_at_s + 60 for each in slices if each.observed]
        return Standing(
            id=objective.name, objective=objective, description="", state=state,
            stale=state is StandingState.PAGE and not slices[-1].observed, rules=(),
            budget=Budget(
                allowed=allowed, spent_low=hour.bad_low, spent_high=hour.bad_high,
                total=hour.total * 24, period_s=objective.period_s, counted_since_s=None,
            ),
            last_hour=hour, slices=slices, evaluated_at_s=now_s,
            observed_at_s=max(seen, default=None),
            message=message or f"{objective.name} is quiet: {_reason(state)}.", alert_ids=(),
        )  # fmt: skip


def _is_of(condition, where):
    return all(value_of(condition.labels, name) == value for name, value in where)


def _state(objective, hour, slices):
    if hour.total and hour.bad_low > Fraction(144, 10) * objective.budget * hour.total:
        return StandingState.PAGE
    if not slices[-1].observed:
        return StandingState.NOT_OBSERVED
    if not hour.total:
        return StandingState.NO_TRAFFIC
    if hour.bad_high > 3 * objective.budget * hour.total:
        return StandingState.TICKET
    return StandingState.HEALTHY


def _reason(state):
    return {
        StandingState.HEALTHY: "within the promise in at least one window",
        StandingState.NO_TRAFFIC: "nobody asked",
        StandingState.NOT_OBSERVED: "nobody was looking",
    }.get(state, state)


__all__ = [
    "BrokenReaderError",
    "Gauge",
    "MemoryLedger",
    "MemoryReader",
    "SliceState",
    "Stream",
    "World",
]
