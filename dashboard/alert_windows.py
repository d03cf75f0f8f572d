"""The two windows of a rule against its limit: as they counted when it fired, and as they stand now."""

from __future__ import annotations

from fractions import Fraction

from dash import html
from dash.development.base_component import Component

from alerts import wording
from alerts.evidence import Evidence
from alerts.ledger import RuleStanding
from dashboard.parts import Cell, quiet, table
from dashboard.quantity import count, percent_range, span
from domain.slice import MINUTE_S, Tally, tally

__all__ = ["windows_table"]


def windows_table(
    fired: Evidence, rule: RuleStanding, limit: Fraction, *, surely: bool
) -> Component:
    """The long window says that it matters, the short one that it still happens."""
    short = fired.slices[-(fired.short_s // MINUTE_S) :]
    rows = [
        _row(fired.long_s, tally(fired.slices), rule.verdict.long, limit, surely=surely),
        _row(fired.short_s, tally(short), rule.verdict.short, limit, surely=surely),
    ]
    return table(
        "Both windows against the limit", ("Window", "When it fired", "Now", "Limit"), rows
    )


def _row(span_s: int, then: Tally, now: Tally, limit: Fraction, *, surely: bool) -> list[Cell]:
    return [
        Cell(f"last {span(span_s)}"),
        Cell(_held(then, limit, surely=surely), number=True),
        Cell(_held(now, limit, surely=surely), number=True),
        Cell(wording.percent(limit), number=True),
    ]


def _held(counted: Tally, limit: Fraction, *, surely: bool) -> list[Component]:
    """The share, on which side of the limit it is, and its counts."""
    if not counted.observed_minutes:
        return [quiet("not observed")]
    if not counted.total:
        return [quiet("no traffic")]
    low, high = Fraction(counted.bad_low, counted.total), Fraction(counted.bad_high, counted.total)
    above = (low if surely else high) > limit
    side = "above" if above else "within"
    bad = count(counted.bad_low)
    if counted.bad_low != counted.bad_high:
        bad = f"{bad}–{count(counted.bad_high)}"
    share = html.Span([html.Strong(percent_range(low, high)), f" {side}"])
    unseen = counted.minutes - counted.observed_minutes
    gap = f", {count(unseen)} of {count(counted.minutes)} min not observed" if unseen else ""
    return [share, quiet(f"{bad} of {count(counted.total)} bad{gap}")]
