"""Pools and engines on the GPUs page: what binds a pool, what its tokens cost, who is wedged."""

from __future__ import annotations

from collections.abc import Sequence

from dash import html
from dash.development.base_component import Component

from dashboard.parts import Cell, badge, link, meter, name_text, quiet, said, sentence, table
from dashboard.quantity import NOTHING, count, percent
from dashboard.theme import State, css_class
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.gpu import GpuPool, GpuReplica, PoolEnergy
from domain.headroom import Headroom
from domain.labels import value_of
from domain.wedge import WedgeState

__all__ = ["pool_table", "wedged_engines"]

_MOST = 16
_FULL = 0.95
_COLUMNS = ("Pool", "GPUs", "Bound by", "Headroom", "Energy per token", "Not told")
_RESOURCES = {
    "dram_bandwidth": "memory bandwidth",
    "kv_cache_usage": "KV cache",
    "power": "power",
    "tensor_active": "tensor cores",
}
_STANDING = {
    WedgeState.WEDGED: (State.PAGE, "wedged"),
    WedgeState.SUSPECT: (State.TICKET, "no token comes"),
}


def wedged_engines(replicas: Sequence[GpuReplica], view: View, viewer: Viewer) -> Component | None:
    """A line for each engine whose requests run and whose tokens do not come."""
    stuck = [each for each in replicas if each.wedge.state in _STANDING]
    stuck.sort(key=lambda each: each.wedge.state is not WedgeState.WEDGED)
    if not stuck:
        return None
    rows = [_wedged(each, view, viewer) for each in stuck[:_MOST]]
    if len(stuck) > _MOST:
        rows.append(html.Li(quiet(f"and {len(stuck) - _MOST} more: stagewatch query gpus")))
    return html.Ul(rows, className="conditions", **said("Engines that stand still"))


def _wedged(replica: GpuReplica, view: View, viewer: Viewer) -> Component:
    state, word = _STANDING[replica.wedge.state]
    service = value_of(replica.labels, "service")
    then = View(service=service, span_s=view.span_s, fixed=view.fixed)
    told = [*replica.wedge.evidence, *(f"but {each}" for each in replica.wedge.contra)]
    words = "; ".join(told)
    missing = replica.wedge.missing
    more = f" Not told: {', '.join(map(_signal, missing))}." if missing else ""
    return html.Li(
        [
            html.Div(
                [
                    badge(state, word=word),
                    html.Div(
                        [
                            link(name_text(service), viewer.href(then)) if service else "",
                            quiet([" ", name_text(replica.name)]),
                        ]
                    ),
                ]
            ),
            html.P([sentence(f"{words[:1].upper()}{words[1:]}."), quiet(more)]),
        ],
        className=css_class(state),
    )


def pool_table(pools: Sequence[GpuPool]) -> Component | None:
    """None where no replica says which GPUs are its."""
    if not pools:
        return None
    rows = [_row(each) for each in pools[:_MOST]]
    more = [html.P(quiet(f"and {len(pools) - _MOST} more pools"))] if len(pools) > _MOST else []
    return html.Div([html.H2("Pools"), table("What binds each pool", _COLUMNS, rows), *more])


def _row(pool: GpuPool) -> list[Cell]:
    names = [value_of(pool.labels, name) for name in ("service", "pool")]
    role = value_of(pool.labels, "role")
    who: list[Component | str] = []
    for name in filter(None, names):
        who += [name_text(name), " "]
    return [
        Cell([*who, quiet(role)] if role else who),
        Cell([count(pool.gpus), quiet(_replicas(pool.replicas))], number=True),
        Cell(_bound(pool.headroom), broad=True),
        Cell(_left(pool.headroom), number=True),
        Cell(_price(pool.energy), broad=True),
        Cell(
            [quiet(", ".join(map(_signal, pool.missing)))] if pool.missing else NOTHING, broad=True
        ),
    ]


def _replicas(number: int) -> str:
    return f"{count(number)} replica{'' if number == 1 else 's'}"


def _bound(room: Headroom | None) -> list[Component | str]:
    if room is None:
        return [NOTHING]
    state = State.TICKET if room.used >= _FULL else State.HEALTHY
    used = percent(room.used)
    full = ["nearly full"] if state is State.TICKET else []
    unusual = ["not what its role runs out of"] if room.expected is False else []
    notes = "; ".join((*full, *unusual))
    return [
        f"{_RESOURCES.get(room.resource, room.resource)} {used}",
        meter(room.used, label=f"P95 {used} used", state=state),
        *([quiet(notes)] if notes else []),
    ]


def _left(room: Headroom | None) -> list[Component | str]:
    if room is None:
        return [NOTHING]
    return [f"{room.gpus_left:.1f}", quiet("GPUs left")]


def _price(energy: PoolEnergy | None) -> list[Component | str]:
    if energy is None:
        return [NOTHING]
    told = (
        ("prompt", energy.joules_per_prompt_token),
        ("output", energy.joules_per_output_token),
    )
    words = [f"{price:.3g} J per {name} token" for name, price in told if price is not None]
    if not words:
        return [NOTHING, quiet("no token" if energy.fit is None else "")]
    one = energy.prompt or energy.output
    idle = one.idle_share if one is not None else None
    fit = energy.fit
    more: list[Component | str] = []
    more += [quiet(f"{percent(idle)} of it at rest")] if idle is not None else []
    more += [quiet(f"fitted, R² {fit.r_squared:.2f}")] if fit is not None else []
    return [*(html.Span(each, className="under") for each in words), *more]


def _signal(name: str) -> str:
    return name.removeprefix("gpu_").replace("_", " ")
