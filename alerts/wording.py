"""The words for each kind of promise: what is counted, what bad ones did, and what was promised."""

from __future__ import annotations

from fractions import Fraction

from alerts.quantity import decimal_text
from alerts.sentence import rate_text
from domain.indicator import (
    AvailabilityIndicator,
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    Indicator,
    LatencyIndicator,
    LevelIndicator,
    Limit,
    ThroughputIndicator,
)
from domain.metric import METRICS, Kind
from domain.objective import Objective
from domain.slice import EmptySlice, SlicePolicy

__all__ = [
    "deed",
    "look",
    "percent",
    "policy",
    "promised",
    "seconds",
    "share",
    "subject",
    "unit",
    "whole_deed",
]

_EXCEEDED = {
    "ttft": "waited more than {} for the first token",
    "tpot": "took more than {} per output token",
    "itl": "were longer than {}",
    "itl_max": "froze for more than {} between two tokens",
    "e2e": "took more than {}",
    "queue": "queued for more than {}",
}
_NAMES = {"itl_max": "longest gap", "kv_transfer": "KV transfer"}
_UPPER = ("ttft", "tpot", "itl", "e2e")


def unit(objective: Objective) -> str:
    """What is good or bad, many of them."""
    if objective.counts_minutes:
        return "minutes"
    return _things(objective.indicator)


def deed(objective: Objective) -> str:
    """What the bad ones did, after their number."""
    if objective.slices is not None:
        least = share(objective.slices.target)
        return f"had fewer than {least} of {_things(objective.indicator)} that {_kept(objective)}"
    return whole_deed(objective.indicator)


def whole_deed(indicator: Indicator) -> str:
    """The same of requests, gaps and minutes as they are counted."""
    match indicator:
        case LatencyIndicator():
            said = _exceeded(indicator.metric, indicator.threshold_s)
        case AvailabilityIndicator():
            said = "failed"
        case GoodputIndicator():
            said = f"failed or broke a limit ({_limits(indicator.limits)})"
        case ThroughputIndicator():
            what = indicator.metric.replace("_", " ")
            said = f"saw less than {rate_text(indicator.at_least_per_s)} of {what}"
        case LevelIndicator():
            said = f"saw {_outside(indicator)}"
        case ConditionIndicator():
            said = f"saw {' or '.join(indicator.kinds)}"
        case _:
            limit_s = indicator.threshold_s
            slow = f"exceeded {seconds(limit_s)} of {indicator.metric}, or failed"
            said = "failed or were throttled" if limit_s is None else slow
    return said


def look(indicator: Indicator) -> str:
    """Where to look first when it is broken; of latencies the guilty stage says it better."""
    match indicator:
        case LatencyIndicator() | GoodputIndicator():
            return ""
        case AvailabilityIndicator():
            return "look at the failed requests by replica, and at the engines' logs"
        case ThroughputIndicator():
            return "look whether requests are fewer, or replicas are missing or slow"
        case LevelIndicator():
            return "look at the replicas that are out of bounds, the worst first"
        case ConditionIndicator():
            return "look at the engines named on the fleet page"
        case EndpointIndicator():
            return "look at the endpoint's errors and throttles on the Endpoints page"


def subject(indicator: Indicator) -> str:
    """What is measured, in a word or two."""
    match indicator:
        case LatencyIndicator():
            return _name(indicator.metric)
        case AvailabilityIndicator():
            return "availability"
        case GoodputIndicator():
            return "goodput"
        case ConditionIndicator():
            return "conditions"
        case EndpointIndicator():
            return indicator.metric or "availability"
        case ThroughputIndicator() | LevelIndicator():
            return indicator.metric.replace("_", " ")


