"""A budget as a person reads it: what is left, how fast it burns, and when it will be gone."""

from __future__ import annotations

from fractions import Fraction

from alerts.ledger import Standing
from dashboard.quantity import age, percent_range

__all__ = ["budget_left", "burn_text", "forecast_text", "times"]


def budget_left(standing: Standing) -> str:
    """The share, with its doubt: "41.2 %", "38–41.2 %"."""
    low, high = standing.budget.remaining_low, standing.budget.remaining_high
    if low is None or high is None:
        return "no traffic yet"
    return percent_range(low, high)


def forecast_text(standing: Standing) -> str:
    """When it is gone at the burn of the last hour; "spent", or that it lasts."""
    low, high = standing.budget.remaining_low, standing.budget.remaining_high
    if low is None or high is None:
        return ""
    if high <= 0:
        return "spent"
    found = standing.forecast
    if found.earliest_s is None:
        return "it lasts, at the burn of the last hour"
    first = "gone now" if not found.earliest_s else f"gone in {age(found.earliest_s)}"
    if found.latest_s is None:
        return f"{first} at the earliest, or not at all"
    last = age(found.latest_s)
    return first if last == age(found.earliest_s) else f"{first} to {last}"


def burn_text(burn: tuple[Fraction, Fraction] | None) -> str:
    """How many times too fast, from surely to possibly: "0.2 ×", "3–6.1 ×"."""
    if burn is None:
        return "no traffic"
    first, last = times(burn[0]), times(burn[1])
    return first if first == last else f"{first.removesuffix(' ×')}–{last}"


def times(burn: Fraction) -> str:
    return f"{float(burn):.3g} ×" if burn else "0 ×"
