"""Which statistics of a managed endpoint can be: what AWS, a stream or a stranger sends is checked here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeGuard

from domain.endpoint import is_statistic
from domain.endpoint_metric import EndpointMetric

__all__ = ["is_measurement", "is_number", "problem_in"]

_LARGEST: Final = 10**18
_MOST: Final = 20
_NO_MEASUREMENT: Final = "its value is no measurement: not a number, or beyond 10^18"


def is_number(value: object) -> TypeGuard[float]:
    """Neither NaN nor endless; one of 400 digits is a number too, though no measurement."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and -math.inf < value < math.inf  # type: ignore[operator]


def is_measurement(value: object) -> TypeGuard[float]:
    """A number that something can have been measured as."""
    return is_number(value) and -_LARGEST <= value <= _LARGEST


def problem_in(statistics: Mapping[str, float], metric: EndpointMetric | None) -> str:
    """What is wrong with them, empty when nothing is. `metric`: ours; None for what is asked in PromQL.

    Requests, seconds and shares are never below nothing; what somebody asked for in words may be.
    """
    if len(statistics) > _MOST or not all(map(is_statistic, statistics)):
        return "a statistic that nobody knows"
    if not all(map(is_measurement, statistics.values())):
        return _NO_MEASUREMENT
    if statistics.get("SampleCount", 0) < 0:
        return "it has fewer than no samples"
    if any(not 0 <= value <= 100 for name, value in statistics.items() if name.startswith("PR(")):
        return "a share outside 0 to 100 %"
    if metric is not None and any(value < 0 for value in statistics.values()):
        return "a value below nothing"
    return ""
