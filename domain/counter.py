"""Counters: increments between two readings, across restarts of whoever counts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Increase", "increase"]

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, kw_only=True)
class Increase(Generic[Key]):
    """What each series grew by, and whether the source restarted in between."""

    by: Mapping[Key, float]
    restarted: bool


def increase(
    before: Mapping[Key, float] | None, now: Mapping[Key, float], *, restarted: bool = False
) -> Increase[Key]:
    """Growth of each series of one family between two readings of one process; never negative.

    All series of a family reset together: one that falls (or a newer start time, which the caller
    passes as `restarted`) means that everything in `now` is new. A series absent from an earlier
    reading counts from zero; with no earlier reading at all nothing is known to have grown.
    """
    if before is None:
        return Increase(by=dict.fromkeys(now, 0.0), restarted=False)
    fell = restarted or any(now[key] < value for key, value in before.items() if key in now)
    base: Mapping[Key, float] = {} if fell else before
    return Increase(
        by={key: value - base.get(key, 0.0) for key, value in now.items()}, restarted=fell
    )
