"""Maintenance: agreed windows whose minutes cost no budget, once or as often as a cron line says."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from domain.errors import ConfigError
from domain.objective import DAY_S

__all__ = ["LONGEST_S", "Maintenance"]

LONGEST_S = 7 * DAY_S
_BEGINNINGS_CHECKED = 400
_LONG_AGO_S = 1_704_067_200  # 2024 began


@dataclass(frozen=True, slots=True, kw_only=True)
class Maintenance:
    """From `once_at_s`, or whenever `cron` says so by the clock of `zone`, for `duration_s`.

    A change of clocks neither skips a window nor doubles it: what begins in the hour that does not
    exist begins at its end, what begins in the hour that comes twice begins in the first of them.
    """

    name: str
    duration_s: int
    cron: str = ""
    once_at_s: int | None = None
    zone: str = "UTC"
    reason: str = ""

    def __post_init__(self) -> None:
        if bool(self.cron) == (self.once_at_s is not None):
            raise self._error("begins never or in two ways", "Give cron or once.")
        if not 0 < self.duration_s <= LONGEST_S or self.duration_s % 60:
            raise self._error(f"lasts {self.duration_s} s", "Use whole minutes, from 1min to 7d.")
        if self.cron:
            self._check_cron()

    def covers(self, minute_at_s: int) -> bool:
        """Whether the minute that begins then lies in a window."""
        return any(
            begin_s <= minute_at_s < end_s for begin_s, end_s in _of_day(self, minute_at_s // DAY_S)
        )

    def next(self, at_s: int) -> tuple[int, int] | None:
        """The first window that is not over yet: begin and end; None when none will come."""
        if self.once_at_s is not None:
            end_s = self.once_at_s + self.duration_s
            return (self.once_at_s, end_s) if end_s > at_s else None
        begin_s = next(_beginnings(self.cron, self.zone, at_s - self.duration_s), None)
        return None if begin_s is None else (begin_s, begin_s + self.duration_s)

    def _check_cron(self) -> None:
        fields = self.cron.split()
        if len(fields) != 5:
            raise self._error(
                f"{self.cron!r} has {len(fields)} fields",
                "Write minute hour day month weekday, as in 0 2 * * SUN.",
            )
        try:
            gap_s = _shortest_gap_s(self.cron, self.zone)
        except CronSimError as error:
            raise self._error(
                f"{self.cron!r} is no cron line: {error}", "Write it like 0 2 * * SUN."
            ) from error
        if gap_s <= self.duration_s:
            raise self._error(
                "begins again before it is over", "Make it shorter, or the cron line rarer."
            )

    def _error(self, problem: str, remedy: str) -> ConfigError:
        return ConfigError(problem, where=f"maintenance {self.name!r}", remedy=remedy)


def _beginnings(cron: str, zone: str, after_s: int) -> Iterator[int]:
    """Every beginning strictly after an instant."""
    local = datetime.fromtimestamp(after_s, UTC).astimezone(ZoneInfo(zone))
    for begin in CronSim(cron, local):
        yield int(begin.astimezone(UTC).timestamp())


@functools.lru_cache(maxsize=1024)
def _shortest_gap_s(cron: str, zone: str) -> int:
    """Between two of the first beginnings after a day long past."""
    begins = _beginnings(cron, zone, _LONG_AGO_S)
    first = [at for at, _ in zip(begins, range(_BEGINNINGS_CHECKED), strict=False)]
    gaps = [later - earlier for earlier, later in pairwise(first)]
    return min(gaps, default=LONGEST_S + 1)


@functools.lru_cache(maxsize=4096)
def _of_day(maintenance: Maintenance, day: int) -> tuple[tuple[int, int], ...]:
    """The windows that touch a day of UTC: asked for every minute, found once."""
    begin_s, end_s = day * DAY_S, (day + 1) * DAY_S
    if maintenance.once_at_s is not None:
        begins = iter((maintenance.once_at_s,))
    else:
        after_s = begin_s - maintenance.duration_s
        begins = _beginnings(maintenance.cron, maintenance.zone, after_s)
    found = []
    for at_s in begins:
        if at_s >= end_s:
            break
        if at_s + maintenance.duration_s > begin_s:
            found.append((at_s, at_s + maintenance.duration_s))
    return tuple(found)
