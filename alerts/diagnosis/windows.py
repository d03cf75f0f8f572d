"""Which minutes are looked at, and with which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alerts.diagnosis.promises import Promised
from alerts.diagnosis.signals import Baseline
from collector.query import Reader, Selection, Window
from domain.slice import MINUTE_S

__all__ = ["Looked", "around", "look"]

_HOUR_S = 3600
_WEEK_S = 7 * 24 * _HOUR_S
_LONGEST_S = 900
_SHORTEST_S = 120
_FEWEST = 5
_OVER = 2.0
"""A minute is bad when so many times the allowed share of its requests is."""
_COMPARABLE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """The window, the baseline (None: there is none), and the promises broken in it, worst first.

    `burning`: an alert fires, whatever the promise is on.
    """

    now: Window
    before: Window | None
    baseline: Baseline
    broken: tuple[Promised, ...] = ()
    burning: bool = False


def look(reader: Reader, service: str, promised: Sequence[Promised], at_s: int) -> Looked:
    """From the first bad minute up to `at_s`; where none is bad, the quarter of an hour before it."""
    bad = {promise: _bad_minutes(reader, promise, at_s) for promise in promised}
    begin_s = min(
        (began for minutes in bad.values() if (began := _onset(minutes, at_s))), default=0
    )
    if not begin_s:
        begin_s = at_s - _LONGEST_S
        now = Window(since_s=begin_s, until_s=at_s)
        return _compared(reader, service, now, begin_s, ())
    since_s = max(min(begin_s, at_s - _SHORTEST_S), at_s - _LONGEST_S)
    broken = sorted(
        (promise for promise, minutes in bad.items() if _onset(minutes, at_s)),
        key=lambda each: -max(bad[each].values()) / max(each.allowed, 1e-6),
    )
    now = Window(since_s=since_s, until_s=at_s)
    return _compared(reader, service, now, begin_s, tuple(broken))


def around(
    reader: Reader, service: str, now: Window, calm_until_s: int, broken: Sequence[Promised]
) -> Looked:
    """The same where the burning minutes are known already, as they are when a page goes out."""
    return replace(_compared(reader, service, now, calm_until_s, tuple(broken)), burning=True)


def _compared(
    reader: Reader, service: str, now: Window, begin_s: int, broken: tuple[Promised, ...]
) -> Looked:
    """The same hour last week where it had traffic, else the calm hour before.

    Each is cut to the time in which anybody told of the service: rates are of that.
    """
    calm = Window(since_s=begin_s - _HOUR_S, until_s=begin_s)
    recent = Window(since_s=calm.since_s, until_s=max(now.until_s, begin_s))
    told_s = _told_since(reader, service, recent)
    now = _cut(now, told_s) or now
    hour_s = now.since_s // _HOUR_S * _HOUR_S - _WEEK_S
    week = Window(since_s=hour_s, until_s=hour_s + _HOUR_S)
    for whole, name in ((week, Baseline.WEEK), (calm, Baseline.CALM)):
        since_s = told_s if whole is calm else _told_since(reader, service, whole)
        if (window := _cut(whole, since_s)) is None:
            continue
        asked = Selection(window=window, where=(("service", service),))
        told = reader.latency("e2e", asked)
        if sum(point.distribution.n for each in told for point in each.points) >= _COMPARABLE:
            return Looked(now=now, before=window, baseline=name, broken=broken)
    return Looked(now=now, before=None, baseline=Baseline.NONE, broken=broken)


def _told_since(reader: Reader, service: str, window: Window) -> int | None:
    """From when on the service was watched in a window; None: it was not."""
    told = reader.freshness(window, service=service)
    begun = [each.since_s for each in told if each.service == service]
    return min((each for each in begun if each is not None), default=None)


def _cut(window: Window, told_s: int | None) -> Window | None:
    """The part of a window in which the service was watched; None: hardly any."""
    if told_s is None or told_s > window.until_s - MINUTE_S:
        return None
    return Window(since_s=max(told_s, window.since_s), until_s=window.until_s)


def _bad_minutes(reader: Reader, promise: Promised, at_s: int) -> dict[int, float]:
    """The share of bad requests of each minute of the last quarter of an hour that has enough."""
    window = Window(since_s=at_s - _LONGEST_S, until_s=at_s)
    asked = Selection(window=window, where=promise.where, step_s=MINUTE_S)
    counts: dict[int, tuple[int, int]] = {}
    for series in reader.latency(promise.metric, asked):
        for point in series.points:
            bad, total = promise.bad(point.distribution, point.failed)
            known = counts.get(point.since_s, (0, 0))
            counts[point.since_s] = known[0] + bad, known[1] + total
    return {
        at: bad / total
        for at, (bad, total) in counts.items()
        if total >= _FEWEST and bad >= 2 and bad / total > _OVER * promise.allowed
    }


def _onset(bad: dict[int, float], at_s: int) -> int:
    """Where the run of bad minutes that reaches the end began; one good minute in it is forgiven.

    0 where the last minutes are good. A single bad minute is the luck of a few requests.
    """
    if len(bad) < 2:
        return 0
    begin_s, latest_s = 0, at_s
    for minute_s in sorted(bad, reverse=True):
        if latest_s - minute_s > 3 * MINUTE_S:
            break
        begin_s = latest_s = minute_s
    return begin_s if begin_s and sum(each >= begin_s for each in bad) >= 2 else 0
