"""The grid that every distribution shares: base 2, schema 6, 64 cells per power of two.

Cell k is (EDGES_S[k - 1], EDGES_S[k]]; cell 0 holds values up to 0.93 ns (zero among them), the
last cell holds what is longer than 36 hours. The relative midpoint of a cell is off by at most
(g - 1) / (g + 1) with g = 2^(1/64): 0.5415 %. OTel's ExponentialHistogram of scale 6 numbers the
same cells from another origin: OTel's index i, (2^(i/64), 2^((i+1)/64)], is our cell i + OTEL_OFFSET.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "CELLS",
    "CELLS_PER_OCTAVE",
    "EDGES_S",
    "OTEL_OFFSET",
    "OVER",
    "RELATIVE_ERROR",
    "SCALE",
    "Cells",
    "cells_of",
    "lower_edge_s",
    "middle_s",
    "upper_edge_s",
]

Cells = NDArray[np.int64]
Seconds = NDArray[np.float64]

SCALE: Final = 6
CELLS_PER_OCTAVE: Final = 64
_FIRST: Final = -30 * CELLS_PER_OCTAVE
_LAST: Final = 17 * CELLS_PER_OCTAVE

EDGES_S: Final[Seconds] = np.exp2(np.arange(_FIRST, _LAST + 1) / CELLS_PER_OCTAVE)
CELLS: Final = len(EDGES_S) + 1
OVER: Final = CELLS - 1
OTEL_OFFSET: Final = 1 - _FIRST
RELATIVE_ERROR: Final = 0.00542

_NEAREST = np.concatenate(([0.0], EDGES_S, [np.inf]))  # lower edge of each cell, then the end


def cells_of(values_s: Seconds) -> Cells:
    """The cell of each value, exactly: a value on an edge belongs to the cell below it.

    why no logarithm: its rounding puts values on an edge one cell off, and the comparisons that
    mend that cost more than the search (measured for 1 to 100 000 values).
    """
    return EDGES_S.searchsorted(values_s)


def lower_edge_s(cell: int) -> float:
    """Below cell 0 lies nothing: 0."""
    return float(_NEAREST[cell]) if cell > 0 else 0.0


def upper_edge_s(cell: int) -> float:
    """The last cell is open above: infinity."""
    return float(_NEAREST[cell + 1]) if cell < OVER else float("inf")


def middle_s(cell: int) -> float:
    """The relative midpoint: 0 for the zero cell, infinity for the open one."""
    if cell <= 0:
        return 0.0
    if cell >= OVER:
        return float("inf")
    low, high = float(_NEAREST[cell]), float(_NEAREST[cell + 1])
    return 2 * low * high / (low + high)
