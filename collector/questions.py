"""Questions as people type them, checked: what the API and the command line have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from collector.query import Selection, Series, Window
from collector.times import duration_s, label_names, labels_asked, window
from domain.errors import InputError

__all__ = [
    "MOST_POINTS",
    "MOST_QUANTILES",
    "MOST_REQUESTS",
    "checked",
    "limit",
    "quantiles",
    "selection",
    "trace",
]

MOST_POINTS = 11_000
"""Steps of one series in one answer."""

MOST_QUANTILES = 100
MOST_REQUESTS = 10_000
_MOST_IN_ALL = 200_000


def selection(
    *,
    since: str,
    until: str,
    step: str | None,
    where: Iterable[str],
    by: Iterable[str],
    now_s: float,
) -> Selection:
    """Which series, how grouped, in which steps."""
    asked = window(since, until, now_s=now_s)
    step_s = None if step is None else duration_s(step, name="step")
    if step_s is not None:
        _check_steps(asked, step_s)
    return Selection(window=asked, where=labels_asked(where), by=label_names(by), step_s=step_s)


def quantiles(texts: Iterable[str]) -> list[float]:
    """`0.5,0.99`, each between 0 and 1, ascending order not needed."""
    found = []
    for text in (part.strip() for each in texts for part in each.split(",")):
        try:
            q = float(text)
        except ValueError:
            q = -1.0
        if not 0 < q <= 1:
            raise InputError(
                f"{text!r} is no quantile",
                where="q",
                remedy="Use numbers above 0 and up to 1, such as 0.5,0.95,0.99.",
            )
        found.append(q)
    wanted = list(dict.fromkeys(found))
    if len(wanted) > MOST_QUANTILES:
        raise InputError(
            f"{len(wanted)} quantiles",
            where="q",
            remedy=f"Ask for up to {MOST_QUANTILES} at a time.",
        )
    return wanted


def limit(asked: int) -> int:
    """How many requests at most."""
    if not 1 <= asked <= MOST_REQUESTS:
        raise InputError(
            f"{asked} requests", where="limit", remedy=f"Ask for 1 to {MOST_REQUESTS}."
        )
    return asked


def trace(text: str) -> bytes:
    """A trace id: 32 hexadecimal digits."""
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != 16:
        raise InputError(
            f"{text!r} is no trace id", where="trace_id", remedy="Use its 32 hexadecimal digits."
        )
    return found


def checked(series: Sequence[Series]) -> Sequence[Series]:
    """The same, unless it is too much for one answer."""
    points = sum(len(each.points) for each in series)
    if points > _MOST_IN_ALL:
        raise InputError(
            f"{len(series)} series have {points} points, and an answer holds {_MOST_IN_ALL}",
            where="by",
            remedy="Use a longer step, a shorter window, or `where`.",
        )
    return series


def _check_steps(asked: Window, step_s: int) -> None:
    length_s = asked.until_s - asked.since_s
    if length_s > step_s * MOST_POINTS:
        raise InputError(
            f"steps of {step_s} s make {length_s // step_s} points, and a series has up to {MOST_POINTS}",
            where="step",
            remedy=f"Use a step of {-(-length_s // MOST_POINTS)} s or more.",
        )
