"""Which requests the requests page shows: status, measure, order, labels, and how slow at least."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from dashboard.explorer_charts import metric_word, promised
from dashboard.parts import empty, link, name_text, quiet, said
from dashboard.quantity import seconds
from dashboard.sieve import METRICS, NEWEST, SLOWEST, Sieve
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.labels import LABEL_NAMES, value_of
from domain.request import Outcome
from domain.request_columns import RequestColumns

__all__ = ["choices", "nothing"]

_MOST_SERVICES = 12
_MOST_OVER = 12  # characters


def choices(found: RequestColumns, ledger: Ledger, view: View, viewer: Viewer) -> Component:
    """Links for what there are few of, fields for the rest, and what is set, to be lifted."""
    rows = [
        _row("Status", _each(view, viewer, "status", ("", *Outcome), "any")),
        _row("By", _each(view, viewer, "metric", METRICS, "")),
        _row("Order", _each(view, viewer, "order", (SLOWEST, NEWEST), "")),
    ]
    services = sorted({value_of(each, "service") for each in set(found.labels)} - {""})
    if not value_of(view.where, "service") and services:
        rows.append(_row("Service", _services(services, view, viewer)))
    return html.Div([*rows, _fields(ledger, view), *_set(view, viewer)], className="sieve")


def nothing(found: RequestColumns, view: View, viewer: Viewer) -> Component:
    """Why there is none, and what to do about it."""
    if len(found.end_at_s):
        anyway = replace(view, sieve=Sieve(metric=view.sieve.metric))
        return empty(
            "None of them is like that",
            [html.P(link("All of this window", viewer.href(anyway)))],
        )
    lifted = replace(view, where=(), sieve=Sieve())
    ways: list[Component | str] = [link("the last 24 h", viewer.href(view.last(86_400)))]
    ways += [", ", link("any label", viewer.href(lifted))] if view.where else []
    return empty(
        "No request is kept of this window",
        [
            html.P(["Look at ", *ways, "."]),
            html.P(
                "Single requests are known by their spans; an engine's metrics page alone tells none. "
                "Let the engine send them here:"
            ),
            html.Pre(
                f"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://{viewer.host}:4318/v1/traces\n"
                f"vllm serve MODEL --otlp-traces-endpoint http://{viewer.host}:4318/v1/traces"
            ),
        ],
    )


def _row(name: str, links: list[Component]) -> Component:
    return html.Nav([quiet(name), *links], className="spans", **said(name))


def _each(view: View, viewer: Viewer, field: str, values: Any, unset: str) -> list[Component]:
    return [
        link(
            (metric_word(value) if field == "metric" else str(value)) or unset,
            viewer.href(replace(view, sieve=replace(view.sieve, **{field: str(value)}))),
            current=getattr(view.sieve, field) == value,
        )
        for value in values
    ]


def _services(services: Any, view: View, viewer: Viewer) -> list[Component]:
    links = [
        link(name_text(each), viewer.href(view.only("service", each)))
        for each in services[:_MOST_SERVICES]
    ]
    more = len(services) - len(links)
    return [*links, quiet(f"and {more} more: write service=NAME")] if more > 0 else links


def _fields(ledger: Ledger, view: View) -> Component:
    """What is written here is sent by `assets/requests.js` into the address."""
    promises = promised(ledger.standings(spark_s=0), view)
    hint = f"{promises[0].value:g}" if promises else "1.5"
    over = html.Label(
        [
            html.Span(f"{metric_word(view.sieve.metric)} above (s)"),
            _field("over", view.sieve.over, hint, _MOST_OVER, mode="decimal"),
        ],
        className="field",
    )
    only = html.Label(
        [html.Span("Only where"), _field("where", "", "replica=gpu-7", 300, mode="text")],
        className="field",
    )
    submit = html.Button("Show", type="submit", className="button")
    marks: dict[str, Any] = {"data-sieve": " ".join(LABEL_NAMES)}
    return html.Form([over, only, submit], className="fields", **marks)


def _field(name: str, text: str, hint: str, most: int, *, mode: str) -> Component:
    """Why a text area: Dash has no bare input field that keeps what is being written at a refresh."""
    marks: dict[str, Any] = {"data-shown": text}
    return html.Textarea(
        name=name, placeholder=hint, maxLength=most, rows=1, inputMode=mode, **marks
    )


def _set(view: View, viewer: Viewer) -> list[Component]:
    """What is set, each with the way to lift it."""
    chips = [_chip(name, value, viewer.href(view.only(name, ""))) for name, value in view.where]
    if view.sieve.over:
        lifted = viewer.href(replace(view, sieve=replace(view.sieve, over="")))
        word = f"{metric_word(view.sieve.metric)} above"
        chips.append(_chip(word, seconds(float(view.sieve.over)), lifted))
    return [html.Div(chips, className="choices")] if chips else []


def _chip(name: str, value: str, lifted: str) -> Component:
    cross = link("×", lifted, **said(f"Lift the filter {name}"))
    return html.Span([quiet(f"{name} "), name_text(value), cross], className="chip")
