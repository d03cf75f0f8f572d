"""What is drawn over and under the values of a chart: stretches, and instants that have a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from dashboard.legible import legible

__all__ = [
    "FAINT",
    "GREY",
    "LONGEST",
    "Figure",
    "Instant",
    "Mark",
    "hatch",
    "names",
    "shade",
    "uprights",
]

Figure = dict[str, Any]

GREY = "#80868D"  # 3.7 : 1 and 4.7 : 1
FAINT = "rgba(128,134,141,0.22)"
LONGEST = 16
"""Of a name in a chart."""
_LETTERS = 36
"""That stand beside each other above the narrowest chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A stretch of time about which there is something to say instead of a value, or beside it."""

    since_ms: float
    until_ms: float
    label: str
    hatched: bool
    shaded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Instant:
    """Something that happened: a line from top to bottom, named above the chart."""

    at_ms: float
    label: str


def hatch(mark: Mark) -> Figure:
    """A hatched bar as high as the chart; shapes know no hatching."""
    return {
        "type": "bar",
        "x": [(mark.since_ms + mark.until_ms) / 2],
        "y": [1],
        "width": [mark.until_ms - mark.since_ms],
        "yaxis": "y2",
        "hoverinfo": "skip",
        "marker": {
            "color": "rgba(0,0,0,0)",
            "line": {"width": 0},
            "pattern": {"shape": "/", "size": 7, "solidity": 0.16, "fgcolor": GREY},
        },
    }


def shade(mark: Mark) -> Figure:
    """A stretch that is set apart, with its values."""
    return {
        "type": "rect",
        "x0": mark.since_ms,
        "x1": mark.until_ms,
        "yref": "paper",
        "y0": 0,
        "y1": 1,
        "fillcolor": FAINT,
        "line": {"width": 0},
        "layer": "below",
    }


def uprights(instants: Sequence[Instant]) -> list[Figure]:
    """A dotted line for each."""
    line = {"color": GREY, "width": 1.5, "dash": "dot"}
    return [
        {"type": "line", "x0": each.at_ms, "x1": each.at_ms, "yref": "paper", "y0": 0, "y1": 1}
        | {"line": line}
        for each in instants
    ]


def names(instants: Sequence[Instant], *, since_ms: float, until_ms: float) -> list[Figure]:
    """Named above the chart, as many as fit beside each other on a telephone; the first ones do."""
    letter_ms = (until_ms - since_ms) / _LETTERS
    named: list[Figure] = []
    free_ms = float("-inf")
    for each in sorted(instants, key=lambda instant: instant.at_ms):
        text = legible(each.label[:LONGEST])
        wide_ms = letter_ms * (len(text) + 1)
        left_ms = min(max(each.at_ms - wide_ms / 2, since_ms), until_ms - wide_ms)
        if left_ms >= free_ms:
            free_ms = left_ms + wide_ms
            named.append(
                {"x": left_ms + wide_ms / 2, "y": 1, "yref": "paper", "yanchor": "bottom"}
                | {"text": escape(text, quote=False), "xanchor": "center", "showarrow": False}
            )
    return named