def promised(objective: Objective) -> str:
    """The promise in short, as it stands beside its numbers."""
    indicator, target = objective.indicator, objective.target
    if objective.slices is not None:
        least = share(objective.slices.target)
        kept = _limit(indicator) if _answered(indicator) else f"with {_limit(indicator)}"
        return f"{share(target)} of minutes: {least} of {_things(indicator)} {kept}"
    match indicator:
        case LatencyIndicator():
            return f"P{decimal_text(target * 100)} {_limit(indicator)}"
        case EndpointIndicator() if indicator.threshold_s is not None:
            return f"P{decimal_text(target * 100)} {_limit(indicator)}"
        case AvailabilityIndicator() | EndpointIndicator():
            return f"{share(target)} answered"
        case GoodputIndicator():
            return f"{share(target)} with {_limit(indicator)}"
        case ThroughputIndicator() | LevelIndicator() | ConditionIndicator():
            return f"{share(target)} of minutes: {_limit(indicator)}"


def policy(slices: SlicePolicy) -> str:
    """When a minute is good, and what one counts as in which nobody asked."""
    empty = {
        EmptySlice.GOOD: "counts as good",
        EmptySlice.BAD: "counts as bad",
        EmptySlice.EXCLUDED: "does not count",
    }[slices.empty]
    return f"A minute is good with at least {share(slices.target)}; one without traffic {empty}."


def percent(ratio: Fraction) -> str:
    """`15.1 %`, to three figures."""
    return f"{float(ratio) * 100:.3g} %"


def share(ratio: Fraction) -> str:
    """`99.95 %`, as it was promised: exact."""
    return f"{decimal_text(ratio * 100)} %"


def seconds(value_s: float | Fraction | None) -> str:
    """`250 ms`, `1.5 s`."""
    if value_s is None:
        return "not measured"
    value = float(value_s)
    return f"{value * 1000:.3g} ms" if 0 < value < 1 else f"{value:.3g} s"


def _things(indicator: Indicator) -> str:
    return "gaps between tokens" if getattr(indicator, "metric", "") == "itl" else "requests"


def _kept(objective: Objective) -> str:
    indicator = objective.indicator
    return "were answered" if _answered(indicator) else f"kept {_limit(indicator)}"


def _answered(indicator: Indicator) -> bool:
    return _limit(indicator) == "answered"


def _limit(indicator: Indicator) -> str:
    match indicator:
        case LatencyIndicator() | GoodputIndicator():
            said = _limits(indicator.limits)
        case AvailabilityIndicator():
            said = "answered"
        case ThroughputIndicator():
            what = indicator.metric.replace("_", " ")
            said = f"{what} ≥ {rate_text(indicator.at_least_per_s)}"
        case LevelIndicator():
            said = f"{indicator.metric.replace('_', ' ')} {_bounds(indicator, '≤', '≥')}"
        case ConditionIndicator():
            said = f"no {' or '.join(indicator.kinds)}"
        case _:
            limit_s = indicator.threshold_s
            said = "answered" if limit_s is None else f"{indicator.metric} ≤ {seconds(limit_s)}"
    return said


def _limits(limits: tuple[Limit, ...]) -> str:
    return ", ".join(f"{_name(each.metric)} ≤ {seconds(each.threshold_s)}" for each in limits)


def _outside(indicator: LevelIndicator) -> str:
    return f"{indicator.metric.replace('_', ' ')} {_bounds(indicator, '>', '<')}"


def _bounds(indicator: LevelIndicator, above: str, below: str) -> str:
    is_share = METRICS[indicator.metric].kind is Kind.RATIO
    said = [
        f"{side} {percent(value) if is_share else decimal_text(value)}"
        for side, value in ((above, indicator.at_most), (below, indicator.at_least))
        if value is not None
    ]
    return (" or " if above == ">" else " and ").join(said)


def _exceeded(metric: str, threshold_s: Fraction) -> str:
    words = _EXCEEDED.get(metric, f"spent more than {{}} in {metric.replace('_', ' ')}")
    return words.format(seconds(threshold_s))


def _name(metric: str) -> str:
    return metric.upper() if metric in _UPPER else _NAMES.get(metric, metric.replace("_", " "))
