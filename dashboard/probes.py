"""The probes page: how fast endpoints are from outside, what the network takes, and what asking costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from collector.query import Reader, Selection
from dashboard.content import Content
from dashboard.figures import Figure, Frame, chart
from dashboard.frame import common_regions, frame, region
from dashboard.graphs import graph
from dashboard.measure import MOST_LINES, curve, drawn, step_s
from dashboard.parts import SPOKEN_WHEN_CHANGED, Cell, badge, empty, name_text, quiet, said, table
from dashboard.probe_rows import target_table
from dashboard.probe_targets import Target, targets, where_probed
from dashboard.quantity import count, quantile_text, window_text
from dashboard.theme import State, css_class
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.labels import labels_of

__all__ = ["content", "page", "short_names"]

_P50 = Fraction(1, 2)
_P95 = Fraction(19, 20)
_MOST_FINDINGS = 8


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    del ledger  # promises have a page of their own
    window = view.window(viewer.now_s)
    found = targets(reader, window, view.where)
    heard = [each.heard_at_s for each in found if each.heard_at_s is not None]
    regions = common_regions(view, viewer, newest_at_s=max(heard, default=None), title="Probes")
    figure, told = _over_time(reader, found, view, viewer)
    return Content(
        title="Probes",
        regions=regions
        | told
        | {
            "state": _headline(found),
            "findings": _findings(found),
            "targets": target_table(found, viewer) if found else _nothing_yet(view),
        },
        charts={"outside": figure},
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions in place."""
    return frame(
        view,
        shown,
        [
            html.H1("Probes", className="unseen"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            region("findings", shown, **SPOKEN_WHEN_CHANGED),
            html.Section(region("targets", shown), **said("Targets")),
            html.Section(graph("outside", shown, height_px=232), **said("Over time")),
        ],
    )


def _headline(found: Sequence[Target]) -> Component | None:
    """How many stand how, the worst first."""
    if not found:
        return None
    tally = Counter(each.standing for each in found)
    order = sorted(tally.items(), key=lambda each: list(State).index(each[0][0]))
    return html.P(
        [badge(state, word=f"{number} {word}") for (state, word), number in order],
        className="tally",
    )


def _findings(found: Sequence[Target]) -> Component | None:
    """What somebody should do something about, and what."""
    told = [each for target in found for each in _of(target)]
    if not told:
        return None
    more = len(told) - _MOST_FINDINGS
    rest = [html.Li(quiet(f"and {count(more)} more, in the table below"))] if more > 0 else []
    return html.Ul(
        [*told[:_MOST_FINDINGS], *rest], className="conditions", **said("What stands out")
    )


def _of(target: Target) -> list[Component]:
    state, word = target.standing
    told: list[Component] = []
    if state is State.NOT_OBSERVED:
        words = "no probe for ten minutes. Next: look whether its sidecar runs, and at its log."
        told.append(_finding(state, word, target, words))
    if target.up is False and state is State.TICKET:
        bad = sum(target.failures.values())
        words = (
            f"{count(bad)} of {count(target.asked)} probes failed. Next: {_step(target.reason)}."
        )
        told.append(_finding(state, word, target, words))
    if target.buffers:
        place = target.buffers_at[:80] or "the endpoint"
        words = (
            f"answers arrive in lumps from {place} on: readers wait for many tokens at once. "
            "Next: turn its response buffering off (nginx: proxy_buffering off)."
        )
        told.append(_finding(State.TICKET, "in lumps", target, words))
    if target.held_back.get("capped"):
        words = "its budget is spent: not asked until it is renewed. Next: raise month_usd, month_tokens or hour_probes."
        told.append(_finding(State.NO_TRAFFIC, "not asked", target, words))
    return told


_STEPS = {
    "dns": "look at the resolver, and at the spelling of the host",
    "tls": "look at its certificate and the authority",
    "refused": "look whether anything listens there",
    "timeout": "look at its queue: it takes longer than timeout_s",
    "connect_timeout": "look at firewalls and routes: nobody answers the handshake",
    "http_429": "raise the quota, or probe less often",
    "cut_off": "look at the timeouts of what stands before it",
}


def _step(reason: str) -> str:
    return _STEPS.get(reason, "ask it by hand: stagewatch exporter probe --once")


def _finding(state: State, word: str, target: Target, words: str) -> Component:
    name = [name_text(target.label("service")), quiet([" ", name_text(target.label("replica"))])]
    return html.Li(
        [html.Div(badge(state, word=word)), html.P([*name, f": {words}"])],
        className=css_class(state),
    )


def _over_time(
    reader: Reader, found: Sequence[Target], view: View, viewer: Viewer
) -> tuple[Figure, dict[str, Any]]:
    """P95 of the time to first token of the first few targets."""
    window = view.window(viewer.now_s)
    step = step_s(window, most=48)
    lines, bands, rows = [], [], []
    names = short_names(found[:MOST_LINES])
    for rank, (name, target) in enumerate(zip(names, found, strict=False)):
        where = where_probed(labels_of({**dict(view.where), **dict(target.labels)}))
        series = reader.latency("ttft", Selection(window=window, where=where, step_s=step))
        points = [point for each in series for point in each.points]
        more = drawn(curve(points, _P95, window, step), viewer, name=name, rank=rank)
        lines += more[0]
        bands += more[1]
        whole = target.latency.get("ttft")
        values = (Cell(quantile_text(whole, q), number=True) for q in (_P50, _P95))
        rows.append([Cell(name_text(name)), *values])
    ends = viewer.axis_ms(np.array([window.since_s, window.until_s], np.float64))
    framed = Frame(
        since_ms=float(ends[0]),
        until_ms=float(ends[1]),
        zone=viewer.offset_word(),
        zoom=view.link(),
    )
    words = f"P95 of each target in {window_text(view.span_s) if view.live else 'this window'}"
    title = html.H3(["Time to first token, from outside ", html.Abbr("TTFT")])
    return chart(lines, bands, frame=framed), {
        "caption-outside": [title, html.P(quiet(words if lines or bands else "no values"))],
        "table-outside": table("TTFT from outside", ("Target", "P50", "P95"), rows)
        if rows
        else html.P(quiet("no values")),
    }


def short_names(found: Sequence[Target]) -> list[str]:
    """The shortest name each by which no two are called the same."""
    for way in (("region",), ("service", "region"), ("region", "replica")):
        names = [_called(each, way) for each in found]
        if len(set(names)) == len(names) and all(names):
            return names
    whole = ("service", "region", "replica", "model")
    return [_called(each, whole) or "not named" for each in found]


def _called(target: Target, way: Sequence[str]) -> str:
    return " ".join(filter(None, (target.label(part) for part in way)))


def _nothing_yet(view: View) -> Component:
    past = window_text(view.span_s) if view.live else "this window"
    url = "https://llm.example/v1"
    return empty(
        f"No probe was sent in {past}",
        [
            html.P("Ask an endpoint once, as its users do, and see every hop:"),
            html.Pre(
                f"stagewatch exporter probe --target {url} --model MODEL --service NAME --once"
            ),
            html.P("Then let it be asked every minute; what it may cost is bounded:"),
            html.Pre(
                "exporters:\n  probe:\n    targets:\n"
                f"      - {{service: NAME, url: {url}, model: MODEL, region: eu-west-1, month_tokens: 1000000}}"
            ),
        ],
    )
