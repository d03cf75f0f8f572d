"""Which minutes a call reads: half-open, aligned to the period whatever second it is, overlapping."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ReadWindow", "read_window"]


@dataclass(frozen=True, slots=True, order=True)
class ReadWindow:
    """[since_s, until_s), both multiples of the period."""

    since_s: int
    until_s: int

    def starts(self, period_s: int) -> range:
        """The start of every period in it."""
        return range(self.since_s, self.until_s, period_s)


def read_window(
    now_s: float, read_until_s: int | None, *, period_s: int, reread_s: float, backfill_s: float
) -> ReadWindow:
    """From a while before what was read completely, so that late points are seen, to now.

    Read never, or too long ago: from `backfill_s` ago. The period that still runs is left out.
    """
    until_s = int(now_s // period_s) * period_s
    earliest_s = until_s - backfill_s
    since_s = earliest_s if read_until_s is None else min(read_until_s, until_s) - reread_s
    return ReadWindow(int(max(since_s, earliest_s) // period_s) * period_s, until_s)
