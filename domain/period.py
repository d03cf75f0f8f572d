"""Over how long a promise is kept: the last so many days, or this month by the calendar of a zone.

Instants are subtracted in UTC: a day in which clocks change has 23 or 25 hours, or another half.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from zoneinfo import ZoneInfo

__all__ = ["Calendar", "CalendarUnit"]

_MONTHS = {"month": 1, "quarter": 3, "year": 12}


class CalendarUnit(StrEnum):
    """What a calendar period is."""

    DAY = "day"
    WEEK = "week"  # begins on Monday
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The day, week, month, quarter or year that an instant lies in; `zone` is an IANA name."""

    unit: CalendarUnit
    zone: str = "UTC"

    def begin_s(self, at_s: int) -> int:
        """When the period began that this instant lies in."""
        return self._instant_s(self._first(self._day(at_s)))

    def end_s(self, at_s: int) -> int:
        """When it ends, which is when the next one begins."""
        return self._instant_s(self._next(self._first(self._day(at_s))))

    def _day(self, at_s: int) -> date:
        return datetime.fromtimestamp(at_s, ZoneInfo(self.zone)).date()

    def _first(self, day: date) -> date:
        if self.unit is CalendarUnit.DAY:
            return day
        if self.unit is CalendarUnit.WEEK:
            return date.fromordinal(day.toordinal() - day.weekday())
        months = _MONTHS[self.unit]
        return date(day.year, (day.month - 1) // months * months + 1, 1)

    def _next(self, first: date) -> date:
        if self.unit in (CalendarUnit.DAY, CalendarUnit.WEEK):
            return date.fromordinal(first.toordinal() + (1 if self.unit is CalendarUnit.DAY else 7))
        later = first.month - 1 + _MONTHS[self.unit]
        return date(first.year + later // 12, later % 12 + 1, 1)

    def _instant_s(self, day: date) -> int:
        midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.zone))
        return int(midnight.astimezone(UTC).timestamp())
