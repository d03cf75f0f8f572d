"""Numbers as people write them, and back: shares, durations, periods, rates and instants; exact."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from fractions import Fraction
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from domain.errors import ConfigError
from domain.objective import DAY_S

__all__ = [
    "LONGEST_S",
    "decimal_text",
    "duration_s",
    "duration_text",
    "instant_s",
    "instant_text",
    "level",
    "period_s",
    "period_text",
    "rate_per_s",
    "seconds",
    "seconds_text",
    "share_text",
    "suggestion",
    "target",
    "zone",
]

LONGEST_S = 90 * DAY_S
_NUMBER = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([a-zµ]*)")
_UNITS_S = {
    "us": Fraction(1, 1_000_000),
    "µs": Fraction(1, 1_000_000),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "min": Fraction(60),
}
_PERIODS_S = {"min": 60, "h": 3600, "d": DAY_S, "w": 7 * DAY_S}
_RATES_S = {"s": 1, "min": 60, "h": 3600}
_TOLD = 24
_SHORTEST_S = 3600


def target(text: str, *, at: str) -> Fraction:
    """`99.9`, `99.9%`, `p99.9` or a share such as `0.999`; exact."""
    number = text.strip().removeprefix("p").removesuffix("%").strip()
    if not re.fullmatch(r"[0-9]{1,3}(\.[0-9]{1,12})?", number):
        raise ConfigError(f"{text!r} is no target", where=at, remedy="Write p99, p99.9 or 99.9%.")
    value = Fraction(number)
    is_share = value < 1 and "%" not in text and not text.strip().startswith("p")
    share = value if is_share else value / 100
    if not 0 < share < 1:
        raise ConfigError(
            f"a target of {number} % leaves nothing to measure against",
            where=at,
            remedy="Use a target above 0 and below 100 %, such as p99.",
        )
    return share


def duration_s(text: str, *, at: str) -> Fraction:
    """`1.5s`, `300ms`, `50us` or `2min`; exact."""
    number, unit = _number(text, at=at, remedy="Write 1.5s, 300ms, 50us or 2min.")
    if unit not in _UNITS_S:
        unit_said = f"the unit {unit!r}" if unit else "no unit"
        raise ConfigError(
            f"{text!r} has {unit_said}", where=at, remedy=f"Use one of {', '.join(_UNITS_S)}."
        )
    if not number:
        raise ConfigError(
            "nothing is faster than 0 s", where=at, remedy="Use a threshold above 0, such as 1.5s."
        )
    threshold_s = number * _UNITS_S[unit]
    if threshold_s > 30 * DAY_S:
        raise ConfigError(f"{text!r} is never", where=at, remedy="Use a threshold up to 30 days.")
    return threshold_s


def seconds(text: str, *, at: str) -> int:
    """A waiting time such as `15min`, `0s` or `1h`, in whole seconds."""
    number, unit = _number(text, at=at, remedy="Write 0s, 15min or 1h.")
    units = {"s": 1, **_PERIODS_S}
    if unit not in units or (number * units[unit]).denominator != 1:
        raise ConfigError(f"{text!r} is no waiting time", where=at, remedy="Write 0s, 15min or 1h.")
    if number * units[unit] > 365 * DAY_S:
        raise ConfigError(f"{text!r} is never", where=at, remedy="Wait for a year at most.")
    return int(number * units[unit])


def period_s(text: str, *, at: str) -> int:
    """`30d`, `4w`, `12h`; between one hour and 90 days, in whole hours."""
    number, unit = _number(text, at=at, remedy="Write 30d, 4w or 12h.")
    if unit not in _PERIODS_S:
        raise ConfigError(
            f"the period {text!r} has no unit we know",
            where=at,
            remedy=f"Use one of {', '.join(_PERIODS_S)}, as in 30d.",
        )
    period = number * _PERIODS_S[unit]
    if not _SHORTEST_S <= period <= LONGEST_S or period % _SHORTEST_S:
        raise ConfigError(
            f"a period of {text} cannot be watched",
            where=at,
            remedy="Use whole hours from 1h (the shortest window that works) to 90d.",
        )
    return int(period)


def rate_per_s(text: str, *, at: str) -> Fraction:
    """`500/s`, `30000/min`: so many per second."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,12})?)\s*/\s*(s|min|h)", text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is no rate", where=at, remedy="Write 500/s or 30000/min.")
    return Fraction(found[1]) / _RATES_S[found[2]]


