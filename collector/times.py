"""Instants, durations and label pairs as people type them, for the API and the command line alike.

Instants are RFC 3339 (`2026-11-29T12:00:00Z`), relative (`now`, `now-1h30m`) or seconds since 1970.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from datetime import UTC, datetime

from collector.query import Window
from domain.errors import InputError
from domain.labels import LABEL_NAMES, Labels

__all__ = [
    "duration_s",
    "instant_at",
    "instant_s",
    "label_names",
    "labels_asked",
    "rfc3339",
    "window",
]

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"(\d+[smhdw])+")
_PART = re.compile(r"(\d+)([smhdw])")
_RELATIVE = re.compile(r"now(?:([+-])(.+))?")
_LAST_S = 8_000_000_000  # the year 2223: beyond lies what was meant as milliseconds
_INSTANT = "Use RFC 3339 such as 2026-11-29T12:00:00Z, now-1h, or seconds since 1970."


def instant_s(text: str, *, now_s: float, name: str = "time") -> float:
    """Seconds since 1970."""
    asked = text.strip()
    if relative := _RELATIVE.fullmatch(asked):
        sign, rest = relative.groups()
        if sign is None:
            return now_s
        return max(now_s + (1 if sign == "+" else -1) * duration_s(rest, name=name), 0.0)
    try:
        seconds = float(asked)
    except ValueError:
        seconds = _absolute_s(asked, name)
    if not 0 <= seconds < _LAST_S:
        raise InputError(
            f"{text!r} is no instant between the years 1970 and 2223", where=name, remedy=_INSTANT
        )
    return seconds


def instant_at(text: str, now_s: float) -> float:
    """The same of a parameter `at`."""
    return instant_s(text, now_s=now_s, name="at")


def duration_s(text: str, *, name: str = "duration") -> int:
    """Whole seconds, more than 0: `90`, `90s`, `5m`, `1h30m`, `2d`, `1w`."""
    asked = text.strip()
    if asked.isascii() and asked.isdigit():
        seconds = int(asked)
    elif _DURATION.fullmatch(asked):
        seconds = sum(int(count) * _UNITS_S[unit] for count, unit in _PART.findall(asked))
    else:
        seconds = 0
    if not 0 < seconds < _LAST_S:
        raise InputError(
            f"{text!r} is no duration",
            where=name,
            remedy="Use whole seconds, minutes, hours, days or weeks, such as 90s, 5m or 1h30m.",
        )
    return seconds


def window(since: str, until: str, *, now_s: float) -> Window:
    """The window between two instants, widened outward to whole seconds."""
    since_s = math.floor(instant_s(since, now_s=now_s, name="from"))
    until_s = math.ceil(instant_s(until, now_s=now_s, name="to"))
    if until_s <= since_s:
        raise InputError(
            f"the window ends at {rfc3339(until_s)} and begins at {rfc3339(since_s)}",
            where="to",
            remedy="Give a `to` that is later than `from`.",
        )
    return Window(since_s=since_s, until_s=until_s)


def labels_asked(pairs: Iterable[str]) -> Labels:
    """`label=value` pairs, sorted. An empty value asks for the label to be absent."""
    asked: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise InputError(
                f"{pair!r} is no pair", where="where", remedy="Use label=value: service=chat."
            )
        _check_label(name.strip(), where="where")
        if asked.setdefault(name.strip(), value.strip()) != value.strip():
            raise InputError(
                f"{name.strip()} is asked for twice, with different values",
                where="where",
                remedy="Ask once for each value.",
            )
    return tuple(sorted(asked.items()))


def label_names(names: Iterable[str], *, where: str = "by") -> tuple[str, ...]:
    """Names of labels, each once, also where several stand behind commas."""
    found = [name.strip() for text in names for name in text.split(",") if name.strip()]
    for name in found:
        _check_label(name, where=where)
    return tuple(dict.fromkeys(found))


def rfc3339(at_s: float) -> str:
    """An instant in UTC, to the second."""
    return datetime.fromtimestamp(math.floor(at_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _absolute_s(text: str, name: str) -> float:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{text!r} is no instant", where=name, remedy=_INSTANT) from error
    if instant.tzinfo is None:
        raise InputError(
            f"{text!r} does not say in which zone",
            where=name,
            remedy="Append Z for UTC or an offset such as +02:00.",
        )
    return instant.timestamp()


def _check_label(name: str, *, where: str) -> None:
    if name not in LABEL_NAMES:
        near = difflib.get_close_matches(name, LABEL_NAMES, n=1)
        meant = f"Did you mean {near[0]!r}?" if near else f"Labels: {', '.join(LABEL_NAMES)}."
        raise InputError(f"{name!r} is no label", where=where, remedy=meant)
