"""What was read before of each series: what is new, what changed late, what has settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.endpoint import EndpointKey, EndpointPoint, PointState
from exporters.cloudwatch.answer import SeriesAnswer
from exporters.cloudwatch.asked import Asked
from exporters.cloudwatch.settling import SettleLag
from exporters.cloudwatch.window import ReadWindow

__all__ = ["Ledger"]


@dataclass(slots=True)
class _Known:
    statistics: Mapping[str, float]
    settled: bool
    changed_age_s: float = 0.0


@dataclass(slots=True)
class _Series:
    known: dict[int, _Known] = field(default_factory=dict)
    covered_from_s: int | None = None
    read_until_s: int | None = None  # every period before it was read completely
    active_at_s: int | None = None  # the newest period with something in it


class Ledger:
    """The memory of one account and region."""

    def __init__(self, lag: SettleLag) -> None:
        self.lag = lag
        self.late_update_s: list[float] = []
        self._series: dict[EndpointKey, _Series] = {}

    def read_until_s(self, key: EndpointKey) -> int | None:
        return self._series[key].read_until_s if key in self._series else None

    def active_at_s(self, key: EndpointKey) -> int | None:
        return self._series[key].active_at_s if key in self._series else None

    def newest_settled_s(self, key: EndpointKey) -> int | None:
        """The end of the newest settled period; questions without a time are asked for then."""
        known = self._series[key].known if key in self._series else {}
        ends = [start + key.period_s for start, each in known.items() if each.settled]
        return max(ends, default=None)

    def take_late(self) -> list[float]:
        """Ages of periods that changed since this was asked for the last time."""
        taken, self.late_update_s = self.late_update_s, []
        return taken

    def observe(
        self, asked: Asked, window: ReadWindow, answer: SeriesAnswer, fetched_at_s: float
    ) -> list[EndpointPoint]:
        """The points that are new, changed, or settled by this reading."""
        series = self._series.setdefault(asked.key, _Series())
        period_s = asked.key.period_s
        settled_until_s = fetched_at_s - self.lag.lag_s(asked.key.namespace) - period_s
        told = []
        for start in window.starts(period_s):
            settled = answer.complete and start <= settled_until_s
            values = answer.values.get(start, {})
            if not (values or settled) or self._is_cut_off(series, start, values, answer):
                continue  # nobody knows yet
            if self._is_news(series, asked, start, values, settled=settled, at_s=fetched_at_s):
                told.append(_point(asked, start, values, fetched_at_s, settled=settled))
            if any(values.get(name, 0) > 0 for name in ("SampleCount", "Sum")):
                series.active_at_s = max(series.active_at_s or 0, start)
        if answer.complete:
            self._covered(series, asked, window)
        return told

    def _is_cut_off(
        self, series: _Series, start: int, values: Mapping[str, float], answer: SeriesAnswer
    ) -> bool:
        """Whether this says less of a period than was known of it already."""
        known = series.known.get(start)
        return not answer.complete and known is not None and values.keys() < known.statistics.keys()

    def _is_news(
        self,
        series: _Series,
        asked: Asked,
        start: int,
        values: Mapping[str, float],
        *,
        settled: bool,
        at_s: float,
    ) -> bool:
        known = series.known.get(start)
        was_read = series.covered_from_s is not None and (
            series.covered_from_s <= start < (series.read_until_s or 0)
        )
        changed = dict(values) != (dict(known.statistics) if known else {})
        if changed and was_read:
            self.late_update_s.append(at_s - start)
        if known is None:
            age_s = at_s - start - asked.key.period_s if changed and was_read else 0.0
            series.known[start] = _Known(values, settled, age_s)
            return True
        if changed:
            known.changed_age_s = at_s - start - asked.key.period_s
        news = changed or (settled and not known.settled)
        known.statistics, known.settled = values, known.settled or settled
        return news

    def _covered(self, series: _Series, asked: Asked, window: ReadWindow) -> None:
        """Forget what no call will read again, and learn from it how long points change."""
        start = series.covered_from_s
        gap = series.read_until_s is not None and window.since_s > series.read_until_s
        series.covered_from_s = (
            window.since_s if start is None or gap else min(start, window.since_s)
        )
        series.read_until_s = max(series.read_until_s or 0, window.until_s)
        for old in [at for at in series.known if at < window.since_s]:
            known = series.known.pop(old)
            if known.statistics:
                self.lag.learn(asked.key.namespace, known.changed_age_s)


def _point(
    asked: Asked, start: int, values: Mapping[str, float], at_s: float, *, settled: bool
) -> EndpointPoint:
    return EndpointPoint(
        key=asked.key,
        service=asked.service,
        start_s=start,
        fetched_at_s=at_s,
        state=PointState.VALUE if values else PointState.NO_DATA,
        settled_at_s=at_s if settled else None,
        statistics=dict(values),
    )
