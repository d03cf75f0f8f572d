"""The thresholds that a coarse source decides: where its best and its worst histogram agree.

The layout of the source is not kept, but it shows: an edge of the source that lies between the
grid's leaves its cell empty in both histograms, and one that lies on the grid has equally many
values at or below it in both. In such a cell the shortest decimal is offered (2.5, not 2.4893).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.distribution import Distribution, add_all
from domain.grid import EDGES_S, OVER, upper_edge_s

__all__ = ["decided_around"]

_DIGITS: Final = 12  # a cell that lies alone has an edge without a short decimal


def decided_around(
    parts: Sequence[Distribution], threshold_s: Fraction
) -> tuple[Fraction, Fraction] | None:
    """The nearest decided thresholds below and above, or None where every threshold is decided.

    Where nothing is decided on one side (above a source's top edge), the other side stands twice.
    Where the threshold itself is decided, it stands twice.
    """
    if not parts or all(part.exact for part in parts):
        return None
    together = add_all(parts)
    surely, possibly = together.at_most(float(threshold_s))
    if surely == possibly:
        return threshold_s, threshold_s
    agree = together.low.cumsum() == together.high.cumsum()
    here = int(np.searchsorted(EDGES_S, float(threshold_s)))
    below, above = _last_below(agree, here), _first_above(agree, here)
    if below is None and above is None:
        return None
    low = below if below is not None else above
    high = above if above is not None else below
    return (low, high) if low is not None and high is not None else None


def _last_below(agree: NDArray[np.bool_], here: int) -> Fraction | None:
    cells = np.flatnonzero(agree[:here])
    if not len(cells):
        return None
    cell = int(cells[-1])
    inside = cell > 0 and bool(agree[cell - 1])
    return _shortest(cell - 1 if inside else cell, cell, math.floor)


def _first_above(agree: NDArray[np.bool_], here: int) -> Fraction | None:
    cells = here + np.flatnonzero(agree[here:OVER])
    if not len(cells):
        return None
    cell = int(cells[0])
    inside = cell + 1 < OVER and bool(agree[cell + 1])
    return _shortest(cell, cell + 1 if inside else cell, math.ceil)


def _shortest(bottom: int, top: int, nearest: Callable[[Fraction], int]) -> Fraction:
    """The shortest decimal between the upper edges of two cells, of several the nearest."""
    low, high = Fraction(upper_edge_s(bottom)), Fraction(upper_edge_s(top))
    for digits in range(_DIGITS):
        scale = 10**digits
        found = Fraction(nearest((high if nearest is math.floor else low) * scale), scale)
        if low <= found <= high:
            return found
    return low
