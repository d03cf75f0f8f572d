"""The seven kinds of promise made from words; a wrong word is refused with the one that was meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from alerts import quantity
from alerts.quantity import suggestion
from domain.condition import ConditionKind
from domain.endpoint_catalogue import KINDS, of_kind
from domain.endpoint_metric import Meaning
from domain.errors import ConfigError
from domain.indicator import (
    PER_REQUEST,
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    Indicator,
    LatencyIndicator,
    LevelIndicator,
    Limit,
    ThroughputIndicator,
)
from domain.metric import COUNTERS, GAUGES, LATENCIES, METRICS, Kind

__all__ = ["condition", "endpoint", "goodput", "latency", "level", "number", "throughput"]

_Built = TypeVar("_Built")


def latency(metric: str, threshold: str, *, at: str, limit_at: str = "") -> LatencyIndicator:
    """`ttft`, `1.5s`; `limit_at` where the threshold stands elsewhere."""
    _known(metric, LATENCIES, "latency", at=at)
    threshold_s = quantity.duration_s(threshold, at=limit_at or at)
    return LatencyIndicator(metric=metric, threshold_s=threshold_s)


def goodput(limits: Iterable[tuple[str, str, str]], *, at: str) -> GoodputIndicator:
    """Metric, threshold and place of each limit that a request has to keep."""
    kept = []
    for metric, threshold, place in limits:
        if metric in LATENCIES and metric not in PER_REQUEST:
            raise ConfigError(
                f"a request has no single {metric!r}",
                where=place,
                remedy="Use itl_max or tpot, of which it has one.",
            )
        _known(metric, PER_REQUEST, "latency", at=place)
        kept.append(Limit(metric=metric, threshold_s=quantity.duration_s(threshold, at=place)))
    return _placed(lambda: GoodputIndicator(limits=tuple(kept)), at=at)


def number(metric: str, bounds: Sequence[tuple[str, str]], *, at: str) -> Indicator:
    """A counter with a floor or a gauge within bounds; a bound is `<=` or `>=` and its value."""
    sides = [side for side, _ in bounds]
    if len(set(sides)) < len(sides):
        raise ConfigError(
            f"{metric} has two bounds of one kind", where=at, remedy="Keep one >= and one <=."
        )
    said = dict(bounds)
    if metric in COUNTERS:
        if sides != [">="]:
            raise ConfigError(
                f"{metric} is a counter: what is promised is a floor",
                where=at,
                remedy=f"Write {metric} >= 500/s in 99% of minutes.",
            )
        return throughput(metric, said[">="], at=at)
    return level(metric, said.get("<="), said.get(">="), at=at)


def throughput(metric: str, floor: str, *, at: str) -> ThroughputIndicator:
    """`generation_tokens`, `500/s`."""
    _known(metric, COUNTERS, "counter", at=at)
    per_s = quantity.rate_per_s(floor, at=at)
    return _placed(lambda: ThroughputIndicator(metric=metric, at_least_per_s=per_s), at=at)


def level(metric: str, at_most: str | None, at_least: str | None, *, at: str) -> LevelIndicator:
    """`kv_cache_usage`, `0.9` or `90%`, and no lower bound."""
    _known(metric, (*GAUGES, *COUNTERS, *LATENCIES), "metric", at=at)
    _known(metric, GAUGES, "gauge", at=at)
    most = None if at_most is None else quantity.level(at_most, at=at)
    least = None if at_least is None else quantity.level(at_least, at=at)
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"no value is at least {at_least} and at most {at_most}",
            where=at,
            remedy="Swap the two.",
        )
    if METRICS[metric].kind is Kind.RATIO and max(most or 0, least or 0) > 1:
        raise ConfigError(
            f"{metric} is a share, between 0 and 1", where=at, remedy="Write 0.9 or 90%."
        )
    return _placed(lambda: LevelIndicator(metric=metric, at_most=most, at_least=least), at=at)


def condition(names: Iterable[str], *, at: str) -> ConditionIndicator:
    """`engine stalled`, `target down`."""
    kinds = tuple(name.strip() for name in names)
    for name in kinds:
        _known(name, tuple(kind.value for kind in ConditionKind), "condition", at=at)
    if len(set(kinds)) < len(kinds):
        raise ConfigError("names a condition twice", where=at, remedy="Keep it once.")
    return _placed(
        lambda: ConditionIndicator(kinds=tuple(ConditionKind(name) for name in kinds)), at=at
    )


def endpoint(
    service: str,
    metric: str,
    threshold: str | None,
    dimensions: Iterable[tuple[str, str]],
    *,
    counts_failures: bool = False,
    at: str,
) -> EndpointIndicator:
    """`sagemaker`, a latency of ours or of AWS, `2s`, and dimensions as AWS writes them."""
    _known(service, KINDS, "kind of endpoint", at=at)
    rows = of_kind(service)
    slow = [row for row in rows if row.meaning is Meaning.LATENCY]
    names = tuple(dict.fromkeys(name for row in slow for name in (row.ours, row.name)))
    if metric or threshold is not None:
        if not names:
            raise ConfigError(
                f"AWS publishes no latency of {service}", where=at, remedy="Promise availability."
            )
        _known(metric, names, f"latency of {service}", at=at)
    allowed = sorted(
        {
            name
            for row in rows
            for group in (row.family.dimensions, *row.family.drill_down)
            for name in group
        }
    )
    pairs = tuple(sorted(dimensions))
    for name, _ in pairs:
        _known(name, allowed, f"dimension of {service}", at=at)
    if len({name for name, _ in pairs}) < len(pairs):
        raise ConfigError("names a dimension twice", where=at, remedy="Keep one of the two.")
    limit_s = None if threshold is None else quantity.duration_s(threshold, at=at)
    return _placed(
        lambda: EndpointIndicator(
            service=service,
            metric=metric,
            threshold_s=limit_s,
            dimensions=pairs,
            counts_failures=counts_failures,
        ),
        at=at,
    )


def _known(name: str, known: Sequence[str], what: str, *, at: str) -> None:
    if name not in known:
        raise ConfigError(f"{name!r} is no {what}", where=at, remedy=suggestion(name, known))


def _placed(build: Callable[[], _Built], *, at: str) -> _Built:
    """What is built, or its refusal with the place in the file."""
    try:
        return build()
    except ConfigError as error:
        raise ConfigError(error.problem, where=at, remedy=error.remedy) from error
