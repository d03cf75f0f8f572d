"""The newest minutes of one objective in memory: any window's sum is one subtraction."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

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
        self._room = minutes + minutes // 4 + 61
        # why arrays: one number of an ndarray costs three times as much, and eight windows are
        # judged per minute
        self._sums = tuple(array("q", bytes(8 * self._room)) for _ in range(_COLUMNS))

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
        if self._filled + 1 == self._room:
            self._forget()
        low, high, total, observed = self._sums
        last = self._filled
        low[last + 1] = low[last] + each.good_low
        high[last + 1] = high[last] + each.good_high
        total[last + 1] = total[last] + each.total
        observed[last + 1] = observed[last] + each.observed
        self._filled = last + 1

    def amend(self, slices: Iterable[Slice]) -> None:
        """Replaces minutes that are still in memory; older ones are left alone."""
        rows = {
            (each.minute_at_s - self._begin_s) // MINUTE_S: each
            for each in slices
            if self._begin_s <= each.minute_at_s < self.end_s
        }
        if not rows:
            return
        first = min(rows)
        for column, values in zip(
            self._sums, zip(*map(_row, rows.values()), strict=True), strict=True
        ):
            change = np.zeros(self._filled - first, np.int64)
            for index, value in zip(rows, values, strict=True):
                change[index - first] = value - (column[index + 1] - column[index])
            whole = np.frombuffer(column, np.int64)
            whole[first + 1 : self._filled + 1] += change.cumsum()

    def at(self, minute_at_s: int) -> Slice:
        """One minute as known (without its excluded requests)."""
        low, high, total, observed = self.row(minute_at_s)
        return Slice(
            minute_at_s=minute_at_s,
            good_low=low,
            good_high=high,
            total=total,
            observed=bool(observed),
        )

    def row(self, minute_at_s: int) -> tuple[int, int, int, int]:
        """The same as plain numbers: good at least, at most, total, whether observed."""
        index = (minute_at_s - self._begin_s) // MINUTE_S
        if not 0 <= index < self._filled:
            raise ValueError(f"{minute_at_s} is not kept here")
        low, high, total, observed = self._sums
        return (
            low[index + 1] - low[index],
            high[index + 1] - high[index],
            total[index + 1] - total[index],
            observed[index + 1] - observed[index],
        )

    def slices(self, window_s: int, until_s: int) -> list[Slice]:
        """The minutes of (until - window, until] that are kept here."""
        since_s = max(until_s - window_s, self._begin_s)
        return [self.at(at_s) for at_s in range(since_s, until_s, MINUTE_S)]

    def newest(self, minutes: int, *, surely: bool) -> tuple[int, int]:
        """Bad and total of the newest so many minutes; surely bad, or possibly."""
        last = self._filled
        first = max(last - minutes, 0)
        good, total = self._sums[1 if surely else 0], self._sums[2]
        count = total[last] - total[first]
        return count - (good[last] - good[first]), count

    def tally(self, window_s: int, until_s: int) -> Tally:
        """The sum over (until - window, until]."""
        end = (until_s - self._begin_s) // MINUTE_S
        begin = max(end - window_s // MINUTE_S, 0)
        low, high, total, observed = self._sums
        return Tally(
            good_low=low[end] - low[begin],
            good_high=high[end] - high[begin],
            total=total[end] - total[begin],
            minutes=window_s // MINUTE_S,
            observed_minutes=observed[end] - observed[begin],
        )

    def _forget(self) -> None:
        drop = self._filled - self._minutes
        for column in self._sums:
            kept = np.frombuffer(column, np.int64)
            first = kept[drop]
            kept[: self._minutes + 1] = kept[drop : self._filled + 1] - first
        self._filled = self._minutes
        self._begin_s += drop * MINUTE_S


@dataclass(slots=True)
class Spending:
    """The running sums of a period: how many were counted at each budget, and what was bad.

    What the period allows is the sum of N_i * b_i over the stretches in which each budget b_i was
    in force.
    """

    counted: dict[Fraction, int] = field(default_factory=dict)
    spent_low: int = 0
    spent_high: int = 0

    @property
    def allowed(self) -> Fraction:
        return sum((budget * total for budget, total in self.counted.items()), Fraction(0))

    def left(self, counted_s: int, period_s: int) -> tuple[int, int]:
        """What is surely left of the whole period's budget, and that budget; integers of one unit.

        `Budget.of_period_low` is their quotient. Without traffic both are 0.
        """
        if len(self.counted) == 1:  # why apart: fractions are slow, and this is asked each minute
            ((budget, total),) = self.counted.items()
            granted, of = budget.numerator * total, budget.denominator
        else:
            granted, of = self.allowed.as_integer_ratio()
        whole = granted * period_s
        return whole - self.spent_high * of * min(counted_s, period_s), whole

    @property
    def total(self) -> int:
        return sum(self.counted.values())

    def add(self, each: Slice, budget: Fraction, *, sign: int = 1) -> None:
        """A minute enters the period (`sign=1`) or leaves it (`sign=-1`)."""
        if each.total:
            self.add_counts(each.good_low, each.good_high, each.total, budget, sign=sign)

    def add_counts(
        self, good_low: int, good_high: int, total: int, budget: Fraction, *, sign: int = 1
    ) -> None:
        """The same of any number of minutes."""
        left = self.counted.get(budget, 0) + sign * total
        if left:
            self.counted[budget] = left
        else:
            self.counted.pop(budget, None)
        self.spent_low += sign * (total - good_high)
        self.spent_high += sign * (total - good_low)

    def as_counts(self) -> Mapping[str, int]:
        """How many were counted at each budget, as text."""
        return {str(budget): total for budget, total in self.counted.items()}


def _row(each: Slice) -> tuple[int, int, int, int]:
    return each.good_low, each.good_high, each.total, int(each.observed)
