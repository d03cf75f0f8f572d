"""Charts as plain dictionaries: arrays in, figure out, no state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from dashboard.legible import legible
from dashboard.overlays import (
    FAINT,
    GREY,
    LONGEST,
    Figure,
    Instant,
    Mark,
    hatch,
    names,
    shade,
    uprights,
)

__all__ = [
    "AXIS_POINTS",
    "Band",
    "Figure",
    "Frame",
    "Instant",
    "Line",
    "Mark",
    "Scale",
    "Threshold",
    "chart",
    "thin",
]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

AXIS_POINTS = 360
"""As many buckets of points as a chart has room for."""

HUE = "#3A87D0"  # the accent between the themes: 3.7 : 1 on white, 4.6 : 1 on our dark page
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_TICKS = [
    {"dtickrange": [None, 59_999], "value": "%H:%M:%S\n%-d %b"},
    {"dtickrange": [60_000, 86_399_999], "value": "%H:%M\n%-d %b"},
    {"dtickrange": [86_400_000, None], "value": "%-d %b\n%Y"},
]
"""What stands after the line break is told once, and where it changes."""
_DASHES = ("solid", "dot", "dash", "dashdot", "longdash", "longdashdot")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Line:
    """Values that are known; NaN is a gap. `rank` 0 is the line that matters."""

    name: str
    at_ms: Floats
    value: Floats
    rank: int = 0
    stack: str = ""  # the stage that an area stands for


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Band:
    """Intervals of which no more is known, one box a step."""

    name: str
    since_ms: Floats
    until_ms: Floats
    low: Floats
    high: Floats  # infinite where the source has no upper edge
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """A promise, drawn across the chart and named on it."""

    value: float
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The axis of values that are no seconds. `floor`: where it begins."""

    unit: str
    floor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What all charts of a page share. `zoom` names the view whose zoom a refresh keeps."""

    since_ms: float
    until_ms: float
    zone: str
    zoom: str


def thin(values: Floats, buckets: int) -> Indices:
    """Indices worth drawing: each bucket's low and high, every gap, and the newest value."""
    size = max(1, len(values) // buckets)
    whole = len(values) // size
    rows = values[: whole * size].reshape(whole, size)
    missing = np.isnan(rows)
    # why: argmax calls NaN the highest, so a silence would hide the spike beside it
    low = np.where(missing, np.inf, rows).argmin(axis=1)
    high = np.where(missing, -np.inf, rows).argmax(axis=1)
    begins = np.arange(whole) * size
    newest = np.arange(len(values))[-1:]
    rest = np.arange(whole * size, len(values))
    kept = np.unique(np.concatenate([begins + low, begins + high, rest, newest]))
    return np.union1d(kept, _gaps_between(values, kept)).astype(np.int64)


def chart(
    lines: Sequence[Line],
    bands: Sequence[Band],
    *,
    frame: Frame,
    threshold: Threshold | None = None,
    marks: Sequence[Mark] = (),
    instants: Sequence[Instant] = (),
    axis: Scale | None = None,
) -> Figure:
    """Values against time; without `axis` seconds, or milliseconds where that fits."""
    top = _top(lines, bands, threshold)
    scale, unit = (1e3, "ms") if top < 1 else (1.0, "s")
    if axis is not None:
        scale, unit = 1.0, axis.unit
    stages = [line.stack for line in lines if line.stack]
    data = [hatch(mark) for mark in marks if mark.hatched]
    for band in bands:
        data += _band(band, scale=scale, top=top)
    for line in reversed(lines) if not stages else lines:  # the line that matters on top
        data += _line(line, scale=scale, stages=stages)
    floor = axis.floor if axis is not None else 0.0
    labels = _labels(lines, bands, scale=scale, top=top, reach=top - floor)
    layout = _layout(frame, threshold, scale, unit, top)
    layout["yaxis"]["range"][0] = floor
    layout["shapes"] += [shade(mark) for mark in marks if mark.shaded] + uprights(instants)
    layout["margin"]["r"] = 12 + 7 * max((len(label["text"]) for label in labels), default=0)
    layout["annotations"] = _notes(frame, threshold, marks, scale, top) + labels
    layout["annotations"] += names(instants, since_ms=frame.since_ms, until_ms=frame.until_ms)
    return {"data": data, "layout": layout}


def _gaps_between(values: Floats, kept: Indices) -> Indices:
    """The first gap after each kept point that no kept point would show."""
    gaps = np.append(np.flatnonzero(np.isnan(values)), len(values))
    following = gaps[np.searchsorted(gaps[:-1], kept, side="right")]
    return following[:-1][following[:-1] < kept[1:]]


def _top(lines: Sequence[Line], bands: Sequence[Band], threshold: Threshold | None) -> float:
    """The upper end of the axis: all values, and the promise unless it would flatten them."""
    stacked = [line.value for line in lines if line.stack]
    values = [line.value for line in lines if not line.stack]
    values += [np.nansum(stacked, axis=0)] if stacked else []
    values += [np.where(np.isinf(band.high), band.low * 1.5, band.high) for band in bands]
    known = np.concatenate([*values, np.zeros(1)])
    highest = float(np.nanmax(known[np.isfinite(known)], initial=0.0))
    if threshold is not None and (highest == 0 or threshold.value <= 4 * highest):
        highest = max(highest, threshold.value)
    return highest * 1.08 or 1.0


def _line(line: Line, *, scale: float, stages: Sequence[str]) -> list[Figure]:
    kept = thin(line.value, AXIS_POINTS)
    at_ms, value = line.at_ms[kept], (line.value[kept] * scale).astype(np.float32)
    trace: Figure = {
        "type": "scatter",
        "mode": "lines",
        "name": escape(line.name[:80], quote=False),
        "x": at_ms,
        "y": value,
        "connectgaps": False,
        "hovertemplate": "%{y:.3~g}",
        "line": {
            "color": HUE if line.rank == 0 else GREY,
            "width": 2 if line.rank == 0 else 1.5,
            "dash": _DASHES[line.rank % len(_DASHES)],
        },
    }
    if line.stack:
        # why both names: Plotly draws the area up to the next line beside the line below it, and
        # the style sheet colours areas by what they are called
        above = [*stages[stages.index(line.stack) + 1 :], "none"][0]
        place = "first" if line.stack == stages[0] else "then"
        called = f"{place}-{line.stack}-next-{above}-"
        trace |= {"stackgroup": "stages", "uid": called, "stackgaps": "infer zero"}
        return [trace | {"line": {"width": 0.5, "color": FAINT}, "fillcolor": GREY}]
    lonely = _lonely(value)
    if not lonely.any():
        return [trace]
    dots = {key: trace[key] for key in ("type", "name", "hovertemplate")} | {"mode": "markers"}
    dots |= {"x": at_ms[lonely], "y": value[lonely], "hoverinfo": "skip", "hovertemplate": None}
    return [trace, dots | {"marker": {"size": 5, "color": trace["line"]["color"]}}]


def _labels(
    lines: Sequence[Line], bands: Sequence[Band], *, scale: float, top: float, reach: float
) -> list[Figure]:
    """Names at the right end of what they name, pushed apart where they would overlap."""
    ends: dict[str, float] = {}
    floor = 0.0
    for line in lines:
        newest = _newest(line.value)
        if newest is not None and line.stack:
            middle, floor = floor + newest / 2, floor + newest
            if newest >= top * 0.04:
                ends[line.name] = middle
        elif newest is not None:
            ends[line.name] = newest
    for band in bands:
        newest = _newest(np.where(np.isinf(band.high), top, band.high + band.low) / 2)
        if newest is not None:
            ends.setdefault(band.name, newest)
    labels, above = [], -np.inf
    for name, value in sorted(ends.items(), key=lambda end: end[1]):
        above = max(value, above + reach * 0.085)
        labels.append(_label(name, above * scale))
    return labels


def _label(name: str, at: float) -> Figure:
    shown = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    return {
        "x": 1,
        "xref": "paper",
        "xanchor": "left",
        "xshift": 4,
        "y": at,
        "text": escape(legible(shown), quote=False),
        "showarrow": False,
    }


def _newest(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known[-1]) if len(known) else None


def _lonely(value: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Values with a gap on either side: a line through one point is invisible."""
    known = np.concatenate([[False], ~np.isnan(value), [False]])
    return np.asarray(known[1:-1] & ~known[:-2] & ~known[2:])


def _band(band: Band, *, scale: float, top: float) -> list[Figure]:
    """Boxes as one outline, null between them; an open one reaches the top of the chart."""
    known = ~np.isnan(band.low)
    since, until = band.since_ms[known], band.until_ms[known]
    low = band.low[known] * scale
    high = np.where(np.isinf(band.high[known]), top, band.high[known]) * scale
    gap = np.full(len(low), np.nan)
    x = np.column_stack([since, since, until, until, since, gap]).ravel()[:-1]
    y = np.column_stack([low, high, high, low, low, gap]).ravel()[:-1].astype(np.float32)
    first = band.rank == 0
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": escape(f"{band.name[:80]} (range)", quote=False),
            "x": x,
            "y": y,
            "fill": "toself",
            "fillcolor": "rgba(58,135,208,0.6)" if first else "rgba(128,134,141,0.5)",
            "line": {"width": 0},
            "hoverinfo": "skip",
        }
    ]


def _layout(
    frame: Frame, threshold: Threshold | None, scale: float, unit: str, top: float
) -> Figure:
    axis: Figure = {"gridcolor": FAINT, "zeroline": False, "automargin": True}
    return {
        # why: an empty revision is ignored (plotly/dash-core-components#956)
        "uirevision": frame.zoom or "default",
        "xaxis": axis
        | {
            "type": "date",
            "range": [frame.since_ms, frame.until_ms],
            "hoverformat": f"%-d %b %H:%M:%S {frame.zone}",
            "tickformatstops": _TICKS,
            "tickangle": 0,
            "nticks": 6,
            "showgrid": False,
            "showspikes": True,
            "spikemode": "across",
            "spikethickness": 1,
            "spikecolor": GREY,
            "spikedash": "solid",
        },
        "yaxis": axis
        | {"range": [0, top * scale], "fixedrange": True, "ticksuffix": f" {unit}", "nticks": 5},
        "yaxis2": {"overlaying": "y", "range": [0, 1], "visible": False, "fixedrange": True},
        "shapes": _shapes(threshold, scale, top),
        "margin": {"l": 8, "r": 12, "t": 16, "b": 8},
        "showlegend": False,
        "hovermode": "x unified",
        "hoverlabel": {"bgcolor": "#15181B", "bordercolor": GREY, "font": {"color": "#F0F4F9"}},
        "dragmode": "zoom",
        "selectdirection": "h",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": GREY},
        "barmode": "overlay",
    }


def _shapes(threshold: Threshold | None, scale: float, top: float) -> list[Figure]:
    if threshold is None or threshold.value > top:
        return []
    level = threshold.value * scale
    line = {"color": GREY, "width": 1.5, "dash": "dash"}
    return [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": level, "y1": level}
        | {"line": line, "layer": "above"}
    ]


def _notes(
    frame: Frame, threshold: Threshold | None, marks: Sequence[Mark], scale: float, top: float
) -> list[Figure]:
    """The promise named on its line, and what a stretch without values means."""
    wide_ms = (frame.until_ms - frame.since_ms) / 12
    notes: list[Figure] = [
        {
            "x": (mark.since_ms + mark.until_ms) / 2,
            "y": 0.5 if mark.hatched else 0.06,
            "yref": "paper",
            "text": mark.label,
            "showarrow": False,
            "textangle": 0,
            "bgcolor": "rgba(128,134,141,0.16)",
            "borderpad": 3,
        }
        for mark in marks
        if mark.until_ms - mark.since_ms >= wide_ms
    ]
    if threshold is not None:
        above = threshold.value > top
        notes.append(
            {
                "x": 0,
                "xref": "paper",
                "xanchor": "left",
                "y": 1 if above else threshold.value * scale,
                "yref": "paper" if above else "y",
                "yanchor": "top" if above else "bottom",
                "text": f"{threshold.label} ↑" if above else threshold.label,
                "showarrow": False,
            }
        )
    return notes
