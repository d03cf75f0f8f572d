"""A cloud of requests: one value against another, thinned without losing what stands out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dashboard.figures import FONT, HUE, Threshold
from dashboard.overlays import FAINT, GREY, Figure

__all__ = ["MOST_DOTS", "Cloud", "cloud_figure", "thinned"]

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

MOST_DOTS = 800
"""With an id each this is the most that 25 kB of an answer hold."""

_COLUMNS, _ROWS = 30, 26
_LEAST = 1e-4


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Cloud:
    """`good`: those that are drawn as dots; the others as crosses."""

    x: Floats
    y: Floats
    good: NDArray[np.bool_]
    ids: Sequence[str]


def thinned(x: Floats, y: Floats) -> Indices:
    """The highest of each place of a grid, so the highest of any stretch of it; and the lowest of all."""
    known = (~np.isnan(x) & ~np.isnan(y)).nonzero()[0]
    if len(known) <= MOST_DOTS:
        return known
    column, row = _cells(x[known], _COLUMNS), _cells(y[known], _ROWS)
    order = known[np.lexsort((-y[known], column * _ROWS + row))]
    cell = np.sort(column * _ROWS + row)
    first = order[np.append(True, cell[1:] != cell[:-1])]
    return np.union1d(first, known[[y[known].argmin()]])


def cloud_figure(
    cloud: Cloud, *, promises: Sequence[Threshold], zoom: str, one: str, x_title: str, y_title: str
) -> tuple[Figure, int]:
    """Both axes in powers of ten, and how many are drawn. `one`: where each has a page of its own."""
    kept = thinned(cloud.x, cloud.y)
    parts = [kept[cloud.good[kept]], kept[~cloud.good[kept]]]
    data = [_dots(cloud, rows, good=rows is parts[0]) for rows in parts if len(rows)]
    layout: Figure = {
        "uirevision": zoom or "default",
        "meta": {"one": one},
        "xaxis": _axis(x_title) | {"dtick": 1, "tickformat": "~s"},
        "yaxis": _axis(y_title) | {"ticksuffix": " s"},
        "shapes": [_level(each) for each in promises],
        "annotations": [_name(each) for each in promises],
        "margin": {"l": 8, "r": 12, "t": 16, "b": 8},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"bgcolor": "#15181B", "bordercolor": GREY, "font": {"color": "#F0F4F9"}},
        "dragmode": False,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": GREY},
    }
    return {"data": data, "layout": layout}, len(kept)


def _cells(values: Floats, number: int) -> Indices:
    """Places on a scale of powers of ten."""
    logs = np.log10(np.maximum(values, _LEAST))
    low, high = float(logs.min()), float(logs.max())
    width = (high - low) / number or 1.0
    return np.minimum((logs - low) / width, number - 1).astype(np.int64)


def _dots(cloud: Cloud, rows: Indices, *, good: bool) -> Figure:
    mark: dict[str, Any] = {"size": 6, "color": HUE, "opacity": 0.6}
    if not good:
        mark = {"size": 8, "color": GREY, "symbol": "x-thin-open", "line": {"width": 2}}
    # why not nothing: a scale of powers of ten has no zero
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "answered" if good else "not answered well",
        "x": np.maximum(cloud.x[rows], 1).astype(np.int32),
        "y": np.maximum(cloud.y[rows], _LEAST).astype(np.float32),
        "customdata": [cloud.ids[row] for row in rows.tolist()],
        "hovertemplate": "%{x} tokens, %{y:.3~g} s<extra></extra>",
        "marker": mark,
    }


def _axis(title: str) -> Figure:
    return {
        "type": "log",
        "title": {"text": title, "standoff": 8},
        "gridcolor": FAINT,
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
        "dtick": "D2",
        "exponentformat": "none",
    }


def _level(promise: Threshold) -> Figure:
    line = {"color": GREY, "width": 1.5, "dash": "dash"}
    ends = {"type": "line", "xref": "paper", "x0": 0, "x1": 1}
    return ends | {"y0": promise.value, "y1": promise.value, "line": line}


def _name(promise: Threshold) -> Figure:
    at = {"x": 0, "xref": "paper", "xanchor": "left", "yanchor": "bottom", "showarrow": False}
    # why the logarithm: notes on such an axis are placed by their power of ten
    return at | {"y": float(np.log10(promise.value)), "text": promise.label}
