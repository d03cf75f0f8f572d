"""One request: where its time went, who saw it, and which promises it broke."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from alerts.kept import Kept, Verdict, kept
from alerts.ledger import Ledger
from collector.query import Reader
from dashboard.content import Content
from dashboard.explorer_charts import metric_word
from dashboard.explorer_table import outcome_badge
from dashboard.frame import common_regions, frame, region
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    Cell,
    badge,
    clock,
    empty,
    link,
    name_text,
    quiet,
    said,
    table,
)
from dashboard.quantity import NOTHING, count, seconds
from dashboard.stages import stage_word
from dashboard.surroundings import around, gpus_then, load_then
from dashboard.theme import State
from dashboard.url import OBJECTIVE, REQUESTS, View
from dashboard.viewer import Viewer
from dashboard.waterfall import first_token_s, waterfall, who_saw_it
from domain.labels import labels_of, value_of
from domain.request import Outcome, Request
from domain.request_columns import Traced

__all__ = ["content", "page"]

_ID = re.compile(r"[0-9a-fA-F]{32}")
_NS = 1_000_000_000
_MOST_OTHERS = 8
_STATES = {
    Verdict.BROKEN: State.TICKET,
    Verdict.KEPT: State.HEALTHY,
    Verdict.NOT_MEASURED: State.NOT_OBSERVED,
    Verdict.NOT_COUNTED: State.NO_TRAFFIC,
}
_ENDS = {
    Outcome.OK: "was answered",
    Outcome.FAILED: "failed",
    Outcome.CANCELLED: "was given up by its client",
    Outcome.REJECTED: "was refused as wrong",
}

Judged = list[tuple[str, str, Kept]]
"""Objective's id and name, and what the request was to one of its limits."""


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    known = _ID.fullmatch(view.one)
    found = reader.traced(bytes.fromhex(view.one)) if known else []
    title = f"Request {view.one[:8]}"
    regions = common_regions(view, viewer, newest_at_s=viewer.now_s, title=title)
    if not found:
        return Content(title=title, regions=regions | {"state": _unknown(view, viewer)})
    first, *others = found
    request, legs = first.request, first.legs
    judged = _judged(first, ledger)
    return Content(
        title=title,
        regions=regions
        | {
            "state": _headline(request),
            "verdicts": _tally(judged),
            "facts": _facts(request, viewer),
            "waterfall": html.Div([html.H2("Where the time went"), waterfall(request)]),
            "promises": _promises(judged, viewer),
            "legs": who_saw_it(request, legs),
            "load": load_then(reader, request, legs),
            "gpus": gpus_then(reader, request, legs),
            "others": _others(others),
            "ids": _ids(view, request, viewer),
        },
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions in place."""
    return frame(
        view,
        shown,
        [
            html.H1(["Request ", html.Code(name_text(view.one[:32]))], className="unseen"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            region("verdicts", shown),
            region("ids", shown),
            region("facts", shown),
            html.Section(region("waterfall", shown), **said("Where the time went")),
            html.Section(region("promises", shown), **said("What was promised")),
            html.Section(region("legs", shown), **said("Who saw it")),
            html.Div(
                [
                    html.Section(region("load", shown), **said("How busy it was")),
                    html.Section(region("gpus", shown), **said("Its GPUs")),
                ],
                className="pair",
            ),
            html.Section(region("others", shown), **said("Other requests of this trace")),
        ],
    )


def _unknown(view: View, viewer: Viewer) -> Component:
    word = "is no trace id: that is 32 hexadecimal digits" if not _ID.fullmatch(view.one) else ""
    title = "No such request is kept"
    why = f"{view.one[:60]!r} {word}." if word else (
        "Single requests are kept for three days unless `collector.requests_retention_s` says "
        "otherwise; what was counted of them stays."
    )  # fmt: skip
    explorer = link("the slowest of the last hour", viewer.href(View(alone=REQUESTS)))
    return empty(title, [html.P(name_text(why)), html.P(["Look at ", explorer, "."])])


def _headline(request: Request) -> Component:
    service = value_of(request.labels, "service") or "somebody"
    e2e_s = request.client_e2e_s if request.client_e2e_s is not None else request.e2e_s
    lasted_s = (request.end_at_ns - request.start_at_ns) / _NS if e2e_s is None else e2e_s
    first_s = first_token_s(request)
    words = f"{_ENDS[request.outcome]} after {seconds(lasted_s)}"
    words += f"; its first token came after {seconds(first_s)}" if first_s is not None else (
        "; nobody saw a first token"
    )  # fmt: skip
    known = {stage: each for stage, each in request.stage_s.items() if each}
    longest = max(known, key=lambda stage: known[stage], default=None)
    words += f". Longest: {stage_word(longest)}, {seconds(known[longest])}." if longest else "."
    return html.P(
        [outcome_badge(request.outcome), "A request to ", name_text(service), f" {words}"]
    )


def _judged(traced: Traced, ledger: Ledger) -> Judged:
    found = [
        (each.id, each.objective.name, one)
        for each in ledger.standings(spark_s=0)
        for one in kept(traced.request, traced.legs, each.objective)
    ]
    order = list(Verdict)
    return sorted(found, key=lambda each: (order.index(each[2].verdict), each[1]))


def _tally(judged: Judged) -> Component | None:
    broken = sorted({name for _, name, one in judged if one.verdict is Verdict.BROKEN})
    if not judged:
        return None
    if not broken:
        return html.P(badge(State.HEALTHY, word="broke no promise"))
    names = ", ".join(each[:60] for each in broken[:6])
    return html.P([badge(State.TICKET, word=f"broke {len(broken)}"), " ", name_text(names)])


def _promises(judged: Judged, viewer: Viewer) -> Component:
    if not judged:
        why = "No promise is about a request like this one."
        return html.Div([html.H2("What was promised"), html.P(quiet(why))])
    rows = []
    for objective_id, name, one in judged:
        there = viewer.href(View(alone=OBJECTIVE, one=objective_id))
        limit = one.limit
        promised = f"{metric_word(limit.metric)} at most {seconds(float(limit.threshold_s))}" if (
            limit
        ) else "an answer"  # fmt: skip
        rows.append(
            [
                Cell(link(name_text(name), there)),
                Cell([badge(_STATES[one.verdict], word=str(one.verdict))]),
                Cell(promised),
                Cell(seconds(one.value_s) if limit else NOTHING, number=True),
            ]
        )
    columns = ("Promise", "This request", "Promised", "It got")
    return html.Div([html.H2("What was promised"), table("What was promised", columns, rows)])


def _facts(request: Request, viewer: Viewer) -> Component:
    end_s = request.end_at_ns // _NS
    cached = request.cached_tokens
    told_by = request.measured_by or "its client alone"
    whole = "" if request.complete else "a span is missing"
    facts: list[tuple[str, Any, str]] = [
        ("Ended", clock(viewer, end_s, to_the_second=True), request.finish_reason[:40]),
        ("TTFT", seconds(request.ttft_s), f"told by the {told_by}" if request.ttft_s else ""),
        ("Client's TTFT", seconds(request.client_ttft_s), ""),
        ("E2E", seconds(request.e2e_s), whole),
        ("TPOT", seconds(request.tpot_s), "mean time between tokens"),
        ("Longest gap", seconds(request.itl_max_s), ""),
        (
            "Tokens in, out",
            f"{count(request.prompt_tokens)}, {count(request.output_tokens)}",
            "" if cached is None else f"{count(cached)} from the cache",
        ),
    ]
    items = [
        html.Div(
            [html.Dt(name), html.Dd([html.Span(value, className="value"), quiet(name_text(note))])]
        )
        for name, value, note in facts
    ]
    return html.Dl(items, className="facts")


def _ids(view: View, request: Request, viewer: Viewer) -> Component:
    """What one pastes elsewhere, and the ways to what is like it."""
    trace_id = view.one.lower()
    marks: dict[str, Any] = {"data-copy": trace_id} | said("Copy the trace id")
    window = around(request)
    service = value_of(request.labels, "service")
    where = labels_of({"service": service})
    beside = View(alone=REQUESTS, where=where).between(window.since_s, window.until_s)
    api = viewer.address(f"/api/v1/requests/{trace_id}")
    parts: list[Component | str] = [
        html.Code(trace_id, className="id"),
        html.Button("Copy", type="button", className="button", **marks),
        link("requests at the same time", viewer.href(beside)),
        html.A("as JSON", href=api),
    ]
    if service:
        there = View(service=service).between(window.since_s - 600, window.until_s + 600)
        parts.append(link("its service then", viewer.href(there)))
    return html.Div(parts, className="choices ids")


def _others(others: Sequence[Traced]) -> Component | None:
    """A trace may hold several calls."""
    if not others:
        return None
    parts: list[Component] = [html.H2("Other requests of this trace")]
    for each in others[:_MOST_OTHERS]:
        parts += [html.Div(_headline(each.request)), waterfall(each.request)]
    return html.Div(parts, className="others")