def level(text: str, *, at: str) -> Fraction:
    """The bound of a gauge: `0.9`, `90%`, `25`."""
    found = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,12})?)\s*(%?)", text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is no number", where=at, remedy="Write 0.9, 90% or 25.")
    return Fraction(found[1]) / (100 if found[2] else 1)


def instant_s(text: str, *, zone_name: str = "UTC", at: str) -> int:
    """`2026-03-01` (midnight) or `2026-03-01 08:00`, by the clock of a zone; on a minute."""
    try:
        instant = datetime.fromisoformat(text.strip())
        local = instant if instant.tzinfo else instant.replace(tzinfo=ZoneInfo(zone_name))
        found = int(local.astimezone(UTC).timestamp())
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{text!r} is no instant", where=at, remedy="Write 2026-03-01 or 2026-03-01T08:00:00Z."
        ) from error
    if found % 60 or found < 0:
        raise ConfigError(
            f"{text!r} is not on a minute", where=at, remedy="Write :00 for the seconds."
        )
    return found


def zone(text: str, *, at: str) -> str:
    """The IANA name of a zone that exists."""
    try:
        return ZoneInfo(text).key
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"{text!r} is no zone", where=at, remedy="Write an IANA name, such as Europe/Berlin."
        ) from error


def suggestion(name: str, known: Iterable[str]) -> str:
    """The way out of a misspelt name."""
    names = tuple(map(str, known))
    near = difflib.get_close_matches(name.lower()[:80], names, n=1)
    if near:
        return f"Did you mean {near[0]!r}?"
    further = ", …" if len(names) > _TOLD else ""
    return f"Use one of {', '.join(names[:_TOLD])}{further}."


def decimal_text(value: Fraction) -> str:
    """The shortest decimal that is exactly this; a fraction where none is."""
    digits = next((n for n in range(25) if (value * 10**n).denominator == 1), None)
    if digits is None:
        return str(value)
    whole, rest = divmod(int(value * 10**digits), 10**digits)
    return f"{whole}.{rest:0{digits}}" if digits else str(whole)


def share_text(share: Fraction) -> str:
    """`99.9%`."""
    return f"{decimal_text(share * 100)}%"


def duration_text(value_s: Fraction) -> str:
    """`1.5s`, `300ms` or `50us`."""
    for unit in ("s", "ms"):
        if value_s >= _UNITS_S[unit]:
            return decimal_text(value_s / _UNITS_S[unit]) + unit
    return decimal_text(value_s / _UNITS_S["us"]) + "us"


def period_text(value_s: int) -> str:
    """`30d` or `12h`."""
    return f"{value_s // DAY_S}d" if value_s % DAY_S == 0 else f"{value_s // 3600}h"


def seconds_text(value_s: int) -> str:
    """`2h`, `15min` or `90s`: a waiting time as `seconds` reads it."""
    for unit, length_s in (("d", DAY_S), ("h", 3600), ("min", 60)):
        if value_s and value_s % length_s == 0:
            return f"{value_s // length_s}{unit}"
    return f"{value_s}s"


def instant_text(at_s: int) -> str:
    """`2026-03-01T08:00:00Z`."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _number(text: str, *, at: str, remedy: str) -> tuple[Fraction, str]:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"{text!r} is no number with a unit", where=at, remedy=remedy)
    return Fraction(found[1]), found[2]
