"""The GPUs page: which of them answer, what they do, what holds them down, and what their pools lack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from collector.query import Reader
from dashboard import heat
from dashboard.boards import Board, boards, held_down, step_s, words_of
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region, tab_title
from dashboard.gpu_pools import pool_table, wedged_engines
from dashboard.gpu_rows import MOST_ALONE, now_table, place_of
from dashboard.parts import (
    SPOKEN_WHEN_CHANGED,
    badge,
    clock,
    empty,
    name_text,
    quiet,
    said,
)
from dashboard.quantity import count, percent, seconds, span, window_text
from dashboard.theme import State, css_class
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.gpu import Gpus, Node
from domain.wedge import WedgeState

__all__ = ["content", "page"]

MOST_STRIPS = 128
_MOST_DOWN = 8
_MOST_HELD = 12
_TROUBLE = (State.PAGE, State.TICKET, State.NOT_OBSERVED)


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    window = view.window(viewer.now_s)
    step = step_s(window)
    found = reader.gpus(window, step_s=step)
    made = boards(found, step)
    whole = [each for each in made if not each.gpu.parent]
    standings = ledger.standings(spark_s=0)
    title = tab_title({each.objective.name: each.state for each in standings})
    heard = any(each.gpu.up is not None for each in whole)
    newest_at_s = window.until_s if heard and view.live else None
    return Content(
        title=title,
        regions=common_regions(view, viewer, newest_at_s=newest_at_s, title=title)
        | {
            "state": _headline(whole, found),
            "down": _down(whole),
            "wedged": wedged_engines(found.replicas, view, viewer),
            "pools": pool_table(found.pools),
            "held": _held(found, view, viewer),
            "gpus": now_table(made, view, viewer) if whole else _nothing_yet(view, viewer),
            "heat": _over_time(whole, view, viewer) if whole else None,
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
            region("down", shown, **SPOKEN_WHEN_CHANGED),
            region("wedged", shown, **SPOKEN_WHEN_CHANGED),
            html.Section(region("heat", shown), **said("Over time")),
            html.Section(region("held", shown), **said("Held down, by cause")),
            html.Section(region("pools", shown), **said("Pools")),
            html.Section(region("gpus", shown), **said("Now")),
        ],
    )


def _headline(whole: Sequence[Board], found: Gpus) -> Component:
    """How many answer; then what is wrong, the worst first."""
    nodes: Sequence[Node] = found.nodes
    if not whole and not nodes:
        return html.P("No GPU has been heard of.")
    answering = sum(each.gpu.up is True for each in whole)
    all_of_them = answering == len(whole)
    first = badge(
        State.HEALTHY if all_of_them and not nodes else State.PAGE,
        word=f"{answering} of {len(whole)} GPUs answer" if whole else "no GPU answers",
    )
    told: list[Component] = [first]
    # why not the wedged: their engine is told
    troubled = [e for e in whole if e.standing[0] in _TROUBLE and e.standing[1] != "wedged"]
    tally = Counter(each.standing for each in troubled)
    for (state, word), number in sorted(tally.items(), key=lambda each: _TROUBLE.index(each[0][0])):
        told.append(badge(state, word=f"{number} {word}"))
    wedged = sum(each.wedge.state is WedgeState.WEDGED for each in found.replicas)
    if wedged:
        word = f"{wedged} wedged engine{'' if wedged == 1 else 's'}"
        told.append(badge(State.PAGE, word=word))
    told += [badge(State.PAGE, word=f"{each.name[:60]}: {_no_driver(each)}") for each in nodes]
    return html.P(told, className="tally")


def _no_driver(node: Node) -> str:
    return f"no driver ({node.reason.replace('_', ' ')[:60] or 'no word why'})"


def _down(whole: Sequence[Board]) -> Component | None:
    """Those that do not answer, with the reason and what to do."""
    down = [each for each in whole if each.gpu.up is False]
    if not down:
        return None
    rows = [_lost(each) for each in down[:_MOST_DOWN]]
    if len(down) > _MOST_DOWN:
        rows.append(html.Li(quiet(f"and {count(len(down) - _MOST_DOWN)} more, in the table below")))
    return html.Ul(rows, className="conditions", **said("GPUs that do not answer"))


def _lost(board: Board) -> Component:
    state, word = board.standing
    step = _NEXT.get(board.gpu.reason, "look at `dmesg` on its machine for what the driver says")
    return html.Li(
        [
            html.Div(badge(state, word=word)),
            html.P([*place_of(board), quiet(f" Next: {step}.")]),
        ],
        className=css_class(state),
    )


_NEXT = {
    "gpu_lost": "drain the machine; only a reboot brings the GPU back",
    "hung": "look at `dmesg` on its machine: a call into the driver does not return",
    "missing": "look whether it was taken away; else it fell off the bus: drain the machine",
    "reset_required": "drain the machine and reset the GPU",
    "stale": "nothing: the reading process is replaced by itself",
    "starting": "wait some seconds",
}


def _held(found: Gpus, view: View, viewer: Viewer) -> Component | None:
    """One strip for each cause that held a GPU down, the longest first."""
    held = held_down(found)
    if not held:
        return None
    rows: list[Component] = []
    for each in held[:_MOST_HELD]:
        gpu, cause = each.gpu, words_of(each.cause)
        place = f"GPU {gpu.index}" if gpu.index is not None else gpu.uuid[:13]
        share = f"{percent(each.share)}, {seconds(each.seconds)}"
        words = f"{place}: {cause} {share}"
        name = [html.Span(place), quiet(name_text(gpu.node)), html.Span(cause), quiet(share)]
        rows += [html.Dt(name), html.Dd(heat.cause_strip(gpu.moments, each.cause, words))]
    more = len(held) - _MOST_HELD
    rest = [html.P(quiet(f"and {count(more)} more: stagewatch query gpus"))] if more > 0 else []
    strips = html.Dl([*rows, *_ends(view, viewer)], className="heats causes")
    return html.Div([html.H2("Held down, by cause"), strips, *rest])


def _over_time(whole: Sequence[Board], view: View, viewer: Viewer) -> Component:
    """One strip a board, all over the same time."""
    rows: list[Component] = []
    for board in whole[:MOST_STRIPS]:
        gpu = board.gpu
        place = f"GPU {gpu.index}" if gpu.index is not None else gpu.uuid[:13]
        name = [html.Span(place), quiet(name_text(gpu.node))]
        rows += [html.Dt(name), html.Dd(heat.strip(gpu.moments))]
    density = " dense" if len(whole) > MOST_ALONE else ""
    strips = html.Dl([*rows, *_ends(view, viewer)], className=f"heats{density}")
    return html.Div([html.H2("Over time"), heat.legend(), strips, _more(len(whole))])


def _ends(view: View, viewer: Viewer) -> list[Component]:
    window = view.window(viewer.now_s)
    return [
        html.Dt(quiet(f"each column {span(step_s(window))}")),
        html.Dd(
            [clock(viewer, window.since_s), clock(viewer, window.until_s)],
            className="quiet ends",
        ),
    ]


def _more(number: int) -> Component | None:
    if number <= MOST_STRIPS:
        return None
    more = count(number - MOST_STRIPS)
    return html.P(quiet(f"{more} more GPUs are not drawn, those in trouble are."))


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
