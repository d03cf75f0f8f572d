"""Numbers as a person reads them: with their unit, and with their doubt."""

import math
from collections.abc import Iterable
from fractions import Fraction

from domain.distribution import Distribution, Quantile

__all__ = [
    "NOTHING",
    "NOT_COUNTED",
    "age",
    "at_least",
    "count",
    "counted",
    "percent",
    "percent_range",
    "quantile_text",
    "rate",
    "rate_unit",
    "seconds",
    "seconds_range",
    "span",
    "window_text",
]

NOTHING = "–"
"""Not measured. Never a zero."""

NOT_COUNTED = "not counted"
"""Nobody who was there could count it. Never a zero either."""


def seconds(value_s: float | None) -> str:
    """Three digits and the unit that suits: "41.2 ms", "1.51 s", "12 min"."""
    if value_s is None or math.isnan(value_s):
        return NOTHING
    if math.isinf(value_s):
        return "∞"
    number, unit = _in_unit(value_s)
    return f"{number} {unit}"


def seconds_range(low_s: float, high_s: float) -> str:
    """As in "1.2–1.9 s", "≥ 10 s" where the source has no upper edge, "≤ 1 ms" where it has no lower."""
    if math.isinf(high_s):
        return f"≥ {seconds(low_s)}"
    if low_s <= 0:
        return f"≤ {seconds(high_s)}"
    (low, low_unit), (high, high_unit) = _in_unit(low_s), _in_unit(high_s)
    if (low, low_unit) == (high, high_unit):
        return f"{low} {low_unit}"
    return (
        f"{low}–{high} {high_unit}"
        if low_unit == high_unit
        else (f"{low} {low_unit} – {high} {high_unit}")
    )


def quantile_text(distribution: Distribution | None, q: Fraction | float) -> str:
    """A value where the source tells it, an interval where it does not."""
    found: Quantile | None = distribution.quantile(q) if distribution is not None else None
    if found is None:
        return NOTHING
    if found.value_s is not None and not math.isinf(found.value_s):
        return seconds(found.value_s)
    return seconds_range(found.low_s, found.high_s)


def percent(ratio: Fraction | float | None) -> str:
    """Three digits: "15.1 %"; a negative budget keeps its sign."""
    if ratio is None:
        return NOTHING
    value = float(ratio) * 100
    shown = f"{abs(value):.3g}" if abs(value) < 100 else f"{abs(value):,.0f}"
    sign = "−" if value < 0 and float(shown.replace(",", "")) else ""
    return f"{sign}{shown.replace(',', ' ')} %"


def percent_range(low: Fraction | float, high: Fraction | float) -> str:
    """One figure where both ends read the same."""
    first, last = percent(low), percent(high)
    if first == last:
        return first
    joined = " to " if "−" in first + last else "–"
    return f"{first.removesuffix(' %')}{joined}{last}"


def count(number: float | None) -> str:
    """Whole things, thousands set apart by a thin space."""
    return NOTHING if number is None else f"{round(number):,}".replace(",", "\u2009")


def counted(number: int | None) -> str:
    """A count, or that nobody could count it."""
    return NOT_COUNTED if number is None else count(number)


def at_least(low: int | None, high: int | None) -> str:
    """As in "12", "3–11", "≥ 3" where nobody knows how many at most, "not known", "not counted"."""
    if low is None:
        return NOT_COUNTED
    if high is None:
        return f"≥ {count(low)}" if low else "not known"
    return count(low) if low == high else f"{count(low)}–{count(high)}"


def rate(per_s: float | None, *, unit: str = "") -> str:
    """Events per second, or per minute where they are rare. `unit`: that of the whole column."""
    if per_s is None:
        return NOTHING
    if (unit or rate_unit([per_s])) == "/s":
        return f"{per_s:.3g} /s" if per_s else "0 /s"
    return f"{per_s * 60:.2g} /min" if per_s else "0 /min"


def rate_unit(rates_per_s: Iterable[float | None]) -> str:
    """One unit for all that stand beside each other: by the largest."""
    largest = max((each for each in rates_per_s if each is not None), default=0.0)
    return "/s" if largest >= 0.1 or not largest else "/min"


def age(seconds_ago: float) -> str:
    """As in "12 s", "4 min", "3 h", "2 d": how long ago."""
    past_s = max(seconds_ago, 0)
    for limit_s, unit_s, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if past_s < limit_s:
            return f"{past_s // unit_s:.0f} {unit}"
    return f"{past_s // 86_400:.0f} d"


def span(length_s: int) -> str:
    """The length of a window: "15 min", "1 h", "7 d"."""
    for unit_s, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if length_s >= unit_s and length_s % unit_s == 0 and (unit != "d" or length_s > unit_s):
            return f"{length_s // unit_s} {unit}"
    return f"{length_s} s"


def window_text(length_s: int) -> str:
    """Read aloud: "the last 15 min"."""
    return f"the last {span(length_s)}"


def _in_unit(value_s: float) -> tuple[str, str]:
    if value_s == 0:
        return "0", "s"
    if value_s < 0.0009995:
        return _three(value_s * 1e6), "µs"
    if value_s < 0.9995:
        return _three(value_s * 1e3), "ms"
    if value_s < 599.5:
        return _three(value_s), "s"
    return _three(value_s / 60), "min"


def _three(number: float) -> str:
    """Three digits, none of them after a point where there is no need."""
    if number >= 99.95:
        return f"{number:.0f}"
    text = f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"
    return text.rstrip("0").rstrip(".")
