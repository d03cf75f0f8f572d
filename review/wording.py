"""Numbers of a review as people read them: three digits, their unit, and how sure they are."""

from __future__ import annotations

from datetime import UTC, datetime

from review.money import Money
from review.uncertainty import Interval

__all__ = [
    "NOTHING",
    "cost",
    "count",
    "day",
    "goodput",
    "hour",
    "percentile",
    "probability",
    "seconds",
    "share",
]

NOTHING = "—"


def seconds(value_s: float | None) -> str:
    """As in "412 ms", "1.51 s", "144 s"."""
    if value_s is None:
        return NOTHING
    if 0 < value_s < 0.9995:
        return f"{_three(value_s * 1000)} ms"
    return f"{_three(value_s)} s"


def share(value: float | None, *, digits: int = 2) -> str:
    """As in "98.53 %"."""
    return NOTHING if value is None else f"{100 * value:.{digits}f} %"


def probability(value: float | None) -> str:
    """Whole percents; nothing is quite certain, and nothing quite impossible."""
    if value is None:
        return NOTHING
    if value > 0.99:
        return "> 99 %"
    return "< 1 %" if value < 0.01 else f"{100 * value:.0f} %"


def goodput(value: float, interval: Interval) -> str:
    """With what lies between 5 and 95 %."""
    return f"{100 * value:.2f} % ({100 * interval.low:.2f} to {100 * interval.high:.2f})"


def percentile(value_s: float | None, off: float | None) -> str:
    """With the error that the replay of the current split had."""
    if value_s is None or off is None:
        return seconds(value_s)
    return f"{seconds(value_s)} ±{max(round(100 * abs(off)), 1)} %"


def cost(money: Money | None, value: float | None) -> str:
    """An amount in the currency of the prices."""
    if money is None or value is None:
        return NOTHING
    shown = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{shown.replace(',', ' ')} {money.currency}"


def count(value: float | None) -> str:
    """Whole things, thousands set apart."""
    return NOTHING if value is None else f"{round(value):,}".replace(",", " ")


def day(at_s: float) -> str:
    """As in "2026-11-30"."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d")


def hour(at_s: float) -> str:
    """As in "2026-11-30 08:00 UTC"."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _three(number: float) -> str:
    if number >= 99.95:
        return f"{number:.0f}"
    return f"{number:.1f}" if number >= 9.995 else f"{number:.2f}"
