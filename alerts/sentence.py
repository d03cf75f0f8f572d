"""The plain sentence of a promise, written: what `alerts.phrase` reads back as the same objective."""

from __future__ import annotations

from fractions import Fraction

from alerts.quantity import decimal_text, duration_text, period_text, share_text
from domain.indicator import (
    AvailabilityIndicator,
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    Indicator,
    LatencyIndicator,
    LevelIndicator,
    ThroughputIndicator,
    counts_minutes,
)
from domain.labels import Labels
from domain.metric import METRICS, Kind
from domain.objective import Objective
from domain.slice import EmptySlice

__all__ = ["level_text", "rate_text", "selector_text", "sentence"]


def sentence(objective: Objective) -> str:
    """`p99 ttft <= 1.5s over 30d where use_case=chat`."""
    slices, calendar = objective.slices, objective.calendar
    share = objective.target if slices is None else slices.target
    words = [_promised(objective.indicator, share)]
    if slices is not None or counts_minutes(objective.indicator):
        words.append(f"in {share_text(objective.target)} of minutes")
    if slices is not None and slices.empty is not EmptySlice.EXCLUDED:
        words.append(f"counting empty ones as {slices.empty}")
    if calendar is None:
        words.append(f"over {period_text(objective.period_s)}")
    else:
        zone = "" if calendar.zone == "UTC" else f" in {calendar.zone}"
        words.append(f"per calendar {calendar.unit}{zone}")
    if objective.indicator.where:
        words.append(f"where {selector_text(objective.indicator.where)}")
    return " ".join(words)


def selector_text(where: Labels) -> str:
    """`use_case=chat, model="Llama 3, 70B"`."""
    return ", ".join(f"{name}={_quoted(value)}" for name, value in where)


def rate_text(per_s: Fraction) -> str:
    """`500/s`, or per minute or hour where that is exact and a second is not."""
    for unit, length_s in (("s", 1), ("min", 60), ("h", 3600)):
        text = decimal_text(per_s * length_s)
        if "/" not in text:
            return f"{text}/{unit}"
    return f"{per_s}/s"


def _promised(indicator: Indicator, share: Fraction) -> str:
    percent, said = share_text(share), ""
    match indicator:
        case LatencyIndicator():
            limit = f"{indicator.metric} <= {duration_text(indicator.threshold_s)}"
            said = f"p{percent.removesuffix('%')} {limit}"
        case AvailabilityIndicator():
            said = f"{percent} available"
        case GoodputIndicator():
            limits = (
                f"{limit.metric} <= {duration_text(limit.threshold_s)}"
                for limit in indicator.limits
            )
            said = f"goodput {' and '.join(limits)} {percent}"
        case ThroughputIndicator():
            said = f"{indicator.metric} >= {rate_text(indicator.at_least_per_s)}"
        case LevelIndicator():
            said = level_text(indicator)
        case ConditionIndicator():
            said = f"no {' or '.join(indicator.kinds)}"
        case EndpointIndicator():
            said = _endpoint(indicator, percent)
    return said


def level_text(indicator: LevelIndicator) -> str:
    """`kv_cache_usage <= 90%`."""
    bounds = (("<=", indicator.at_most), (">=", indicator.at_least))
    is_share = METRICS[indicator.metric].kind is Kind.RATIO
    said = " and ".join(
        f"{side} {share_text(value) if is_share else decimal_text(value)}"
        for side, value in bounds
        if value is not None
    )
    return f"{indicator.metric} {said}"


def _endpoint(indicator: EndpointIndicator, percent: str) -> str:
    said = f"{percent} available"
    if indicator.threshold_s is not None:
        limit = f"{indicator.metric} <= {duration_text(indicator.threshold_s)}"
        said = f"p{percent.removesuffix('%')} {limit}"
    pairs = (f"{name}={_quoted(value)}" for name, value in indicator.dimensions)
    counted = ["with failed invocations counted"] if indicator.counts_failures else []
    return " ".join((said, f"at {indicator.service}", *pairs, *counted))


def _quoted(value: str) -> str:
    if value and not any(sign.isspace() or sign in ",=\"'" for sign in value):
        return value
    escaped = value.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'
