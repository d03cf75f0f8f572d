"""Points of a managed endpoint, as CloudWatch gives them, and the arithmetic they obey.

A statistic keeps CloudWatch's name: `SampleCount`, `Sum`, `Minimum`, `Maximum`, `Average`, `p99`,
`PR(:2)` (percent of samples up to 2, in our unit). Counts and sums add; so do good counts, which
are PR/100 x SampleCount; percentiles do not, whatever the weights.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from domain.errors import InputError

__all__ = [
    "Availability",
    "EndpointKey",
    "EndpointPoint",
    "Good",
    "PointState",
    "answered",
    "availability",
    "definition_of",
    "good_count",
    "good_share",
    "is_statistic",
    "pooled",
    "rank_statistic",
    "rank_threshold",
]

_RANK = re.compile(r"PR\(:(\d+(?:\.\d+)?)\)")
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,4})?|100)")
_PLAIN = ("Average", "Last", "Maximum", "Minimum", "SampleCount", "Sum")
_WHOLE = 1e-6


class PointState(StrEnum):
    """What is known of a period. Where there is no point at all, it is unknown."""

    VALUE = "value"
    NO_DATA = "no data"  # settled, and nothing was published
    ZERO = "zero"  # the same of a count of events, while its endpoint was there: none happened


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointKey:
    """Which series: dimensions are a set, kept as sorted pairs with names as AWS writes them."""

    account: str
    region: str
    namespace: str
    name: str
    dimensions: tuple[tuple[str, str], ...]
    period_s: int = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointPoint:
    """One period of one series, in our units. `settled_at_s` is None while it may still change."""

    key: EndpointKey
    service: str
    start_s: int
    fetched_at_s: float
    state: PointState = PointState.VALUE
    settled_at_s: float | None = None
    source: str = "poll"
    statistics: Mapping[str, float] = field(default_factory=dict)

    @property
    def end_s(self) -> int:
        return self.start_s + self.key.period_s


@dataclass(frozen=True, slots=True)
class Good:
    """How many of `total` were good: surely `low`, possibly `high`; equal where PR is exact."""

    low: int
    high: int
    total: int

    def __add__(self, other: Good) -> Good:
        return Good(self.low + other.low, self.high + other.high, self.total + other.total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """The share of requests that were answered; `label` says by which definition."""

    share: Fraction
    label: str


def is_statistic(name: str) -> bool:
    """Whether it is one that we keep."""
    return name in _PLAIN or bool(_PERCENTILE.fullmatch(name) or _RANK.fullmatch(name))


def rank_statistic(threshold: float) -> str:
    """The name of the percent of samples up to a threshold: `PR(:0.3)`, `PR(:2000000)`."""
    return f"PR(:{_plain(threshold)})"


def rank_threshold(name: str) -> Fraction | None:
    """Up to what a statistic counts, if that is what it does."""
    found = _RANK.fullmatch(name)
    return Fraction(found[1]) if found else None


def _plain(value: float) -> str:
    text = f"{value:.9f}".rstrip("0").rstrip(".")
    return text or "0"


def good_count(percent: float, samples: float) -> Good:
    """PR/100 x SampleCount as whole requests.

    A product that is whole is believed. One that is not was rounded: then every count that the
    digits of the percentage allow is possible, and the nearest where they allow none.
    """
    total = round(samples)
    if not (0 <= percent <= 100 and samples >= 0 and math.isclose(total, samples)):
        raise InputError(
            f"PR {percent!r} of {samples!r} samples is no count",
            where="statistic PR",
            remedy="Report it with the answer of CloudWatch.",
        )
    product = Fraction(repr(percent)) * total / 100
    nearest = round(product)
    if abs(product - nearest) <= Fraction(_WHOLE) * max(total, 1):
        return Good(nearest, nearest, total)
    half = Fraction(1, 2 * 10 ** _digits(percent)) * total / 100
    low, high = math.ceil(product - half), math.floor(product + half)
    if low > high:
        low = high = nearest
    return Good(max(low, 0), min(high, total), total)


def _digits(value: float) -> int:
    exponent = Decimal(repr(value)).normalize().as_tuple().exponent
    return max(-exponent, 0) if isinstance(exponent, int) else 0


def good_share(counts: Iterable[Good]) -> tuple[Fraction, Fraction] | None:
    """The share of good requests, surely and possibly; None where there were none: 0/0 is no data."""
    total = sum(counts, Good(0, 0, 0))
    if not total.total:
        return None
    return Fraction(total.low, total.total), Fraction(total.high, total.total)


def pooled(statistic: str, points: Iterable[EndpointPoint]) -> float | None:
    """One statistic over several points; None where none of them has a value.

    A mean is sum over count. A percentile of several points does not exist: it is refused.
    """
    told = [point.statistics for point in points if point.state is not PointState.NO_DATA]
    if statistic in ("SampleCount", "Sum"):
        values = [each[statistic] for each in told if statistic in each]
        return math.fsum(values) if values else None
    if statistic in ("Minimum", "Maximum"):
        values = [each[statistic] for each in told if statistic in each]
        if not values:
            return None
        return min(values) if statistic == "Minimum" else max(values)
    if statistic == "Average":
        return _mean(told)
    if _RANK.fullmatch(statistic):
        return _rank(statistic, told)
    if statistic == "Last" or _PERCENTILE.fullmatch(statistic):
        return _percentile(statistic, told)
    raise InputError(
        f"{statistic!r} is no statistic that adds",
        where="statistic",
        remedy="Use SampleCount, Sum, Average, Minimum, Maximum or PR(:threshold).",
    )


def _mean(told: list[Mapping[str, float]]) -> float | None:
    both = [
        (each["Sum"], each["SampleCount"]) for each in told if {"Sum", "SampleCount"} <= set(each)
    ]
    count = math.fsum(n for _, n in both)
    return math.fsum(total for total, _ in both) / count if count else None


def _rank(statistic: str, told: list[Mapping[str, float]]) -> float | None:
    counts = [
        good_count(each[statistic], each["SampleCount"])
        for each in told
        if {statistic, "SampleCount"} <= set(each)
    ]
    share = good_share(counts)
    return None if share is None else float(100 * (share[0] + share[1]) / 2)


def _percentile(statistic: str, told: list[Mapping[str, float]]) -> float | None:
    values = [each[statistic] for each in told if statistic in each]
    if len(values) > 1:
        raise InputError(
            f"{statistic} of {len(values)} points cannot be had from the {statistic} of each",
            where=f"statistic {statistic}",
            remedy="Count what is good with PR(:threshold) and SampleCount, which add exactly, "
            "or ask CloudWatch again with a longer period.",
        )
    return values[0] if values else None


_SUCCESSES = "successes only"
_ACCEPTED = "accepted, failed ones included"


def availability(
    *, invocations: float, server_errors: float, throttles: float, counts_failures: bool
) -> Availability | None:
    """Bedrock's availability under one of the two definitions that AWS's pages give; None: 0/0."""
    good, tried = _answered(invocations, server_errors, throttles, counts_failures=counts_failures)
    if not tried:
        return None
    return Availability(share=good / tried, label=definition_of(counts_failures=counts_failures))


def definition_of(*, counts_failures: bool) -> str:
    """What AWS's pages say of Invocations, the one way or the other."""
    return f"Invocations are {_ACCEPTED if counts_failures else _SUCCESSES}"


def answered(
    *, invocations: float, server_errors: float, throttles: float, counts_failures: bool
) -> Good:
    """The same as counts, which add. A sum that is not whole leaves a request in doubt."""
    good, tried = _answered(invocations, server_errors, throttles, counts_failures=counts_failures)
    return Good(math.floor(good), min(math.ceil(good), math.ceil(tried)), math.ceil(tried))


def _answered(
    invocations: float, server_errors: float, throttles: float, *, counts_failures: bool
) -> tuple[Fraction, Fraction]:
    """Good and tried. Throttled requests stand in neither Invocations nor errors."""
    numbers = [Fraction(value) for value in (invocations, server_errors, throttles)]
    if any(value < 0 for value in numbers):
        raise InputError(
            f"a count below zero: {invocations}, {server_errors}, {throttles}",
            where="availability",
            remedy="Report it with the answer of CloudWatch.",
        )
    done, failed, throttled = numbers
    good = max(done - failed, Fraction(0)) if counts_failures else done
    return good, max(done, failed) + throttled if counts_failures else done + failed + throttled
