"""A page over 500 series: time per call and bytes per chart, against the bars of DESIGN 11."""

import gzip
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import orjson

from collector.query import (
    Flow,
    Freshness,
    NumberPoint,
    Numbers,
    Point,
    Replica,
    Selection,
    Series,
    Stages,
    StageShare,
    Window,
)
from dashboard import fleet, service
from dashboard.content import Content
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.distribution import Distribution, exact
from domain.indicator import Indicator
from domain.labels import labels_of, value_of
from domain.request import Stage
from domain.slice import Slice

SERIES = 500
CALL_BAR_S = 0.1
CHART_BAR_BYTES = 25_000
NOW_S = 1_772_367_000
ROUNDS = 15


class SyntheticReader:
    """Answers at once, so that only the page's own work is measured."""

    def __init__(self) -> None:
        random = np.random.default_rng(1)
        self.whole = [exact(random.lognormal(0, 0.5, 400)) for _ in range(SERIES)]
        self.steps = [exact(random.lognormal(0, 0.5, 40)) for _ in range(200)]
        self.labels = [
            labels_of({"service": f"s{n % 50}", "replica": f"r{n}"}) for n in range(SERIES)
        ]

    def refill(self) -> None:
        """New values, of which nothing is computed yet, for one more page."""
        self.spare_whole = [[_copy(each) for each in self.whole] for _ in range(10)]
        self.spare_steps = [[_copy(each) for each in self.steps] for _ in range(40)]

    def _groups(self, selection: Selection) -> list[tuple[Any, Distribution]]:
        fresh = self.spare_whole.pop()
        if "replica" in selection.by:
            return list(zip(self.labels, fresh, strict=True))
        if "service" in selection.by:
            return [(labels_of({"service": f"s{n}"}), fresh[n]) for n in range(50)]
        return [((), fresh[0])]

    def latency(self, metric: str, selection: Selection) -> Sequence[Series]:
        del metric
        window, step = selection.window, selection.step_s
        if step is None:
            return [
                Series(labels=labels, points=[_point(window.since_s, window.until_s, each)])
                for labels, each in self._groups(selection)
            ]
        begins = range(window.since_s // step * step, window.until_s, step)
        points = [
            _point(at, at + step, each)
            for at, each in zip(begins, self.spare_steps.pop(), strict=False)
        ]
        return [Series(labels=(), points=points)]

    def numbers(self, metric: str, selection: Selection) -> Sequence[Numbers]:
        del metric
        window = selection.window
        point = NumberPoint(
            since_s=window.since_s, until_s=window.until_s, value=1, low=0, high=2, last=1
        )
        return [Numbers(labels=labels, points=[point]) for labels in self.labels]

    def stages(self, selection: Selection) -> Sequence[Stages]:
        return [self._stages(labels, each, selection) for labels, each in self._groups(selection)]

    def _stages(self, labels: Any, each: Distribution, selection: Selection) -> Stages:
        shares = [
            StageShare(stage=stage, distribution=each, mean_s=0.2, share=0.2) for stage in Stage
        ]
        flow = Flow(started=410, finished=400, failed=0, cancelled=0, rejected=0)
        return Stages(
            labels=labels,
            window=selection.window,
            e2e=each,
            ttft=each,
            stages=shares,
            missing=(),
            flow=flow,
        )

    def slices(self, indicator: Indicator, window: Window) -> Sequence[Slice]:
        del indicator
        begins = range(window.since_s // 60 * 60, window.until_s // 60 * 60, 60)
        return [Slice(minute_at_s=at, good_low=9, good_high=9, total=9) for at in begins]

    def conditions(self, at_s: int, **asked: Any) -> Sequence[Any]:
        del at_s, asked
        return ()

    def freshness(self, window: Window, *, service: str = "") -> Sequence[Freshness]:
        found: dict[str, list[Replica]] = {}
        for labels in self.labels:
            replica = Replica(labels=labels, last_seen_at_s=window.until_s - 5, up=True)
            found.setdefault(value_of(labels, "service"), []).append(replica)
        return [
            Freshness(service=name, newest_at_s=window.until_s - 5, replicas=replicas)
            for name, replicas in found.items()
            if service in ("", name)
        ]


class NoLedger:
    """A fleet without promises: they cost what their number says, series or not."""

    def standings(self, *, spark_s: int = 10_800) -> Sequence[Any]:
        del spark_s
        return ()

    def conditions(self) -> Sequence[Any]:
        return ()


def _copy(each: Distribution) -> Distribution:
    return Distribution(each.low, each.high, exact=True, sum_s=each.sum_s)


def _point(since_s: int, until_s: int, distribution: Distribution) -> Point:
    return Point(since_s=since_s, until_s=until_s, distribution=distribution)


def _fastest_s(reader: SyntheticReader, make: Callable[[], Content]) -> tuple[float, Content]:
    """Seconds of one core: other work on this machine must not decide."""
    best_s, made = float("inf"), Content(title="", regions={})
    for _ in range(ROUNDS):
        reader.refill()
        begun_s = time.thread_time()
        made = make()
        best_s = min(best_s, time.thread_time() - begun_s)
    return best_s, made


def _sent_bytes(figure: Any) -> int:
    return len(gzip.compress(orjson.dumps(figure, option=orjson.OPT_SERIALIZE_NUMPY), 6))


def main() -> int:
    reader: Any = SyntheticReader()
    ledger: Any = NoLedger()
    viewer = Viewer(now_s=NOW_S)
    hour, month = 3600, 30 * 86_400
    pages = [
        ("fleet", fleet, View(span_s=hour)),
        ("service, 1 h", service, View(service="s1", span_s=hour)),
        ("service by replica, 1 h", service, View(service="s1", span_s=hour, by="replica")),
        ("service by replica, 30 d", service, View(service="s1", span_s=month, by="replica")),
    ]
    missed = 0
    for name, page, view in pages:
        call_s, content = _fastest_s(
            reader, lambda p=page, v=view: p.content(reader, ledger, v, viewer)
        )
        largest = max(map(_sent_bytes, content.charts.values()), default=0)
        ratios = Fraction(call_s / CALL_BAR_S), Fraction(largest, CHART_BAR_BYTES)
        missed += any(ratio > 1 for ratio in ratios)
        print(
            f"{name:26} {call_s * 1e3:6.1f} ms = {float(ratios[0]):4.2f} of the bar, "
            f"largest chart {largest / 1e3:5.1f} kB = {float(ratios[1]):4.2f} of the bar"
        )
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
