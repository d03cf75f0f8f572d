"""What was around one request: how busy its replicas were, and what their GPUs did."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from collector.query import Reader, Selection, Window
from dashboard.boards import Board, boards
from dashboard.gpu_rows import place_of
from dashboard.parts import Cell, badge, name_text, quiet, table
from dashboard.quantity import NOTHING, percent
from domain.labels import Labels, labels_of, value_of
from domain.leg import ENGINES, Leg
from domain.request import Request

__all__ = ["around", "engines", "gpus_then", "load_then"]

_NS = 1_000_000_000
_BEFORE_S = 30
_STEP_S = 10
_MOST_REPLICAS = 6
_MOST_GPUS = 16
_GIB = 1 << 30
_LOADS = (("requests_running", ".3g"), ("requests_waiting", ".3g"), ("kv_cache_usage", "%"))


def around(request: Request) -> Window:
    """From a little before it began to a little after it ended."""
    since_s = request.start_at_ns // _NS - _BEFORE_S
    return Window(since_s=since_s, until_s=request.end_at_ns // _NS + _BEFORE_S)


def engines(legs: Sequence[Leg]) -> list[Labels]:
    """Service and replica of each engine that worked on it, in the order they began."""
    ordered = sorted(legs, key=lambda leg: leg.start_at_ns)
    found = [
        labels_of({name: value_of(leg.labels, name) for name in ("service", "replica")})
        for leg in ordered
        if leg.kind in ENGINES and value_of(leg.labels, "replica")
    ]
    return list(dict.fromkeys(found))[:_MOST_REPLICAS]


def load_then(reader: Reader, request: Request, legs: Sequence[Leg]) -> Component:
    """Running, waiting and the cache of each replica, as its page told them at that time."""
    replicas = engines(legs)
    if not replicas:
        return _untold("How busy it was", "no engine that names its replica saw this request")
    window = around(request)
    rows = [_load(reader, where, window) for where in replicas]
    if not any(rows):
        step = "no engine page was read then. Next: run the engine sidecar beside the spans"
        return _untold("How busy it was", step)
    columns = ("Replica", "Running", "Waiting", "KV cache used")
    body = [
        [_named(where), *(row or [Cell(quiet("not told"))] * len(_LOADS))]
        for where, row in zip(replicas, rows, strict=True)
    ]
    told = table("How busy it was", columns, body)
    return html.Div(
        [
            html.H2("How busy it was"),
            told,
            html.P(quiet("From 30 s before it to 30 s after it: mean, and the most.")),
        ]
    )


def gpus_then(reader: Reader, request: Request, legs: Sequence[Leg]) -> Component:
    """The GPUs of those replicas."""
    window = around(request)
    made: list[tuple[Labels, Board]] = []
    for where in engines(legs):
        found = reader.gpus(window, where=where, step_s=_STEP_S)
        made += [(where, board) for board in boards(found, _STEP_S)]
    if not made:
        step = "no GPU is known to serve its replicas. Next: run the GPU sidecar on their machines"
        return _untold("Its GPUs", step)
    columns = ("GPU", "Serves", "State", "Works", "Held down", "Memory", "Temperature")
    rows = [_gpu(where, board) for where, board in made[:_MOST_GPUS]]
    return html.Div([html.H2("Its GPUs"), table("Its GPUs at that time", columns, rows)])


def _load(reader: Reader, where: Labels, window: Window) -> list[Cell] | None:
    cells = []
    for metric, form in _LOADS:
        asked = Selection(window=window, where=where)
        points = [point for each in reader.numbers(metric, asked) for point in each.points]
        cells.append(_level(points[0].value, points[0].high, form) if points else None)
    if not any(cells):
        return None
    return [each or Cell(quiet("not told"), number=True) for each in cells]


def _level(mean: float, high: float, form: str) -> Cell:
    told = (percent(mean), percent(high)) if form == "%" else (f"{mean:{form}}", f"{high:{form}}")
    return Cell([told[0], html.Span(quiet(f"at most {told[1]}"), className="under")], number=True)


def _named(where: Labels) -> Cell:
    return Cell(
        [
            name_text(value_of(where, "replica")),
            html.Span(quiet(name_text(value_of(where, "service"))), className="under"),
        ]
    )


def _gpu(where: Labels, board: Board) -> list[Cell]:
    state, word = board.standing
    now = board.now
    used, degrees = now.get("gpu_memory_used"), now.get("gpu_temperature")
    held = f"{percent(board.held)} {board.cause.replace('_', ' ')}" if board.held else NOTHING
    return [
        Cell(place_of(board)),
        Cell([name_text(value_of(where, "replica"))]),
        Cell([badge(state, word=word)]),
        Cell(percent(board.work), number=True),
        Cell([name_text(held)]),
        Cell(NOTHING if used is None else f"{used / _GIB:.3g} GiB", number=True),
        Cell(NOTHING if degrees is None else f"{degrees:.0f} °C", number=True),
    ]


def _untold(title: str, why: str) -> Component:
    return html.Div([html.H2(title), html.P(quiet(f"Not known: {why}."))])
