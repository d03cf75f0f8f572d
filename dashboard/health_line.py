"""A line of the status page: what, in which state, the number that says so, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dash import html
from dash.development.base_component import Component

from dashboard.parts import Cell, badge, name_text, quiet, sentence, table
from dashboard.quantity import count
from dashboard.theme import State

__all__ = ["Health", "bytes_text", "health_table", "worst_first"]

_MOST_ROWS = 40
_WORDS = {
    State.PAGE: "broken",
    State.TICKET: "look at it",
    State.NOT_OBSERVED: "not known",
    State.NO_TRAFFIC: "not in use",
    State.HEALTHY: "well",
}
_UNITS = ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """`now` is a number with its unit; `step` what somebody does about it, empty where nothing."""

    what: str
    state: State
    now: str
    note: str = ""
    step: str = ""
    word: str = ""


def worst_first(found: Sequence[Health]) -> list[Health]:
    """As states are ordered; among equals as they were told."""
    return sorted(found, key=lambda each: list(State).index(each.state))


def health_table(title: str, found: Sequence[Health]) -> Component | None:
    """Its lines, the worst first."""
    if not found:
        return None
    ordered = worst_first(found)
    rows = [
        [
            Cell([name_text(each.what)]),
            Cell([badge(each.state, word=each.word or _WORDS[each.state])]),
            Cell([sentence(each.now), html.Span(quiet(sentence(each.note)), className="under")]),
            Cell(_step(each.step) if each.step else quiet("nothing"), broad=True),
        ]
        for each in ordered[:_MOST_ROWS]
    ]
    more = len(ordered) - len(rows)
    rest = html.P(quiet(f"and {count(more)} more like the last")) if more > 0 else None
    columns = ("What", "State", "Now", "What to do")
    return html.Div([html.H2(title), table(title, columns, rows), rest])


def _step(words: str) -> list[Component]:
    """What stands between backticks is to be typed."""
    parts = enumerate(words.split("`"))
    return [html.Code(part[:200]) if at % 2 else sentence(part) for at, part in parts if part]


def bytes_text(size: float) -> str:
    """Three digits and the unit that suits."""
    for unit, word in _UNITS:
        if size >= unit:
            return f"{size / unit:.3g} {word}"
    return f"{size:.0f} B"
