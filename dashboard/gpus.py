"""The GPUs page: which of them answer, what they do, and what holds them down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from collector.query import Reader
from dashboard import heat
from dashboard.boards import Board, boards, node_troubles, step_s
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region, tab_title
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    Cell,
    badge,
    clock,
    empty,
    link,
    meter,
    name_text,
    quiet,
    said,
    table,
)
from dashboard.quantity import NOTHING, count, percent, span, window_text
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer

__all__ = ["content", "page"]

MOST_GPUS = 128
_GIB = 1 << 30
_SHORT = 13  # of a UUID: "GPU-0a1b2c3d…"
_WORDS = {
    "sw_power_cap": "power cap",
    "hw_slowdown": "hardware slowdown",
    "sw_thermal": "heat (software)",
    "hw_thermal": "heat (hardware)",
    "hw_power_brake": "power brake",
}


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    window = view.window(viewer.now_s)
    found = boards(reader, window)
    whole = [each for each in found if not each.parent]
    standings = ledger.standings()
    title = tab_title({each.objective.name: each.state for each in standings})
    newest_at_s = window.until_s if any(each.now for each in found) and view.live else None
    shown = _with_instances(whole[:MOST_GPUS], found)
    return Content(
        title=title,
        regions=common_regions(view, viewer, newest_at_s=newest_at_s, title=title)
        | {
            "state": _headline(whole, node_troubles(reader, window)),
            "gpus": _now(shown, view, viewer) if whole else _nothing_yet(view, viewer),
            "heat": _over_time(shown, view, viewer) if whole else None,
            "more": _more(len(whole)),
        },
    )


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content; a refresh fills its regions in place."""
    return frame(
        view,
        shown,
        [
            html.H1("GPUs", className="unseen"),
            region("state", shown, className="headline", **SPOKEN_WHEN_CHANGED),
            html.Section(region("heat", shown), **said("Over time")),
            html.Section([region("gpus", shown), region("more", shown)], **said("Now")),
        ],
    )


def _with_instances(whole: Sequence[Board], found: Sequence[Board]) -> list[Board]:
    """Each board, and its MIG instances after it."""
    shown = []
    for board in whole:
        shown.append(board)
        shown += [each for each in found if each.parent == board.uuid]
    return shown


def _headline(whole: Sequence[Board], nodes: Sequence[tuple[str, str]]) -> Component:
    """How many answer; then what is wrong, the worst first."""
    if not whole and not nodes:
        return html.P("No GPU has been heard of.")
    answering = sum(each.now.get("gpu_up") == 1 for each in whole)
    all_of_them = answering == len(whole)
    first = badge(
        State.HEALTHY if all_of_them and not nodes else State.PAGE,
        word=f"{answering} of {len(whole)} GPUs answer" if whole else "no GPU answers",
    )
    told: list[Component] = [first]
    tally = Counter(each.standing for each in whole if each.standing[0] in _TROUBLE)
    for (state, word), number in sorted(tally.items(), key=lambda each: _TROUBLE.index(each[0][0])):
        told.append(badge(state, word=f"{number} {word}"))
    told += [
        badge(State.PAGE, word=f"{node}: no driver ({reason.replace('_', ' ')})")
        for node, reason in nodes
    ]
    return html.P(told, className="tally")


_TROUBLE = (State.PAGE, State.TICKET, State.NOT_OBSERVED)


def _now(shown: Sequence[Board], view: View, viewer: Viewer) -> Component:
    columns = ("GPU", "State", "Works", "Held down", "Memory", "Power", "Temperature", "Serves")
    rows = [_row(each, view, viewer) for each in shown]
    marks = ["part" if each.parent else "" for each in shown]
    now = table("GPUs now, trouble first", columns, rows, marks=marks)
    return html.Div([html.H2("Now"), now])


def _row(board: Board, view: View, viewer: Viewer) -> list[Cell]:
    state, word = board.standing
    return [
        Cell(_name(board)),
        Cell(quiet(word) if board.parent else [badge(state, word=word), *_xids(board)]),
        Cell(_work(board), number=True),
        Cell(_held(board)),
        Cell(_memory(board), number=True),
        Cell(_of(board, "gpu_power", "gpu_power_limit", "W"), number=True),
        Cell(_degrees(board), number=True),
        Cell(_serves(board, view, viewer)),
    ]


