"""The table of GPUs now: trouble first, a line each; of many that are well, a line for each machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from dashboard.boards import Board, words_of
from dashboard.parts import Cell, badge, link, meter, name_text, quiet, table
from dashboard.quantity import NOTHING, count, percent
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.labels import value_of
from domain.straggler import Straggler

__all__ = ["MOST_ALONE", "now_table", "place_of"]

MOST_ALONE = 32
"""Up to so many GPUs have a line each; of more, only those in trouble."""

_GIB = 1 << 30
_SHORT = 13  # of a UUID: "GPU-0a1b2c3d…"
_TROUBLE = (State.PAGE, State.TICKET, State.NOT_OBSERVED)
_COLUMNS = ("GPU", "State", "Works", "Held down", "Memory", "Power", "Temperature", "Serves")
_OFF = {
    "sm_clock_hz": ("clock", 1e6, "MHz"),
    "temperature_c": ("temperature", 1.0, "°C"),
    "pcie_lanes": ("PCIe lanes", 1.0, ""),
    "nvlinks_active": ("NVLinks", 1.0, ""),
}


def now_table(found: Sequence[Board], view: View, viewer: Viewer) -> Component:
    """Each board, its MIG instances after it."""
    whole = [each for each in found if not each.gpu.parent]
    alone = whole if len(whole) <= MOST_ALONE else [e for e in whole if _troubled(e)][:MOST_ALONE]
    listed = {each.gpu.uuid for each in alone}
    shown = _with_instances(alone, found)
    rows = [_row(each, view, viewer) for each in shown]
    marks = ["part" if each.gpu.parent else "" for each in shown]
    rest = [each for each in whole if each.gpu.uuid not in listed]
    machines = _by_machine(rest)
    rows += [_machine(node, members) for node, members in machines]
    marks += [""] * len(machines)
    now = table("GPUs now, trouble first", _COLUMNS, rows, marks=marks)
    return html.Div([html.H2("Now"), now, _how_to_see(len(rest))])


def place_of(board: Board) -> list[Component | str]:
    """Which GPU: its place, its machine."""
    gpu = board.gpu
    place = f"GPU {gpu.index}" if gpu.index is not None else _short(gpu.uuid)
    machine: list[Component | str] = [" of ", name_text(gpu.node)] if gpu.node else []
    return [place, *machine]


def _troubled(board: Board) -> bool:
    return board.standing[0] in _TROUBLE


def _with_instances(whole: Sequence[Board], found: Sequence[Board]) -> list[Board]:
    parts: defaultdict[str, list[Board]] = defaultdict(list)
    for each in found:
        parts[each.gpu.parent].append(each)
    return [each for board in whole for each in (board, *parts[board.gpu.uuid])]


def _by_machine(rest: Sequence[Board]) -> list[tuple[str, list[Board]]]:
    machines: defaultdict[str, list[Board]] = defaultdict(list)
    for each in rest:
        machines[each.gpu.node].append(each)
    return sorted(machines.items())


def _how_to_see(number: int) -> Component | None:
    if not number:
        return None
    words = f"{count(number)} GPUs are told together, by machine. Each alone: "
    return html.P(quiet([words, html.Code("stagewatch query gpus")]))


def _row(board: Board, view: View, viewer: Viewer) -> list[Cell]:
    state, word = board.standing
    part = bool(board.gpu.parent)
    return [
        Cell(_name(board)),
        Cell(quiet(word) if part else [badge(state, word=word), *_beside(board)]),
        Cell(_work(board), number=True),
        Cell(_held(board)),
        Cell(_memory([board]), number=True),
        Cell(_power([board]), number=True),
        Cell(_degrees([board])),
        Cell(_serves(board, view, viewer)),
    ]


def _machine(node: str, members: Sequence[Board]) -> list[Cell]:
    """Those that are well, together: what they hold and draw adds up."""
    works = [each.work for each in members if each.work is not None]
    mean = sum(works) / len(works) if works else None
    worst = max(members, key=lambda each: each.held)
    bar = meter(mean, label=f"mean {percent(mean)}", state=State.HEALTHY)
    return [
        Cell([html.Strong(f"{count(len(members))} GPUs"), _under(node)]),
        Cell([badge(State.HEALTHY, word="well")]),
        Cell([NOTHING] if mean is None else [percent(mean), bar, quiet("mean")], number=True),
        Cell(_held(worst)),
        Cell(_memory(members), number=True),
        Cell(_power(members), number=True),
        Cell(_degrees(members)),
        Cell(NOTHING),
    ]


def _under(node: str) -> Component:
    return html.Span(name_text(node), className="quiet under")


def _name(board: Board) -> list[Component]:
    gpu = board.gpu
    place = "MIG" if gpu.parent else "GPU" if gpu.index is None else f"GPU {gpu.index}"
    where: list[Component | str] = []
    for word in ("" if gpu.parent else gpu.node, gpu.name):
        where += [name_text(word), " · "] if word else []
    return [
        html.Strong(place),
        html.Span(
            [*where, html.Bdi(_short(gpu.uuid), title=gpu.uuid[:1000])], className="quiet under"
        ),
    ]


def _short(uuid: str) -> str:
    return uuid if len(uuid) <= _SHORT else f"{uuid[:_SHORT]}…"


def _beside(board: Board) -> list[Component]:
    """XIDs, and what is off about it among the GPUs of its replica."""
    gpu = board.gpu
    words = [f"XID {xid[:12]} × {number}" for xid, number in sorted(gpu.xids.items())[:6]]
    return [quiet(each) for each in (", ".join(words), *map(_off, gpu.straggles or ())) if each]


def _off(one: Straggler) -> str:
    what, unit, name = _OFF[one.what]
    others = f"{one.others / unit:.0f} {name}".strip()
    return f"{what} {one.value / unit:.0f}, the others {others}"


def _work(board: Board) -> list[Component | str]:
    if board.work is None:
        return [NOTHING]
    what = "SM active" if "gpu_sm_active" in board.now else "utilisation"
    bar = meter(board.work, label=f"{what} {percent(board.work)}", state=State.HEALTHY)
    return [percent(board.work), bar, quiet(what)]


def _held(board: Board) -> list[Component | str]:
    if not board.gpu.up or board.gpu.held_s is None:  # nobody can say
        return [NOTHING]
    if not board.cause:
        return [quiet("no")]
    return [percent(board.held), quiet(words_of(board.cause))]


def _memory(members: Sequence[Board]) -> list[Component | str]:
    told = [(each.now.get("gpu_memory_used"), each.now.get("gpu_memory_total")) for each in members]
    known = [(used, total) for used, total in told if used is not None and total]
    if not known:
        return [NOTHING]
    used, total = (sum(column) for column in zip(*known, strict=True))
    bar = meter(used / total, label=f"memory {percent(used / total)}", state=State.HEALTHY)
    return [percent(used / total), bar, quiet(f"{used / _GIB:.3g} of {total / _GIB:.3g} GiB")]


def _power(members: Sequence[Board]) -> list[Component | str]:
    drawn = [e.now["gpu_power"] for e in members if "gpu_power" in e.now]
    limits = [e.now["gpu_power_limit"] for e in members if "gpu_power_limit" in e.now]
    if not drawn:
        return [NOTHING]
    limit = [quiet(f"of {sum(limits):.0f} W")] if len(limits) == len(drawn) else []
    return [f"{sum(drawn):.0f} W", *limit]


def _degrees(members: Sequence[Board]) -> str:
    told = [each.now["gpu_temperature"] for each in members if "gpu_temperature" in each.now]
    return f"{max(told):.0f} °C" if told else NOTHING


def _serves(board: Board, view: View, viewer: Viewer) -> list[Component | str]:
    gpu = board.gpu
    if not gpu.serves:
        return [quiet("nobody told")] if not gpu.parent else [NOTHING]
    told = [(value_of(own, "service"), value_of(own, "replica")) for own in gpu.serves]
    return [
        html.Span(
            [
                link(
                    name_text(service),
                    viewer.href(View(service=service, span_s=view.span_s, fixed=view.fixed)),
                )
                if service
                else "",
                quiet([" ", name_text(replica)]),
            ],
            className="under",
        )
        for service, replica in sorted(told)
    ]
