"""The requests page: the slowest or the newest of a window, one by one, and where they stand out."""

from __future__ import annotations

import numpy as np
from dash import html
from dash.development.base_component import Component
from numpy.typing import NDArray

from alerts.ledger import Ledger
from collector.query import Reader
from dashboard.content import Content
from dashboard.explorer_charts import bands, promised, scatter
from dashboard.explorer_choices import choices, nothing
from dashboard.explorer_table import MOST_ROWS, request_table
from dashboard.frame import common_regions, frame, region
from dashboard.graphs import graph
from dashboard.parts import SPOKEN_WHEN_CHANGED, clock, link, named_by, said
from dashboard.quantity import count, percent, window_text
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.request import Outcome
from domain.request_columns import RequestColumns

__all__ = ["content", "page"]

Rows = NDArray[np.int64]


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    window = view.window(viewer.now_s)
    found = reader.request_columns(window, where=view.where)
    rows = view.sieve.rows(found)
    newest_at_s = int(found.end_at_s[0]) if len(found.end_at_s) and view.live else None
    promises = promised(ledger.standings(spark_s=0), view)
    cloud, told = scatter(found, rows, promises, view, viewer)
    over_time, bands_told = bands(reader, promises, view, viewer)
    regions = common_regions(view, viewer, newest_at_s=newest_at_s, title="Requests") | {
        "state": _headline(found, rows, view),
        "reach": _reach(found, view, viewer),
        "choices": choices(found, ledger, view, viewer),
        "requests": request_table(found, rows[:MOST_ROWS], view, viewer, whole=len(rows))
        if len(rows)
        else nothing(found, view, viewer),
    }
    return Content(
        title="Requests",
        regions=regions | told | bands_told,
        charts={"cloud": cloud, "bands": over_time},
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions and charts in place."""
    charts = [
        graph("bands", shown, height_px=248),
        graph("cloud", shown, height_px=248, over_time=False),
    ]
    return frame(
        view,
        shown,
        [
            html.H1("Requests", className="unseen"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            html.Section(region("choices", shown), **said("Which requests")),
            region("reach", shown),
            html.Section(
                [
                    html.H2("Where they stand out", id="out-title", className="unseen"),
                    html.Div(charts, className="charts"),
                ],
                **named_by("out-title"),
            ),
            html.Section(region("requests", shown), **said("Requests, one by one")),
        ],
    )


def _headline(found: RequestColumns, rows: Rows, view: View) -> Component:
    past = window_text(view.span_s) if view.live else "this window"
    total = len(found.end_at_s)
    if not total:
        return html.P(f"No request is kept of {past}.")
    failed = int((found.outcome == list(Outcome).index(Outcome.FAILED)).sum())
    bad = f"{count(failed)} failed" if failed else "none failed"
    if len(rows) == total:
        return html.P(f"{count(total)} requests in {past}, {bad}.")
    share = percent(len(rows) / total)
    return html.P(f"{count(len(rows))} of {count(total)} requests in {past}, {share}.")


def _reach(found: RequestColumns, view: View, viewer: Viewer) -> Component | None:
    """Where not all of the window was looked at: how far back these go."""
    if found.reaches_s is None:
        return None
    earlier = view.between(view.window(viewer.now_s).since_s, found.reaches_s)
    words = "These are the newest, back to "
    return html.P(
        [
            words,
            clock(viewer, found.reaches_s, to_the_second=True),
            "; what is rarer or older is found in a shorter window: ",
            link("the time before", viewer.href(earlier)),
            ".",
        ],
        className="notice",
    )
