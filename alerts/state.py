"""What becomes of an alert when a verdict arrives: pending, firing, recovering, resolved.

Only an observation changes anything. A minute that nobody saw leaves state and timers alone and
marks what is open as stale.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from alerts.evaluate import Reason, Verdict

__all__ = [
    "AT_ONCE",
    "QUIET",
    "Alert",
    "Status",
    "Timers",
    "after",
    "after_condition",
    "after_silence",
]


class Status(StrEnum):
    """The life of an alert, in order."""

    QUIET = "quiet"
    PENDING = "pending"
    FIRING = "firing"
    RECOVERING = "recovering"
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timers:
    """How long it must burn before it fires, and how long it fires on after the burn has ended."""

    for_s: int = 0
    keep_firing_s: int = 0


AT_ONCE = Timers()


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Where one rule stands. `since_s`: pending, firing or resolved since then."""

    status: Status = Status.QUIET
    since_s: int | None = None
    last_true_s: int | None = None
    stale: bool = False

    @property
    def open(self) -> bool:
        """Somebody has been told, and has not been told that it is over."""
        return self.status in (Status.FIRING, Status.RECOVERING)

    @property
    def settled(self) -> bool:
        """Nothing is going on: only a burn changes it."""
        return self.status in (Status.QUIET, Status.RESOLVED) and not self.stale


QUIET = Alert()


def after(alert: Alert, verdict: Verdict, timers: Timers, *, at_s: int) -> Alert:
    """The alert after the minute that ended at `at_s`."""
    if verdict.reason is Reason.NOT_OBSERVED or not verdict.observed:
        return replace(alert, stale=alert.open or alert.status is Status.PENDING)
    burning = verdict.reason is Reason.BURNING or (alert.open and verdict.holds)
    return _after(replace(alert, stale=False), timers, burning=burning, at_s=at_s)


def after_silence(
    alert: Alert, timers: Timers, *, observed: bool, known: bool, live: bool, at_s: int
) -> Alert:
    """The no-data alert: nobody has been looking, at a promise somebody used to look at.

    `live` is False for minutes that we slept through: our own absence says nothing of the source.
    """
    if not observed and not live:
        return alert
    return _after(alert, timers, burning=known and not observed, at_s=at_s)


def after_condition(alert: Alert, timers: Timers, *, holds: bool | None, at_s: int) -> Alert:
    """The alert after a look at a condition; None: nobody says whether it holds."""
    if holds is None:
        return replace(alert, stale=alert.open or alert.status is Status.PENDING)
    seen = replace(alert, stale=False) if alert.stale else alert
    return _after(seen, timers, burning=holds, at_s=at_s)


def _after(alert: Alert, timers: Timers, *, burning: bool, at_s: int) -> Alert:
    if burning:
        return _burning(alert, timers, at_s=at_s)
    if alert.open:
        last_true_s = at_s if alert.last_true_s is None else alert.last_true_s
        if at_s - last_true_s < timers.keep_firing_s:
            return replace(alert, status=Status.RECOVERING)
        return replace(alert, status=Status.RESOLVED, since_s=at_s)
    if alert.status is Status.PENDING:
        return replace(alert, status=Status.QUIET, since_s=None)
    return alert


def _burning(alert: Alert, timers: Timers, *, at_s: int) -> Alert:
    pending_s = alert.since_s if alert.status is Status.PENDING else None
    begun_s = at_s if pending_s is None else pending_s
    status, since_s = Status.PENDING, alert.since_s
    if alert.open:
        status = Status.FIRING
    elif at_s - begun_s >= timers.for_s:
        status, since_s = Status.FIRING, at_s
    else:
        since_s = begun_s
    # why not replace: a long outage is as many of these as it has minutes and rules
    return Alert(status=status, since_s=since_s, last_true_s=at_s, stale=alert.stale)