def _name(board: Board) -> list[Component]:
    place = "MIG" if board.parent else "GPU" if board.index is None else f"GPU {board.index}"
    where: list[Component | str] = []
    for word in ("" if board.parent else board.node, board.name):
        where += [name_text(word), " · "] if word else []
    short = board.uuid if len(board.uuid) <= _SHORT else f"{board.uuid[:_SHORT]}…"
    return [
        html.Strong(place),
        html.Span([*where, html.Bdi(short, title=board.uuid)], className="quiet under"),
    ]


def _xids(board: Board) -> list[Component]:
    words = [f"XID {xid} × {number}" for xid, number in sorted(board.xids.items())]
    return [quiet(", ".join(words))] if words else []


def _work(board: Board) -> list[Component | str]:
    if board.work is None:
        return [NOTHING]
    what = "SM active" if "gpu_sm_active" in board.now else "utilisation"
    bar = meter(board.work, label=f"{what} {percent(board.work)}", state=State.HEALTHY)
    return [percent(board.work), bar, quiet(what)]


def _held(board: Board) -> list[Component | str]:
    if board.now.get("gpu_up") != 1:  # nobody can say
        return [NOTHING]
    if not board.cause:
        return [quiet("no")]
    return [percent(board.held), quiet(_WORDS.get(board.cause, board.cause.replace("_", " ")))]


def _memory(board: Board) -> list[Component | str]:
    used, total = board.now.get("gpu_memory_used"), board.now.get("gpu_memory_total")
    if used is None or not total:
        return [NOTHING]
    bar = meter(used / total, label=f"memory {percent(used / total)}", state=State.HEALTHY)
    return [percent(used / total), bar, quiet(f"{used / _GIB:.3g} of {total / _GIB:.3g} GiB")]


def _of(board: Board, metric: str, limit: str, unit: str) -> list[Component | str]:
    value, most = board.now.get(metric), board.now.get(limit)
    if value is None:
        return [NOTHING]
    return [f"{value:.0f} {unit}", *([quiet(f"of {most:.0f} {unit}")] if most else [])]


def _degrees(board: Board) -> str:
    value = board.now.get("gpu_temperature")
    return NOTHING if value is None else f"{value:.0f} °C"


def _serves(board: Board, view: View, viewer: Viewer) -> list[Component | str]:
    if not board.serves:
        return [quiet("nobody told")] if not board.parent else [NOTHING]
    return [
        html.Span(
            [
                link(
                    name_text(service),
                    viewer.href(View(service=service, span_s=view.span_s, fixed=view.fixed)),
                ),
                quiet([" ", name_text(replica)]),
            ],
            className="under",
        )
        for service, replica in sorted(board.serves)
    ]


def _over_time(shown: Sequence[Board], view: View, viewer: Viewer) -> Component:
    """One strip a board, all over the same time."""
    window = view.window(viewer.now_s)
    rows = []
    for board in shown:
        if board.parent:
            continue
        place = f"GPU {board.index}" if board.index is not None else board.uuid[:_SHORT]
        name = [html.Span(place), quiet(name_text(board.node))]
        rows += [html.Dt(name), html.Dd(heat.strip(board.moments))]
    ends = [
        html.Dt(quiet(f"each column {span(step_s(window))}")),
        html.Dd(
            [clock(viewer, window.since_s), clock(viewer, window.until_s)],
            className="quiet ends",
        ),
    ]
    strips = html.Dl([*rows, *ends], className="heats")
    return html.Div([html.H2("Over time"), heat.legend(), strips])


def _more(number: int) -> Component | None:
    if number <= MOST_GPUS:
        return None
    return html.P(
        quiet(f"{count(number - MOST_GPUS)} more GPUs are not shown, those in trouble are.")
    )


def _nothing_yet(view: View, viewer: Viewer) -> Component:
    past = window_text(view.span_s) if view.live else "this window"
    return empty(
        f"No GPU was heard of in {past}",
        [
            html.P("On a machine with NVIDIA GPUs, look whether they can be read:"),
            html.Pre("pip install 'stagewatch[gpu]'\nstagewatch exporter gpu --once"),
            html.P("Then let the sidecar run there; it needs no root and no DCGM:"),
            html.Pre(f"stagewatch exporter gpu --endpoint http://{viewer.host}:4318"),
        ],
    )
