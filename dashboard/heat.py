"""A GPU's time as a strip: shade says how much it worked, marks say what was wrong.

Five shades for work; a bar at the foot where the clocks were held down, the higher the longer; a
cross where it did not answer; a hatch where nobody looked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dash import html
from dash.development.base_component import Component

from dashboard.parts import SILENT, said
from dashboard.quantity import percent
from domain.gpu import GpuMoment, Sight

__all__ = ["SHADES", "cause_strip", "legend", "shade", "strip", "tell"]

SHADES = 5
_HEIGHT = 24
_WIDTH = 4
_LEAST_HELD = 0.01
_ABOVE = {"held": 1}  # drawn over the work that it held down
_NOTHING = 0.01


def shade(work: float | None) -> int | None:
    """0 for a GPU that rests, 1 to 5 for one that works, None where it does not tell."""
    if work is None:
        return None
    return 0 if work < _NOTHING else min(int(work * SHADES) + 1, SHADES)


def strip(moments: Sequence[GpuMoment]) -> Component:
    """One column a moment: how much it worked, and what was wrong."""
    return _drawn(moments, tell(moments), _worked)


def cause_strip(moments: Sequence[GpuMoment], cause: str, words: str) -> Component:
    """For how much of each moment one cause held the clocks down, as the height of a bar."""

    def held(left: int, moment: GpuMoment) -> list[tuple[str, str]]:
        share = moment.held.get(cause, 0.0)
        return [_bar(left, _HEIGHT * share)] if share >= _LEAST_HELD else []

    return _drawn(moments, words, held)


_Paths = Callable[[int, GpuMoment], list[tuple[str, str]]]
"""By the left edge of a column: layers, and the path in each."""


def _drawn(moments: Sequence[GpuMoment], words: str, paths: _Paths) -> Component:
    """Each layer is a drawing of one colour."""
    layers: dict[str, list[str]] = {}
    for place, moment in enumerate(moments):
        for layer, path in _seen(place * _WIDTH, moment) or paths(place * _WIDTH, moment):
            layers.setdefault(layer, []).append(path)
    columns = max(len(moments), 1)
    drawn = [
        html.Span(className=f"layer {layer}", style=_mask(paths, columns))
        for layer, paths in sorted(layers.items(), key=lambda each: _ABOVE.get(each[0], 0))
    ]
    return html.Span(drawn, className="heat", role="img", title=words, **said(words))


def tell(moments: Sequence[GpuMoment]) -> str:
    """The strip in words."""
    if not moments:
        return "nobody looked"
    parts = []
    known = [each.work for each in moments if each.work is not None]
    if known:
        parts.append(f"worked {percent(sum(known) / len(known))} of the time")
    held = [_worst(each) for each in moments if each.sight is Sight.UP]
    if held and sum(held) / len(held) >= _LEAST_HELD:
        parts.append(f"held down {percent(sum(held) / len(held))}")
    for sight in (Sight.DOWN, Sight.NOT_OBSERVED):
        share = sum(each.sight is sight for each in moments) / len(moments)
        if share:
            parts.append(f"{sight.value} {percent(share)}")
    return ", ".join(parts) or "seen, without a word about work"


def legend() -> Component:
    """What shades and marks mean."""
    shades = [
        html.Span(className=f"sample work-{number}", **SILENT) for number in range(1, SHADES + 1)
    ]
    marks = [
        html.Span([html.Span(className=f"sample {name}", **SILENT), words])
        for name, words in (
            ("held", "held down"),
            ("down", "does not answer"),
            ("unseen-time", "not observed"),
        )
    ]
    scale = html.Span(["rests", html.Span(shades, className="scale"), "works"])
    return html.P([scale, *marks], className="quiet legend")


def _worst(moment: GpuMoment) -> float:
    return max(moment.held.values(), default=0.0)


def _seen(left: int, moment: GpuMoment) -> list[tuple[str, str]]:
    """The marks of a moment that tells nothing else."""
    if moment.sight is Sight.DOWN:
        return [("down", f"M{left} 6l1-1 1.2 5 1.2-5 .6 1-1.2 6 1.2 6-.6 1-1.2-5-1.2 5-1-1 1.2-6z")]
    if moment.sight is Sight.NOT_OBSERVED:
        return [("unseen-time", "".join(f"M{left} {y}l4-4v1.4l-4 4z" for y in (8, 16, 24)))]
    return []


def _worked(left: int, moment: GpuMoment) -> list[tuple[str, str]]:
    found = []
    level = shade(moment.work)
    if level == 0:
        found.append(("rest", f"M{left + 0.5} {_HEIGHT - 2}h3v2h-3z"))
    elif level is not None:
        found.append((f"work-{level}", f"M{left} 0h{_WIDTH}v{_HEIGHT}h-{_WIDTH}z"))
    else:
        found.append(("rest", f"M{left + 1.5} {_HEIGHT / 2 - 1}h1v2h-1z"))
    if (held := _worst(moment)) >= _LEAST_HELD:
        found.append(_bar(left, 5 + 9 * held))
    return found


def _bar(left: int, height: float) -> tuple[str, str]:
    return "held", f"M{left} {_HEIGHT}v-{height:.3g}h{_WIDTH}v{height:.3g}z"


_ESCAPED = str.maketrans({"<": "%3C", ">": "%3E", "#": "%23", "%": "%25", '"': "%22", " ": "%20"})


def _mask(paths: Sequence[str], columns: int) -> dict[str, str]:
    """A drawing as a mask, so that the style sheet gives its colour in either theme."""
    svg = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {columns * _WIDTH} {_HEIGHT}' "
        f"preserveAspectRatio='none'><path d='{''.join(paths)}'/></svg>"
    )
    image = f'url("data:image/svg+xml,{svg.translate(_ESCAPED)}")'
    return {"maskImage": image, "WebkitMaskImage": image}
