"""Line charts as small SVG: one hue, dashes, names at the lines, words for whoever cannot see them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from exporters.ladder.axis import Axis, axis_of, log_axis_through
from exporters.ladder.figure_text import number

__all__ = ["Chart", "Line", "Mark", "svg"]

WIDTH, HEIGHT = 380, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 62, 20, 34
_LINE_PX = 13
_DASHES = ("", "6 4", "2 3", "9 3 2 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """Points (x, y), y None for a gap; `low` and `high` are the ends over the runs.

    `dash` 0 is the line that matters. `label_at`: the index of the point that carries the name.
    """

    name: str
    points: tuple[tuple[float, float | None], ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    dash: int = 0
    opacity: float = 1.0
    dots: bool = True
    label_at: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something to see at an x (upright) or at a y (level)."""

    value: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """`description` says the same as the picture. `doubtful_from`: an x from which not to believe."""

    title: str
    description: str
    x_label: str
    lines: tuple[Line, ...]
    say: Callable[[float], str]
    upright: tuple[Mark, ...] = ()
    level: tuple[Mark, ...] = ()
    doubtful_from: float | None = None
    doubtful: tuple[float, ...] = ()
    x_is_listed: bool = True
    x_say: Callable[[float], str] = number
    y_max: float | None = None


def svg(chart: Chart, *, name: str) -> str:
    """The picture; `name` is unique on its page."""
    x, y = _axes(chart)
    body = [
        *_grid(chart, x, y),
        *_doubt(chart, x),
        *_marks(chart, x, y),
        *(part for line in chart.lines for part in _band(line, x, y)),
        *(part for line in chart.lines for part in _drawn(chart, line, x, y)),
        *_names(chart, x, y),
    ]
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{name}-t {name}-d">'
        f'<title id="{name}-t">{escape(chart.title)}</title>'
        f'<desc id="{name}-d">{escape(chart.description)}</desc>{"".join(body)}</svg>'
    )


def _axes(chart: Chart) -> tuple[Axis, Axis]:
    xs = [at for line in chart.lines for at, _ in line.points] or [1.0]
    begin, end = _LEFT, WIDTH - _RIGHT
    x = log_axis_through(xs, begin, end) if chart.x_is_listed else axis_of(xs, begin, end)
    values = [value for line in chart.lines for _, value in line.points if value is not None]
    ends = [value for line in chart.lines for value in (*line.low, *line.high) if value is not None]
    top = max([*values, *ends], default=1.0)
    levels = [mark.value for mark in chart.level if mark.value <= 4 * top]
    limits = [] if chart.y_max is None else [0.0, chart.y_max / 1.08]
    return x, axis_of([*values, *ends, *levels, *limits], HEIGHT - _BOTTOM, _TOP)


def _grid(chart: Chart, x: Axis, y: Axis) -> list[str]:
    left, right, floor = _LEFT, WIDTH - _RIGHT, HEIGHT - _BOTTOM
    parts = []
    for tick in y.ticks:
        at = y.at(tick)
        parts.append(f'<path class="grid" d="M{left} {at:.1f}H{right}"/>')
        parts.append(_text(left - 6, at + 4, chart.say(tick), "tick", "end"))
    free = float("-inf")
    for tick in x.ticks:
        at, said = x.at(tick), chart.x_say(tick)
        if at - len(said) * 3.6 > free:
            parts.append(_text(at, floor + 15, said, "tick", "middle"))
            free = at + len(said) * 3.6 + 2
    parts.append(f'<path class="floor" d="M{left} {floor}H{right}"/>')
    parts.append(_text((left + right) / 2, HEIGHT - 4, chart.x_label, "tick", "middle"))
    return parts


def _doubt(chart: Chart, x: Axis) -> list[str]:
    if chart.doubtful_from is None:
        return []
    at, right = x.at(chart.doubtful_from) - 8, WIDTH - _RIGHT + 4
    size = f'width="{max(right - at, 0):.1f}" height="{HEIGHT - _BOTTOM - _TOP}"'
    area = f'<rect class="doubt" x="{at:.1f}" y="{_TOP}" {size}/>'
    return [area, _text((at + right) / 2, _TOP + 10, "client too slow", "tick", "middle")]


