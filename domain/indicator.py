"""What a promise counts: requests that were good, or minutes that were, of those that match.

Every kind is counted in minute slices of whole numbers, so that all of them burn, page and report
by the same rules. A request is good at most once, whatever it has to keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from domain.condition import ConditionKind
from domain.errors import ConfigError
from domain.labels import Labels
from domain.metric import COUNTERS, GAUGES, LATENCIES

__all__ = [
    "PER_REQUEST",
    "AvailabilityIndicator",
    "ConditionIndicator",
    "EndpointIndicator",
    "GoodputIndicator",
    "Indicator",
    "LatencyIndicator",
    "LevelIndicator",
    "Limit",
    "ThroughputIndicator",
    "counts_minutes",
]

PER_REQUEST = tuple(name for name in LATENCIES if name != "itl")
"""Latencies of which a request has one; of gaps between tokens it has many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """`metric` is at most `threshold_s`."""

    metric: str
    threshold_s: Fraction

    def __post_init__(self) -> None:
        _check_latency(self.metric, self.threshold_s, LATENCIES)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyIndicator:
    """Requests whose `metric` is at most `threshold_s`; of `itl` gaps between tokens are counted.

    A request that failed is bad: whoever never saw a first token waited longer than any threshold.
    """

    metric: str
    threshold_s: Fraction
    where: Labels = ()

    def __post_init__(self) -> None:
        _check_latency(self.metric, self.threshold_s, LATENCIES)

    @property
    def limits(self) -> tuple[Limit, ...]:
        return (Limit(metric=self.metric, threshold_s=self.threshold_s),)


@dataclass(frozen=True, slots=True, kw_only=True)
class AvailabilityIndicator:
    """Requests that were answered; with `source=probe` those of our probes."""

    where: Labels = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoodputIndicator:
    """Requests that were answered and kept every limit, each counted once.

    An answer of one token has no gaps, and keeps a limit on them; what nobody measured leaves doubt.
    """

    limits: tuple[Limit, ...]
    where: Labels = ()

    def __post_init__(self) -> None:
        names = [limit.metric for limit in self.limits]
        if not names or len(set(names)) < len(names):
            raise ConfigError(
                "goodput wants each latency once",
                where="objective",
                remedy="Write ttft <= 1s and tpot <= 50ms.",
            )
        for limit in self.limits:
            _check_latency(limit.metric, limit.threshold_s, PER_REQUEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThroughputIndicator:
    """Minutes in which a counter grew by at least so much per second, over all replicas."""

    metric: str
    at_least_per_s: Fraction
    where: Labels = ()

    def __post_init__(self) -> None:
        _check_name(self.metric, COUNTERS, "counter")
        if not self.at_least_per_s > 0:
            raise ConfigError(
                "every rate is at least 0",
                where="objective",
                remedy="Use a floor above 0, such as 500 per second.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelIndicator:
    """Minutes in which a gauge stayed within bounds, at every place that matches."""

    metric: str
    at_most: Fraction | None = None
    at_least: Fraction | None = None
    where: Labels = ()

    def __post_init__(self) -> None:
        _check_name(self.metric, GAUGES, "gauge")
        if self.at_most is None and self.at_least is None:
            raise ConfigError(
                f"{self.metric} has no bound",
                where="objective",
                remedy="Give at_most, at_least or both.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionIndicator:
    """Minutes in which none of these conditions held, at no place that matches."""

    kinds: tuple[ConditionKind, ...]
    where: Labels = ()

    def __post_init__(self) -> None:
        if not self.kinds:
            raise ConfigError(
                "names no condition",
                where="objective",
                remedy=f"Use one of {', '.join(ConditionKind)}.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointIndicator:
    """Requests of a managed endpoint as CloudWatch counts them; periods that settle late.

    With `threshold_s` those at most so slow by `metric`, from PR and SampleCount, of which failed
    and throttled ones are none; without it those that were answered (`metric` is "").
    `counts_failures`: whether Invocations hold the failed ones; AWS's pages say both.
    `service` is the kind of endpoint, as in `sagemaker` or `bedrock`; `dimensions` are as AWS writes
    them, such as EndpointName, and may be some of them. `where` may name `service` and `region`.
    """

    service: str
    metric: str = ""
    threshold_s: Fraction | None = None
    dimensions: tuple[tuple[str, str], ...] = ()
    counts_failures: bool = False
    where: Labels = ()

    def __post_init__(self) -> None:
        if (self.threshold_s is None) != (not self.metric):
            raise ConfigError(
                "a latency of an endpoint wants both a metric and a threshold",
                where="objective",
                remedy="Give both, or neither for availability.",
            )


Indicator = (
    LatencyIndicator
    | AvailabilityIndicator
    | GoodputIndicator
    | ThroughputIndicator
    | LevelIndicator
    | ConditionIndicator
    | EndpointIndicator
)


def counts_minutes(indicator: Indicator) -> bool:
    """Whether its slices count one minute each, and not requests."""
    return isinstance(indicator, ThroughputIndicator | LevelIndicator | ConditionIndicator)


def _check_latency(metric: str, threshold_s: Fraction, known: tuple[str, ...]) -> None:
    if metric not in LATENCIES:
        _check_name(metric, known, "latency")
    if metric not in known:
        raise ConfigError(
            f"a request has no single {metric!r}",
            where="objective",
            remedy="Use itl_max or tpot, of which it has one.",
        )
    if not threshold_s > 0:
        raise ConfigError(
            f"nothing is faster than {float(threshold_s):g} s",
            where="objective",
            remedy="Use a threshold above 0, such as 1.5s.",
        )


def _check_name(name: str, known: tuple[str, ...], what: str) -> None:
    if name not in known:
        raise ConfigError(
            f"{name!r} is no {what}",
            where="objective",
            remedy=f"Use one of {', '.join(known)}.",
        )
