"""What a reader may choose on a page of charts: how it is split, what it is filtered by, compared with."""

from __future__ import annotations

from dataclasses import replace

from dash import dcc, html
from dash.development.base_component import Component

from collector.query import Reader, Window
from dashboard.content import Content
from dashboard.frame import region
from dashboard.parts import link, name_text, quiet, said
from dashboard.url import GROUPINGS, PROMPT, View
from dashboard.viewer import Viewer
from domain.labels import Labels

__all__ = ["choices", "chosen", "filter_field", "filter_values"]

_OFFERED = ("model", "model_version", "engine", "replica", "role", "pool", "region", "use_case")
_MOST_VALUES = 60
"""Of one label; any other may be written."""


def choices(view: View, viewer: Viewer) -> Component:
    """Split by a label, last week beside it, and the filters that are set."""
    every = [("", "all together"), *((each, each) for each in GROUPINGS), (PROMPT, "prompt length")]
    split = [
        link(word, viewer.href(replace(view, by=name)), current=view.by == name)
        for name, word in every
    ]
    ago = replace(view, a_week_ago=not view.a_week_ago)
    word = "Without last week" if view.a_week_ago else "Compare with a week ago"
    compare = link(word, viewer.href(ago), id="compare", className="button")
    return html.Div(
        [
            html.Nav([quiet("Split by"), *split], className="spans", **said("Split by")),
            compare,
            *chosen(view, viewer),
        ],
        className="choices",
    )


def chosen(view: View, viewer: Viewer) -> list[Component]:
    """What it is filtered by, each to be lifted."""
    return [_chip(name, value, view, viewer) for name, value in _filters(view.where)]


def filter_field(shown: Content) -> Component:
    """`label=value`, with what is there to choose from; the list is renewed, the field is not."""
    return html.Div(
        [
            html.Label("Filter by a label", htmlFor="filter", className="unseen"),
            dcc.Input(
                id="filter",
                type="text",
                placeholder="Filter: model=…, region=…",
                list='{"region":"filter-values"}',
                debounce=True,
                maxLength=300,
                autoComplete="off",
                value="",
            ),
            region("filter-values", shown, tag=html.Datalist),
        ],
        className="find",
    )


def filter_values(reader: Reader, window: Window) -> list[Component]:
    """What the labels were in the window."""
    return [
        html.Option(value=f"{name}={value}")
        for name in _OFFERED
        for value in reader.label_values(name, window)[:_MOST_VALUES]
    ]


def _filters(where: Labels) -> Labels:
    return tuple((name, value) for name, value in where if name != "service")


def _chip(name: str, value: str, view: View, viewer: Viewer) -> Component:
    lifted = viewer.href(view.only(name, ""))
    return html.Span(
        [quiet(f"{name} "), name_text(value), link("×", lifted, **said(f"Lift the filter {name}"))],
        className="chip",
    )
