"""Minutes of a promise as a strip: good, bad, without traffic, and not observed, each in a shape."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from urllib.parse import quote

from dash import html
from dash.development.base_component import Component

from dashboard.parts import said
from domain.slice import MINUTE_S, Slice, SliceState

__all__ = ["stretches", "strip", "tell"]

_HEIGHT = 24
_LEAST = 5
_SILENT = (SliceState.NOT_OBSERVED, SliceState.NO_TRAFFIC)


def strip(slices: Sequence[Slice], *, columns: int = 60) -> Component:
    """One bar a column: the taller, the larger its share of bad requests."""
    groups = list(_columns(slices, columns))
    drawn: dict[SliceState, list[str]] = {state: [] for state in SliceState}
    for place, group in enumerate(groups):
        state, share = _worst(group)
        drawn[state].append(_path(place, state, share))
    layers = [
        html.Span(className=f"layer minute-{state.replace(' ', '-')}", style=_mask(paths, columns))
        for state, paths in drawn.items()
        if paths
    ]
    told = tell(slices)
    return html.Span(layers, className="strip", role="img", title=told, **said(told))


def tell(slices: Sequence[Slice]) -> str:
    """The strip in words."""
    if not slices:
        return "no minute judged yet"
    parts = []
    counted = Counter(each.state for each in slices)
    for state in (SliceState.BAD, *_SILENT):
        if minutes := counted[state]:
            what = "with bad requests" if state is SliceState.BAD else state.value
            parts.append(f"{minutes} {what}")
    return f"last {len(slices)} minutes: {', '.join(parts) or 'every request was good'}"


def stretches(slices: Sequence[Slice]) -> Iterator[tuple[SliceState, int, int]]:
    """Runs of minutes that have nothing to show: the state, since, until."""
    for state, run in groupby(slices, key=lambda each: each.state):
        minutes = list(run) if state in _SILENT else []
        if minutes:
            yield state, minutes[0].minute_at_s, minutes[-1].minute_at_s + MINUTE_S


def _columns(slices: Sequence[Slice], columns: int) -> Iterator[Sequence[Slice]]:
    """The newest slices, in as many groups as there are columns at most."""
    size = max(-(-len(slices) // columns), 1)
    first = len(slices) % size
    if first:
        yield slices[:first]
    for begin in range(first, len(slices), size):
        yield slices[begin : begin + size]


def _worst(group: Sequence[Slice]) -> tuple[SliceState, float]:
    """A bad minute shows, however good its neighbours; a silence shows before a good one."""
    states = {each.state for each in group}
    order = (SliceState.BAD, SliceState.NOT_OBSERVED, SliceState.GOOD, SliceState.NO_TRAFFIC)
    state = next(each for each in order if each in states)
    total = sum(each.total for each in group)
    bad = total - sum(each.good_low for each in group)
    return state, bad / total if total else 0.0


def _path(place: int, state: SliceState, share: float) -> str:
    left = place * 4
    if state is SliceState.NO_TRAFFIC:
        return f"M{left + 0.5} {_HEIGHT - 2}h2v2h-2z"
    if state is SliceState.NOT_OBSERVED:  # three slanted strokes: a hatch
        return "".join(f"M{left} {low}l4-4v1.4l-4 4z" for low in (8, 16, 24))
    # why the root: one bad request in a hundred must be seen, and all bad must not be clipped
    height = _LEAST if state is SliceState.GOOD else _LEAST + 3 + (_HEIGHT - 8) * share**0.5
    return f"M{left} {_HEIGHT}v-{height:.3g}h3v{height:.3g}z"


def _mask(paths: Sequence[str], columns: int) -> dict[str, str]:
    """A drawing as a mask, so that the style sheet gives its colour in either theme."""
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {columns * 4} {_HEIGHT}' "
        f"preserveAspectRatio='none'><path d='{''.join(paths)}'/></svg>"
    )
    image = f'url("data:image/svg+xml,{quote(svg)}")'
    return {"maskImage": image, "WebkitMaskImage": image}
