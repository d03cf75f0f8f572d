"""The busiest stretch of each day: what a long period is stressed on."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from review.load import Load

__all__ = ["busiest"]


def busiest(load: Load, day: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Rows: all where they are no more than `most`, else of each day those that came fastest.

    Of every day the same share, so that days keep their weight.
    """
    if len(load) <= most:
        return np.ones(len(load), bool)
    rows = np.zeros(len(load), bool)
    for each in np.unique(day):
        low, high = np.searchsorted(day, [each, each + 1])
        count = max(int((high - low) * most / len(load)), 1)
        at_s = load.arrival_s[low:high]
        took_s = at_s[count - 1 :] - at_s[: len(at_s) - count + 1]
        first = low + int(took_s.argmin())
        rows[first : first + count] = True
    return rows
