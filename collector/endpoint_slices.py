"""Minutes of a managed endpoint as CloudWatch counts them, once they have settled.

Good requests are PR/100 x SampleCount, which adds; failed and throttled ones are in the total. A
period of several minutes is counted in its last one, and the others have no traffic, so that sums
are exact. A period that may still change, or of which a series that is polled has not been read, is
not observed: nothing fires on half a count, and nothing resolves on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from collector.endpoint_series import endpoints
from collector.query import EndpointReading, EndpointSeries, Window
from collector.snapshot import Snapshot
from domain.endpoint import Good, answered, good_count, rank_threshold
from domain.endpoint_catalogue import metric_of
from domain.errors import InputError
from domain.indicator import EndpointIndicator
from domain.labels import labels_of, matches, value_of
from domain.slice import MINUTE_S, Slice

__all__ = ["GIVEN_UP_S", "minutes", "settled_s"]

GIVEN_UP_S = 3600
"""What has not settled for so long after it was no longer waited for."""

_DONE, _FAILED, _THROTTLED, _EXCLUDED = "invocations", "server_errors", "throttles", "client_errors"
_ENDPOINT = "endpoint"  # the level that adds up; every other is the same traffic again

_Readings = Mapping[str, EndpointReading]  # by our name of the metric


@dataclass(slots=True)
class _Place:
    """One endpoint in periods of one length: the series that tell of it."""

    period_s: int
    series: dict[str, EndpointSeries] = field(default_factory=dict)

    def periods(self) -> Iterator[tuple[int, _Readings]]:
        """Beginning and readings of each period that anybody told of."""
        by_start: dict[int, dict[str, EndpointReading]] = {}
        for name, each in self.series.items():
            for reading in each.points:
                by_start.setdefault(reading.since_s, {})[name] = reading
        yield from sorted(by_start.items())

    @property
    def polled(self) -> frozenset[str]:
        """The series of which every period is told, also an empty one."""
        return frozenset(
            name
            for name, each in self.series.items()
            if any(reading.source == "poll" for reading in each.points)
        )


@dataclass(slots=True)
class _Minute:
    """What settled periods add to one minute."""

    good: Good = field(default_factory=lambda: Good(0, 0, 0))
    excluded: int = 0
    observed: bool = False
    doubted: bool = False  # some period there has not settled


def minutes(
    snapshot: Snapshot, indicator: EndpointIndicator, window: Window, *, now_s: float
) -> list[Slice]:
    """One slice per whole minute of the window."""
    asked = window.minutes
    around = Window(since_s=asked.start - GIVEN_UP_S, until_s=asked.stop)
    found = {at_s: _Minute() for at_s in asked}
    for places in _places(snapshot, indicator, around, now_s=now_s):
        _count(places, indicator, found)
    return [_slice(at_s, minute) for at_s, minute in found.items()]


def settled_s(snapshot: Snapshot, indicator: EndpointIndicator, now_s: float) -> int:
    """Up to here its minutes may be judged: what every endpoint that still tells has settled."""
    oldest_s = int(now_s) - GIVEN_UP_S
    around = Window(since_s=oldest_s - GIVEN_UP_S, until_s=int(now_s) + 1)
    ends = [
        end_s
        for places in _places(snapshot, indicator, around, now_s=now_s)
        if (end_s := _settled(places)) is not None and end_s > oldest_s
    ]
    return min([*ends, int(now_s)]) if ends else oldest_s


def _settled(places: Iterable[_Place]) -> int | None:
    """Of one endpoint: what is polled waits for the last of its series, a stream for none."""
    newest: list[int] = []
    for place in places:
        polled = place.polled or place.series.keys()
        ends = [place.series[name].settled_until_s for name in polled]
        told = [end_s for end_s in ends if end_s is not None]
        if told and (not place.polled or len(told) == len(ends)):
            newest.append(min(told) if place.polled else max(told))
    return max(newest, default=None)


def _places(
    snapshot: Snapshot, indicator: EndpointIndicator, window: Window, *, now_s: float
) -> list[list[_Place]]:
    """The endpoints asked for, each by its periods, the shortest first."""
    wanted = {indicator.metric or _DONE, _FAILED, _THROTTLED, _EXCLUDED}
    by_place: dict[object, dict[int, _Place]] = {}
    service = value_of(indicator.where, "service")
    for each in endpoints(snapshot, window, service=service, metric="", now_s=now_s):
        key = each.key
        ours = indicator.metric if key.name == indicator.metric else each.metric
        if ours not in wanted or key.period_s > GIVEN_UP_S or not _is_asked(each, indicator):
            continue
        place = by_place.setdefault((key.account, key.region, key.namespace, key.dimensions), {})
        place.setdefault(key.period_s, _Place(key.period_s)).series[ours] = each
    anchor = indicator.metric or _DONE
    return [
        [place for _, place in sorted(periods.items())]
        for periods in by_place.values()
        if any(anchor in place.series for place in periods.values())
    ]


def _is_asked(each: EndpointSeries, indicator: EndpointIndicator) -> bool:
    """Of its kind and place, under its dimensions, and at the level that adds up."""
    key = each.key
    known = metric_of(key.namespace, key.name, (name for name, _ in key.dimensions))
    return (
        each.level == _ENDPOINT
        and known is not None
        and known[0].family.kind == indicator.service
        and set(indicator.dimensions) <= set(key.dimensions)
        and matches(labels_of({"service": each.service, "region": key.region}), indicator.where)
    )


def _count(
    places: Iterable[_Place], indicator: EndpointIndicator, found: Mapping[int, _Minute]
) -> None:
    """Add one endpoint. What shorter periods told of already, a longer one does not tell again."""
    taken: set[int] = set()
    for place in places:
        polled = place.polled
        for since_s, readings in place.periods():
            until_s = since_s + place.period_s
            covered = range(since_s // MINUTE_S * MINUTE_S, until_s, MINUTE_S)
            if place.period_s > MINUTE_S and not taken.isdisjoint(covered):
                continue
            taken.update(covered)
            settled = polled <= readings.keys() and not any(
                reading.provisional for reading in readings.values()
            )
            for at_s in covered:
                if (minute := found.get(at_s)) is not None:
                    minute.observed = True
                    minute.doubted |= not settled
            if settled and (last := found.get(covered[-1])) is not None:
                last.good += _good(readings, indicator)
                last.excluded += round(_sum(readings, _EXCLUDED))


def _slice(at_s: int, minute: _Minute) -> Slice:
    if minute.doubted or not minute.observed:
        return Slice(minute_at_s=at_s, observed=False)
    return Slice(
        minute_at_s=at_s,
        good_low=minute.good.low,
        good_high=minute.good.high,
        total=minute.good.total,
        excluded=minute.excluded,
    )


def _good(readings: _Readings, indicator: EndpointIndicator) -> Good:
    failed, throttled = _sum(readings, _FAILED), _sum(readings, _THROTTLED)
    if indicator.threshold_s is None:
        return answered(
            invocations=_sum(readings, _DONE),
            server_errors=failed,
            throttles=throttled,
            counts_failures=indicator.counts_failures,
        )
    reading = readings.get(indicator.metric)
    fast = _fast({} if reading is None else reading.statistics, indicator.threshold_s)
    return fast + Good(0, 0, round(failed) + round(throttled))


def _fast(statistics: Mapping[str, float], threshold_s: Fraction) -> Good:
    """Requests up to a threshold; where it was not asked for, what the nearest ones leave open."""
    samples = statistics.get("SampleCount", 0.0)
    low, high, total = 0, round(samples), round(samples)
    for name, value in statistics.items():
        counted = rank_threshold(name)
        if counted is None:
            continue
        good = _counted(value, samples)
        low = max(low, good.low) if counted <= threshold_s else low
        high = min(high, good.high) if counted >= threshold_s else high
    if total and statistics.get("Maximum", float("inf")) <= float(threshold_s):
        low = high = total
    if total and statistics.get("Minimum", float("-inf")) > float(threshold_s):
        low = high = 0
    return Good(min(low, high), high, total)


def _counted(percent: float, samples: float) -> Good:
    try:
        return good_count(percent, samples)
    except InputError:  # why: fractional samples are counted as nothing but doubt
        return Good(0, round(samples), round(samples))


def _sum(readings: _Readings, name: str) -> float:
    """What was counted; where a count was silent, nothing happened."""
    reading = readings.get(name)
    if reading is None:
        return 0.0
    statistics = reading.statistics
    # why SampleCount: a gateway's count of requests is published as that alone
    return max(statistics.get("Sum", statistics.get("SampleCount", 0.0)), 0.0)
