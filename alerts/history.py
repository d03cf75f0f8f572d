"""The newest minutes of one objective in memory: any window's sum is one subtraction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from domain.slice import MINUTE_S, Slice, Tally

__all__ = ["History", "Spending"]

_COLUMNS = 4  # good_low, good_high, total, observed


class History:
    """Running sums of slices: at least the newest `minutes`, gapless, amendable where data are late.

    Minutes before the first `extend` count as not observed until `amend` says otherwise.
    """

    def __init__(self, minutes: int, end_s: int) -> None:
        self._minutes = minutes
        self._filled = minutes
        self._begin_s = end_s - minutes * MINUTE_S
        self._sums = np.zeros((minutes + minutes // 4 + 61, _COLUMNS), np.int64)

    @property
    def begin_s(self) -> int:
        return self._begin_s

    @property
    def end_s(self) -> int:
        """The end of the newest minute."""
        return self._begin_s + self._filled * MINUTE_S

    def extend(self, each: Slice) -> None:
        """The next minute."""
        if each.minute_at_s != self.end_s:
            raise ValueError(f"the next minute is {self.end_s}, not {each.minute_at_s}")
        if self._filled + 1 == len(self._sums):
            self._forget()
        self._sums[self._filled + 1] = self._sums[self._filled] + _row(each)
        self._filled += 1

    def amend(self, slices: Iterable[Slice]) -> None:
        """Minutes that became known late; those older than what is kept here are left alone."""
        indexed = (((each.minute_at_s - self._begin_s) // MINUTE_S, each) for each in slices)
        rows = {index: _row(each) for index, each in indexed if 0 <= index < self._filled}
        if not rows:
            return
        first = min(rows)
        change = np.zeros((self._filled - first, _COLUMNS), np.int64)
        for index, row in rows.items():
            change[index - first] = row - (self._sums[index + 1] - self._sums[index])
        self._sums[first + 1 : self._filled + 1] += change.cumsum(axis=0)

    def at(self, minute_at_s: int) -> Slice:
        """One minute as known (without its excluded requests)."""
        index = (minute_at_s - self._begin_s) // MINUTE_S
        if not 0 <= index < self._filled:
            raise ValueError(f"{minute_at_s} is not kept here")
        low, high, total, observed = (self._sums[index + 1] - self._sums[index]).tolist()
        return Slice(
            minute_at_s=minute_at_s,
            good_low=low,
            good_high=high,
            total=total,
            observed=bool(observed),
        )

    def tally(self, window_s: int, until_s: int) -> Tally:
        """The sum over (until - window, until]."""
        end = (until_s - self._begin_s) // MINUTE_S
        begin = max(end - window_s // MINUTE_S, 0)
        low, high, total, observed = (self._sums[end] - self._sums[begin]).tolist()
        return Tally(
            good_low=low,
            good_high=high,
            total=total,
            minutes=window_s // MINUTE_S,
            observed_minutes=observed,
        )

    def _forget(self) -> None:
        drop = self._filled - self._minutes
        kept = self._sums[drop : self._filled + 1].copy()
        self._sums[: len(kept)] = kept - kept[0]
        self._filled = self._minutes
        self._begin_s += drop * MINUTE_S


@dataclass(slots=True)
class Spending:
    """The running sums of a period; each minute brings the budget that was in force then."""

    allowed: Fraction = Fraction(0)
    spent_low: int = 0
    spent_high: int = 0
    total: int = 0

    def add(self, each: Slice, budget: Fraction, *, sign: int = 1) -> None:
        """A minute enters the period (`sign=1`) or leaves it (`sign=-1`)."""
        if each.total:
            self.allowed += sign * each.total * budget
            self.spent_low += sign * (each.total - each.good_high)
            self.spent_high += sign * (each.total - each.good_low)
            self.total += sign * each.total


def _row(each: Slice) -> NDArray[np.int64]:
    return np.array((each.good_low, each.good_high, each.total, each.observed), np.int64)
