"""CloudWatch's statistics from raw samples: percentiles by interpolation, PR with an open lower end."""

import math
import re

__all__ = ["is_statistic", "statistic"]

_SIMPLE = {
    "Average": lambda values: math.fsum(values) / len(values),
    "Maximum": max,
    "Minimum": min,
    "SampleCount": lambda values: float(len(values)),
    "Sum": math.fsum,
}
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?|100)")
_TRIMMED = re.compile(r"tm(\d{1,2}(?:\.\d+)?)")
_RANK = re.compile(r"PR\((-?[\d.]*):(-?[\d.]*)\)")


def is_statistic(name):
    return name in _SIMPLE or any(p.fullmatch(name) for p in (_PERCENTILE, _TRIMMED, _RANK))


def statistic(name, values):
    """One statistic of the samples of one period; there is at least one sample."""
    if name in _SIMPLE:
        return _SIMPLE[name](values)
    if found := _PERCENTILE.fullmatch(name):
        return percentile(values, float(found[1]))
    if found := _TRIMMED.fullmatch(name):
        most = percentile(values, float(found[1]))
        kept = [value for value in values if value <= most]
        return math.fsum(kept) / len(kept)
    low, high = _RANK.fullmatch(name).groups()
    least, most = float(low or "-inf"), float(high or "inf")
    inside = sum((not low or least < value) and value <= most for value in values)
    return 100 * inside / len(values)


def percentile(values, p):
    ordered = sorted(values)
    place = (len(ordered) - 1) * p / 100
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
