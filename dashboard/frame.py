"""What surrounds every page: header, time control, banner, footer, the list of keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from dashboard.content import Content
from dashboard.legible import legible
from dashboard.parts import SILENT, badge, clock, link, name_text, named_by, quiet, said
from dashboard.quantity import age, span
from dashboard.theme import LOOKS, State
from dashboard.url import (
    ALERTS,
    ALONE,
    BALANCE,
    ENDPOINTS,
    GPUS,
    PROBES,
    REQUESTS,
    SILENCES,
    STATUS,
    View,
)
from dashboard.viewer import Viewer

__all__ = ["SPANS_S", "base", "common_regions", "frame", "region", "tab_title", "trouble"]

_NAMES = {
    ALERTS: "Alerts",
    SILENCES: "Silences",
    REQUESTS: "Requests",
    GPUS: "GPUs",
    ENDPOINTS: "Endpoints",
    PROBES: "Probes",
    BALANCE: "Balance",
    STATUS: "Status",
}
SPANS_S = (900, 3600, 21_600, 86_400, 604_800)
_OLD_S = 180
_KEYS = (
    ("g f", "Fleet: all promises and services"),
    ("g a", "Alerts: what is open, and what was lately"),
    ("g s", "Silences: what nobody is told of, and until when"),
    ("g r", "Requests: the slowest and the newest, one by one"),
    ("g g", "GPUs: what they do, and which of them do not answer"),
    ("g e", "Endpoints: what CloudWatch tells of SageMaker and Bedrock"),
    ("g p", "Probes: how fast it is from outside"),
    ("g b", "Balance: what the weekly review says of prefill and decode"),
    ("g u", "Status: how Stagewatch itself is"),
    ("/", "Find on the fleet page"),
    ("w", "When: choose from when to when"),
    ("c", "Compare with a week ago"),
    ("y", "Copy a link to exactly this"),
    ("l", "Live: show the present again"),
    ("[ and ]", "Earlier, later"),
    ("1 … 5", "Last 15 min, 1 h, 6 h, 24 h, 7 d"),
    ("t", "Light, dark, or as the system has it"),
    ("?", "This list"),
    ("Esc", "Close it"),
)


def region(name: str, content: Content, *, tag: Any = html.Div, **more: Any) -> Component:
    """A place that a refresh fills anew."""
    placed: Component = tag(content.regions.get(name), id={"region": name}, **more)
    return placed


def base(*, refresh_ms: int) -> Component:
    """What stays while pages come and go."""
    return html.Div(
        [
            html.A("Skip to the content", href="#main", className="skip"),
            dcc.Location(id="url", refresh=False),
            dcc.Interval(id="tick", interval=refresh_ms),
            *(dcc.Store(id=name) for name in ("ask-page", "ask-fill", "answered", "wake")),
            html.P(id="offline", className="notice trouble", role="status", hidden=True),
            html.Div(html.P("Loading…", className="loading"), id="content"),
            _keys(),
            _when(),
        ],
        id="stagewatch",
    )


def frame(view: View, content: Content, body: Sequence[Component]) -> list[Component]:
    """One page, filled."""
    return [
        html.Header(
            [
                region("brand", content, className="brand"),
                region("time", content, className="time"),
                html.Div(
                    [
                        _button("theme", "◐", "Light or dark"),
                        _button("keys", "?", "Keys"),
                    ],
                    className="tools",
                ),
            ],
            className="top",
        ),
        region("banner", content, role="status"),
        html.Main(body, id="main", tabIndex="-1", className=f"page-{view.page or 'fleet'}"),
        html.Footer([region("footer", content), html.P(id="who", className="quiet", hidden=True)]),
        region("title", content, hidden=True),
    ]


def common_regions(
    view: View, viewer: Viewer, *, newest_at_s: int | None, title: str
) -> dict[str, Any]:
    """The regions that every page has."""
    return {
        "brand": _brand(view, viewer),
        "time": _time(view, viewer, newest_at_s),
        "banner": None,
        "footer": _footer(viewer),
        "title": title,
    }


def tab_title(states: Mapping[str, State]) -> str:
    """The worst state, how many are in it and the first of them: "▲2 chat-ttft"."""
    if not states:
        return "Stagewatch"
    worst = min(states.values(), key=list(State).index)
    if worst is State.HEALTHY:
        return f"{LOOKS[worst].symbol} Stagewatch"
    names = [name for name, state in states.items() if state is worst]
    return f"{LOOKS[worst].symbol}{len(names)} {legible(names[0])}"


def trouble(error: Exception, *, viewer: Viewer) -> dict[str, Any]:
    """A refresh that failed: what is on the screen stays, and says how old it is."""
    return {
        "banner": html.P(
            [
                badge(State.NOT_OBSERVED, word="The data could not be read"),
                f" at {viewer.clock(viewer.now_s, seconds=True)}: ",
                name_text(str(error) or type(error).__name__),
                " What you see below is older. It is tried again with each refresh.",
            ],
            className="notice trouble",
        )
    }


def _brand(view: View, viewer: Viewer) -> list[Component]:
    mark = html.Span([html.I(), html.I(), html.I()], className="mark", **SILENT)
    fleet = View(span_s=view.span_s, fixed=view.fixed)
    crumbs: list[Component] = [
        link(
            [mark, html.Span("Stagewatch")],
            viewer.href(fleet),
            current=not view.page,
            id="fleet-link",
        )
    ]
    if view.service:
        crumbs.append(
            html.Span(
                [html.Span("/", className="slash", **SILENT), html.Span(name_text(view.service))]
            )
        )
    return [
        html.Nav(crumbs, **said("Where you are")),
        html.Nav(_others(view, viewer), className="spans pages", **said("Other pages")),
    ]


def _others(view: View, viewer: Viewer) -> list[Component]:
    """The pages that are of no service."""
    pages = {page: View(alone=page, span_s=view.span_s, fixed=view.fixed) for page in ALONE}
    return [
        link(_NAMES[page], viewer.href(there), current=view.page == page, id=f"{page}-link")
        for page, there in pages.items()
    ]


def _time(view: View, viewer: Viewer, newest_at_s: int | None) -> list[Component]:
    window = view.window(viewer.now_s)
    length_s = window.until_s - window.since_s
    spans = [
        link(
            span(each) if each != 86_400 else "24 h",
            viewer.href(view.last(each)),
            current=view.live and view.span_s == each,
        )
        for each in SPANS_S
    ]
    half_s = max(length_s // 2, 1)
    earlier = view.between(window.since_s - half_s, window.until_s - half_s)
    later = view.between(window.since_s + half_s, window.until_s + half_s)
    moves = [
        link("←", viewer.href(earlier), id="earlier", title="Earlier", **said("Earlier")),
        link("→", viewer.href(later), id="later", title="Later", **said("Later")),
    ]
    shown: dict[str, Any] = {"data-since": window.since_s, "data-until": window.until_s}
    return [
        html.Nav(spans, className="spans", id="span", **said("Time shown"), **shown),
        html.Nav(moves, className="spans moves", **said("Move the time shown")),
        _liveness(view, viewer, newest_at_s),
        _button("when", "When…", "Choose from when to when"),
        _button("share", "Link", "Copy a link to exactly this"),
    ]


def _liveness(view: View, viewer: Viewer, newest_at_s: int | None) -> Component:
    window = view.window(viewer.now_s)
    if view.live:
        age_s = None if newest_at_s is None else viewer.now_s - newest_at_s
        past = "no data yet" if age_s is None else f"data {age(age_s)} old"
        if age_s is None or age_s <= _OLD_S:
            return html.P([html.Span("live", className="live"), quiet(past)], className="liveness")
        word = html.Span("live", className="live silent")
        return html.P([word, html.Strong(past)], className="liveness")
    return html.P(
        [
            html.Strong("Paused"),
            quiet(
                [
                    " ",
                    clock(viewer, window.since_s, to_the_second=True),
                    " to ",
                    clock(viewer, window.until_s, to_the_second=True),
                ]
            ),
            " ",
            link("Live", viewer.href(view.last(view.span_s)), id="live", className="button"),
        ],
        className="liveness",
    )


def _footer(viewer: Viewer) -> Component:
    zone = viewer.zone_word()
    return html.P(
        [
            "Read at ",
            clock(viewer, viewer.now_s, to_the_second=True),
            f", times in {zone}, UTC on hover. Press ",
            html.Kbd("?"),
            " for keys.",
        ],
        className="quiet",
    )


def _keys() -> Component:
    rows = [html.Div([html.Dt(html.Kbd(key)), html.Dd(what)]) for key, what in _KEYS]
    return html.Dialog(
        [
            html.H2("Keys", id="keys-title"),
            html.Dl(rows),
            html.P(
                "Drag across a chart to look closer; the refresh then pauses until you press Live. "
                "Press a point of it to see the slowest requests behind it."
            ),
            _button("close", "Close", "Close the list of keys"),
        ],
        id="keys",
        **named_by("keys-title"),
    )


def _when() -> Component:
    """From when to when, written as people say it; `assets/frame.js` reads it."""
    marks: dict[str, Any] = {"data-when": "1"}
    hint = "now-6h, 14:30, 2026-03-01 14:30, or with a zone: 2026-03-01T13:30Z"
    return html.Dialog(
        html.Form(
            [
                html.H2("From when to when", id="when-title"),
                _instant_field("from", "From"),
                _instant_field("to", "To"),
                html.P(hint, className="quiet"),
                html.P(id="when-wrong", role="alert", className="wrong"),
                html.Div(
                    [
                        html.Button("Show", type="submit", className="button"),
                        _button("close-when", "Close", "Close without a change"),
                    ],
                    className="tools",
                ),
            ],
            **marks,
        ),
        id="when",
        **named_by("when-title"),
    )


def _instant_field(name: str, word: str) -> Component:
    # why a text area: Dash has no bare input field that keeps what is being written
    field = html.Textarea(name=name, id=f"when-{name}", rows=1, maxLength=40)
    return html.Label([html.Span(word), field], className="field")


def _button(act: str, face: str, label: str) -> Component:
    marks: dict[str, Any] = {"data-act": act} | said(label)
    return html.Button(face, title=label, className="button", type="button", **marks)