def _marks(chart: Chart, x: Axis, y: Axis) -> list[str]:
    parts = []
    for mark in chart.upright:
        at = x.at(mark.value)
        parts.append(f'<path class="mark" d="M{at:.1f} {_TOP}V{HEIGHT - _BOTTOM}"/>')
        parts.append(_text(at, _TOP - 6, mark.label, "tick", "middle"))
    for mark in chart.level:
        if mark.value > y.high:
            parts.append(_text(_LEFT + 4, HEIGHT - _BOTTOM - 6, f"↑ {mark.label}", "tick", "start"))
            continue
        at = y.at(mark.value)
        parts.append(f'<path class="mark" d="M{_LEFT} {at:.1f}H{WIDTH - _RIGHT}"/>')
        parts.append(_text(_LEFT + 4, at - 4, mark.label, "tick halo", "start"))
    return parts


def _band(line: Line, x: Axis, y: Axis) -> list[str]:
    """From the lowest to the highest run."""
    if not line.low:
        return []
    ends = zip(line.points, line.low, line.high, strict=True)
    known = [
        (x.at(at), y.at(low), y.at(high))
        for (at, _), low, high in ends
        if low is not None and high is not None
    ]
    if len(known) < 2:
        return [
            f'<path class="whisker" d="M{at:.1f} {low:.1f}V{high:.1f}"/>' for at, low, high in known
        ]
    there = " ".join(f"{at:.1f},{high:.1f}" for at, _, high in known)
    back = " ".join(f"{at:.1f},{low:.1f}" for at, low, _ in reversed(known))
    return [f'<polygon class="band" points="{there} {back}"/>']


def _drawn(chart: Chart, line: Line, x: Axis, y: Axis) -> list[str]:
    parts = []
    for known, group in groupby(line.points, key=lambda point: point[1] is not None):
        if not known:
            continue
        run = [(x.at(at), y.at(value)) for at, value in group if value is not None]
        path = " ".join(f"{at:.1f},{value:.1f}" for at, value in run)
        dash = _DASHES[line.dash % len(_DASHES)]
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        faint = f' opacity="{line.opacity:.2f}"' if line.opacity < 1 else ""
        parts.append(f'<polyline class="line" points="{path}"{dashed}{faint}/>')
    return parts + (_dots(chart, line, x, y) if line.dots else [])


def _dots(chart: Chart, line: Line, x: Axis, y: Axis) -> list[str]:
    parts = []
    for at, value in line.points:
        if value is None:
            continue
        said = escape(f"{line.name} at {chart.x_say(at)}: {chart.say(value)}")
        kind = "dot hollow" if at in chart.doubtful else "dot"
        parts.append(
            f'<circle class="{kind}" cx="{x.at(at):.1f}" cy="{y.at(value):.1f}" r="3">'
            f"<title>{said}</title></circle>"
        )
    return parts


def _names(chart: Chart, x: Axis, y: Axis) -> list[str]:
    """Beside the last point, pushed apart; or on the line itself, where it is told where."""
    on_line = [line for line in chart.lines if line.label_at is not None]
    parts = []
    for line in on_line:
        at, value = line.points[line.label_at or 0]
        if value is not None:
            parts.append(_text(x.at(at) + 4, y.at(value) + 4, line.name, "name halo", "start"))
    ends = []
    for line in chart.lines:
        known = [value for _, value in line.points if value is not None]
        if known and line.label_at is None:
            ends.append((y.at(known[-1]), line.name))
    for place, name in _apart(ends):
        parts.append(_text(WIDTH - _RIGHT + 7, place + 4, name, "name", "start"))
    return parts


def _apart(ends: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
    """No two names closer than a line, and none below the floor."""
    placed: list[tuple[float, str]] = []
    floor = float(HEIGHT - _BOTTOM)
    for at, name in sorted(ends, reverse=True):
        place = min(at, floor)
        placed.append((place, name))
        floor = place - _LINE_PX
    return placed


def _text(x: float, y: float, said: str, kind: str, anchor: str) -> str:
    return (
        f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(said)}</text>'
    )
