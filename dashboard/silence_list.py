"""The silences page: what nobody is told of, by whom, why and until when; and a form for one more."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from alerts.silence import Silence
from collector.query import Reader
from dashboard.acts import expire, field, form, send
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    Cell,
    badge,
    clock,
    empty,
    name_text,
    named_by,
    quiet,
    table,
)
from dashboard.quantity import age
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer

__all__ = ["content", "page"]

_MOST = 200
_MOST_EXPIRED = 20
_LASTING = (
    (900, "15 min"),
    (3600, "1 h"),
    (7200, "2 h"),
    (14_400, "4 h"),
    (28_800, "8 h"),
    (86_400, "1 day"),
    (604_800, "1 week"),
    (2_592_000, "30 days, the longest"),
)
_BEGINNING = (
    (0, "now"),
    (900, "in 15 min"),
    (3600, "in 1 h"),
    (10_800, "in 3 h"),
    (43_200, "in 12 h"),
    (86_400, "in 1 day"),
)
_USUAL_S = 3600


def content(
    reader: Reader,  # noqa: ARG001 - every page is given one; this asks nothing of the store
    ledger: Ledger,
    view: View,
    viewer: Viewer,
) -> Content:
    """The page at one instant."""
    every = ledger.silences(at_s=viewer.now_s, limit=_MOST)
    of_state: dict[str, list[Silence]] = {"active": [], "pending": [], "expired": []}
    for each in every:
        of_state[each.state(viewer.now_s)].append(each)
    active, coming = of_state["active"], of_state["pending"]
    title = f"Silences ({len(active)})" if active else "Silences"
    return Content(
        title=title,
        regions=common_regions(view, viewer, newest_at_s=None, title=title)
        | {
            "time": None,
            "state": _headline(active, coming, viewer),
            "active": _table("Active silences", sorted(active, key=_end_s), viewer),
            "coming": _table("Silences to come", sorted(coming, key=_begin_s), viewer),
            "expired": _table("Silences that are over", of_state["expired"], viewer),
            "form": _form(view, viewer),
        },
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions in place."""
    sections = (("active", "Active"), ("coming", "Coming"), ("expired", "Over"))
    lists = [
        html.Section(
            [html.H2(title, id=f"{name}-title"), region(name, shown)], **named_by(f"{name}-title")
        )
        for name, title in sections
        if name == "active" or shown.regions.get(name) is not None
    ]
    create = html.Section(
        [html.H2("Silence something", id="form-title"), region("form", shown)],
        **named_by("form-title"),
    )
    return frame(
        view,
        shown,
        [
            html.H1("Silences", className="unseen"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            *lists[:1],
            create,
            *lists[1:],
        ],
    )


def _end_s(silence: Silence) -> int:
    return silence.ends_at_s


def _begin_s(silence: Silence) -> int:
    return silence.starts_at_s


def _headline(active: Sequence[Silence], coming: Sequence[Silence], viewer: Viewer) -> Component:
    later = f" {len(coming)} to come." if coming else ""
    if not active:
        return html.P([badge(State.HEALTHY, word="Nothing is silenced."), html.Span(later)])
    number = len(active)
    words = f"{number} silence{'s are' if number != 1 else ' is'} active."
    ends_s = min(map(_end_s, active)) - viewer.now_s
    first = f" {'The first' if number != 1 else 'It'} ends in {age(ends_s)}."
    return html.P([badge(State.NO_TRAFFIC, word=words), html.Span(first + later)])


def _table(caption: str, silences: Sequence[Silence], viewer: Viewer) -> Component | None:
    if not silences:
        return _none(caption)
    over = silences[0].state(viewer.now_s) == "expired"
    acting = viewer.may_act and not over
    columns = ["Matches all of", "Why", "Who", "From", "Until"] + ["End it"] * acting
    rows = []
    for each in silences[:_MOST_EXPIRED] if over else silences:
        cells = [
            Cell(_matchers(each)),
            Cell(name_text(each.reason), broad=True),
            Cell(name_text(each.author)),
            Cell(clock(viewer, each.starts_at_s), number=True),
            Cell(_until(each, viewer), number=True),
        ]
        rows.append([*cells, Cell(expire(each, viewer))] if acting else cells)
    more = len(silences) - len(rows)
    rest = [html.P(quiet(f"and {more} earlier: stagewatch alerts silences"))] if more > 0 else []
    return html.Div([table(caption, columns, rows), *rest])


def _none(caption: str) -> Component | None:
    if caption != "Active silences":
        return None
    return empty(
        "Everybody is told of everything",
        [
            html.P(
                "A silence keeps alerts from receivers for a while; they go on being judged, and what "
                "still fires when it ends is told again."
            )
        ],
    )


def _matchers(silence: Silence) -> Component:
    return html.Ul(
        [html.Li(html.Code(name_text(str(each)))) for each in silence.matchers],
        className="matchers",
    )


def _until(silence: Silence, viewer: Viewer) -> list[Component | str]:
    if silence.ended_at_s is not None and silence.ended_at_s <= viewer.now_s:
        by = [quiet(["ended by ", name_text(silence.ended_by)])] if silence.ended_by else []
        return [clock(viewer, silence.ended_at_s), *by]
    if silence.ends_at_s <= viewer.now_s:
        return [clock(viewer, silence.ends_at_s)]
    return [clock(viewer, silence.ends_at_s), quiet(f"in {age(silence.ends_at_s - viewer.now_s)}")]


def _form(view: View, viewer: Viewer) -> Component:
    if not viewer.may_act:
        return html.P(quiet("Only responders silence; you may look."))
    address = viewer.address("/api/v1/silences")
    preview = html.P(className="preview", role="status")
    what = field("matchers", "What: one matcher a line, all must match", most=4000, rows=3,
                 text="\n".join(view.matchers))  # fmt: skip
    example = html.P(
        quiet(
            [
                html.Code("objective=chat-ttft"),
                ", ",
                html.Code("service=chat"),
                ", ",
                html.Code("replica=~gpu-.*"),
                ", ",
                html.Code("severity!=page"),
            ]
        ),
        className="dots",
    )
    rest = [
        field("reason", "Why", most=1000),
        field("author", "Your name", most=128, kept=True),
        _select("begins_in_s", "From", _BEGINNING, 0),
        _select("duration_s", "For", _LASTING, _USUAL_S),
    ]
    return form(
        [
            html.Div([what, example, preview], className="what"),
            html.Div(rest, className="fields"),
            html.Div([send("Silence", address, main=True)], className="acts"),
        ],
        **{"data-preview": f"{address}/preview"},
    )


def _select(name: str, label: str, choices: Sequence[tuple[int, str]], usual: int) -> Component:
    options: list[Any] = [html.Option(word, value=str(number)) for number, word in choices]
    # why not `selected`: a refresh would choose it again under the reader's hands
    marks: dict[str, Any] = {"data-usual": str(usual)}
    select = html.Select(options, name=name, **marks)
    return html.Label([html.Span(label), select], className="field")
