"""A chart on a page: a figure that a screen reader reads as its sentence, and as a table on demand."""

from __future__ import annotations

from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.content import Content
from dashboard.frame import region
from dashboard.parts import named_by, said

__all__ = ["graph"]

_CONFIG: Any = {
    "displayModeBar": False,
    "doubleClick": False,
    "responsive": True,
    "showTips": False,
}


def graph(name: str, shown: Content, *, height_px: int, over_time: bool = True) -> Component:
    """The chart `name`, between its caption and its table; what is over time can be had as a file."""
    caption = f"caption-{name}"
    return html.Figure(
        [
            html.Figcaption(region(caption, shown), id=caption),
            dcc.Graph(
                id={"chart": name},
                figure=shown.charts.get(name) or {},
                config=_CONFIG,
                style={"height": f"{height_px}px"},
                responsive=True,
            ),
            html.Div(
                [
                    html.Details(
                        [html.Summary("as a table"), region(f"table-{name}", shown)],
                        className="as-table",
                    ),
                    _taken("csv", "CSV", "The values of this chart as a file")
                    if over_time
                    else None,
                    _taken("png", "PNG", "This chart as a picture"),
                ],
                className="under-chart",
            ),
        ],
        role="group",
        **named_by(caption),
    )


def _taken(way: str, face: str, label: str) -> Component:
    marks: dict[str, Any] = {"data-chart": way} | said(label)
    return html.Button(face, type="button", title=label, className="plain", **marks)
