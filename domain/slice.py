"""One minute of one objective: how many requests were good, and whether anybody was looking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

__all__ = [
    "MINUTE_S",
    "EmptySlice",
    "Slice",
    "SlicePolicy",
    "SliceState",
    "Tally",
    "as_whole",
    "tally",
]

MINUTE_S = 60


class SliceState(StrEnum):
    """The four things a minute can be."""

    GOOD = "good"
    BAD = "bad"
    NO_TRAFFIC = "no traffic"
    NOT_OBSERVED = "not observed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """`good_low` requests were surely good, `good_high` possibly; equal where the source is exact.

    `excluded` (cancelled by the client, or wrong in themselves) are in no total, and shown.
    """

    minute_at_s: int
    good_low: int = 0
    good_high: int = 0
    total: int = 0
    observed: bool = True
    excluded: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.good_low <= self.good_high <= self.total:
            raise ValueError(f"good must lie between 0 and total: {self}")
        if self.minute_at_s % MINUTE_S:
            raise ValueError(f"a slice begins on a minute: {self}")
        if self.total and not self.observed:
            raise ValueError(f"what nobody observed cannot be counted: {self}")

    @property
    def state(self) -> SliceState:
        if not self.observed:
            return SliceState.NOT_OBSERVED
        if not self.total:
            return SliceState.NO_TRAFFIC
        return SliceState.GOOD if self.good_low == self.total else SliceState.BAD


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Slices added up. `observed_minutes` of `minutes` were observed."""

    good_low: int = 0
    good_high: int = 0
    total: int = 0
    minutes: int = 0
    observed_minutes: int = 0

    @property
    def bad_low(self) -> int:
        """Surely bad: these decide a page."""
        return self.total - self.good_high

    @property
    def bad_high(self) -> int:
        """Possibly bad: enough for a ticket."""
        return self.total - self.good_low


def tally(slices: Iterable[Slice]) -> Tally:
    """The sum; integers, so that sums of sums are the same."""
    good_low = good_high = total = minutes = observed = 0
    for each in slices:
        good_low += each.good_low
        good_high += each.good_high
        total += each.total
        minutes += 1
        observed += each.observed
    return Tally(
        good_low=good_low,
        good_high=good_high,
        total=total,
        minutes=minutes,
        observed_minutes=observed,
    )


class EmptySlice(StrEnum):
    """What a minute counts as in which nobody asked."""

    GOOD = "good"
    BAD = "bad"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePolicy:
    """A slice is good when at least `target` of its requests were; an empty one is as `empty` says."""

    target: Fraction
    empty: EmptySlice = EmptySlice.EXCLUDED


def as_whole(each: Slice, policy: SlicePolicy) -> Slice:
    """The slice counted as one: good, bad, or possibly either where its source is coarse."""
    if not each.observed:
        return each
    if not each.total:
        counted = policy.empty is not EmptySlice.EXCLUDED
        good = int(policy.empty is EmptySlice.GOOD)
        return Slice(
            minute_at_s=each.minute_at_s,
            good_low=good,
            good_high=good,
            total=int(counted),
            excluded=each.excluded,
        )
    return Slice(
        minute_at_s=each.minute_at_s,
        good_low=int(each.good_low >= policy.target * each.total),
        good_high=int(each.good_high >= policy.target * each.total),
        total=1,
        excluded=each.excluded,
    )
