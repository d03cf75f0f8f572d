"""The exporter's own `/metrics`: freshness and totals only, never a value with yesterday's time stamp."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from threading import Lock

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from domain.endpoint_metric import Tier
from exporters.cloudwatch.plan import Budget
from exporters.cloudwatch.poller import Poll, Poller
from exporters.delivery.delivery import Delivery

__all__ = ["OwnPage"]

_PREFIX = "stagewatch_cloudwatch_"
_LATE_S = (60, 120, 180, 300, 600, 900, 1800, 3600)


class OwnPage(Collector):
    """Reading it asks nothing of AWS and waits for nobody."""

    def __init__(self, delivery: Delivery | None = None) -> None:
        self._delivery = delivery
        self._lock = Lock()
        self._families: dict[str, list[tuple[dict[str, str], float]]] = {}
        self._late: Counter[tuple[str, str, int]] = Counter()
        self._late_sum: defaultdict[tuple[str, str], float] = defaultdict(float)
        self._points: Counter[tuple[str, str]] = Counter()

    def update(self, pollers: Sequence[Poller], polled: Poller, done: Poll, now_s: float) -> None:
        """After a round of one poller; what is shown of the others stays as it was."""
        place = (polled.scope.account, polled.scope.region)
        with self._lock:
            self._late_sum[place] += 0.0  # why: a histogram that is empty is shown empty
            for late_s in polled.ledger.take_late():
                self._late_sum[place] += late_s
                for le in (*_LATE_S, 0):
                    self._late[(*place, le)] += not le or late_s <= le
            self._points[place] += len(done.points)
            self._families = _families(pollers, now_s)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            told = {name: list(samples) for name, samples in self._families.items()}
            late = dict(self._late)
            sums, points = dict(self._late_sum), dict(self._points)
        for name, (kind, text) in _HELP.items():
            family = Metric(_PREFIX + name, text, kind)
            suffix = "_total" if kind == "counter" else ""
            for labels, value in told.get(name, ()):
                family.add_sample(family.name + suffix, labels, value)
            yield family
        yield _late_updates(late, sums)
        family = Metric(f"{_PREFIX}points", "Points that were new, changed or settled.", "counter")
        for place, count in sorted(points.items()):
            family.add_sample(f"{family.name}_total", _place(place), count)
        yield family
        if self._delivery is not None:
            yield from self._delivery.metrics()


_HELP = {
    "billed_metrics_requested": ("counter", "Metrics that AWS bills, five statistics each."),
    "calls": ("counter", "Calls by API and outcome; `throttled` ones were tried again."),
    "skipped_series": ("counter", "Series not asked for because the day's budget was spent."),
    "failed_calls": (
        "counter",
        "Calls given up; the next window covers what they would have read.",
    ),
    "refused_values": ("counter", "Values of an answer that cannot be, by reason."),
    "spent_usd": ("gauge", "Spent on GetMetricData today (UTC), before a restart too."),
    "spent_assumed_usd": (
        "gauge",
        "What of it is not remembered, and counted as if all had been asked since midnight.",
    ),
    "budget_usd": ("gauge", "What may be spent on GetMetricData a day."),
    "budget_stops": ("gauge", "1: this tier is not asked for, to keep the day's budget."),
    "series": ("gauge", "Series of the last round by what CloudWatch said of them."),
    "settle_lag_seconds": ("gauge", "A younger point may still change."),
    "settled_age_seconds": ("gauge", "Age of the newest settled period of a service."),
}


def _families(
    pollers: Sequence[Poller], now_s: float
) -> dict[str, list[tuple[dict[str, str], float]]]:
    told: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in _HELP}
    for each in pollers:
        place = _place((each.scope.account, each.scope.region))
        counts = each.counts.copy()
        told["billed_metrics_requested"].append((place, counts["billed_metrics"]))
        told["skipped_series"].append((place, counts["skipped_series"]))
        told["failed_calls"].append((place, counts["failed_calls"]))
        _budget(told, place, each.budget, now_s)
        for (api, outcome), n in sorted(each.caller.counts.copy().items()):
            told["calls"].append(({**place, "api": api, "outcome": outcome}, n))
        for name, n in sorted(counts.items()):
            if name.startswith("refused_"):
                reason = name.removeprefix("refused_")
                told["refused_values"].append(({**place, "reason": reason}, n))
        for status, n in sorted(each.statuses.items()):
            told["series"].append(({**place, "status": status}, n))
        for namespace in sorted({asked.key.namespace for asked in each.asked}):
            lag_s = each.ledger.lag.lag_s(namespace)
            told["settle_lag_seconds"].append(({**place, "namespace": namespace}, lag_s))
        for service, settled_s in sorted(_newest_settled(each).items()):
            told["settled_age_seconds"].append(({**place, "service": service}, now_s - settled_s))
    return told


def _budget(
    told: dict[str, list[tuple[dict[str, str], float]]],
    place: dict[str, str],
    budget: Budget,
    now_s: float,
) -> None:
    told["spent_usd"].append((place, budget.spent_usd(now_s)))
    told["spent_assumed_usd"].append((place, budget.assumed_usd))
    if budget.usd_per_day is None:
        return
    told["budget_usd"].append((place, budget.usd_per_day))
    for tier in Tier:
        stops = float(tier in budget.stopped)
        told["budget_stops"].append(({**place, "tier": tier.value}, stops))


def _newest_settled(poller: Poller) -> dict[str, int]:
    newest: dict[str, int] = {}
    for asked in poller.asked:
        settled_s = poller.ledger.newest_settled_s(asked.key)
        if settled_s is not None:
            newest[asked.service] = max(settled_s, newest.get(asked.service, 0))
    return newest


def _late_updates(
    late: dict[tuple[str, str, int], int], sums: dict[tuple[str, str], float]
) -> Metric:
    text = "Age of a period, from its start, when a reading changed it."
    family = Metric(f"{_PREFIX}late_update_seconds", text, "histogram")
    for place, total in sorted(sums.items()):
        labels = _place(place)
        for le in (*_LATE_S, 0):
            edge = {"le": f"{float(le)}" if le else "+Inf"}
            family.add_sample(
                f"{family.name}_bucket", {**labels, **edge}, late.get((*place, le), 0)
            )
        family.add_sample(f"{family.name}_count", labels, late.get((*place, 0), 0))
        family.add_sample(f"{family.name}_sum", labels, total)
    return family


def _place(place: tuple[str, str]) -> dict[str, str]:
    return {"account": place[0], "region": place[1]}
