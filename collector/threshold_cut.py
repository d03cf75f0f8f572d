"""Where a threshold lies on the grid of a tile.

A tile counts a threshold exactly but for the one cell that the threshold cuts, 1.1 % wide. A value
is good if it is at most the double nearest to the threshold, so that 0.1 is at most 0.1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from domain.grid import EDGES_S, OVER

__all__ = ["Cut", "cut_at"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Cells up to `below` are good; `cell` is cut, if any."""

    threshold_s: float
    below: int
    cell: int | None


def cut_at(threshold_s: float) -> Cut:
    """The cell of the grid that a threshold cuts, and how far what is below it is good."""
    below = int(np.searchsorted(EDGES_S, threshold_s, side="right")) - 1
    on_edge = below >= 0 and EDGES_S[below] == threshold_s
    return Cut(threshold_s, below, None if on_edge else min(below + 1, OVER))
