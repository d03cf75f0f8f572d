"""The heartbeat: a call to a dead man's switch after every evaluation that really went through.

Really: the reader was read, minutes were judged and committed up to now, and no notification lies
undelivered for too long. Whatever stops that stops the heartbeat, and somebody else is called.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from alerts.life_settings import HeartbeatSettings
from alerts.loop import Loop
from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.post import Door
from alerts.tables import OutboxRow, PromiseRow

__all__ = ["Heartbeat"]

_LOG = logging.getLogger(__name__)
_SLACK_S = 180.0
"""A minute is judged when it has closed, and the sources may take another to close it."""


class Heartbeat:
    """Calls one URL. `problems` say what does not work in this process; one thread calls `tick`."""

    def __init__(
        self,
        settings: HeartbeatSettings,
        state: Engine,
        *,
        receivers: Sequence[str] = (),
        problems: Sequence[Callable[[], str | None]] = (),
        grace_s: float = 10.0,
    ) -> None:
        self._settings = settings
        self._state = state
        self._receivers = receivers
        self._problems = problems
        self._late_s = grace_s + _SLACK_S
        self._door = Door(timeout_s=settings.timeout_s, allow_private=settings.allow_private)
        self._next_s = float("-inf")
        self._held_back: str | None = None
        self._failed: str | None = None
        self._loop = Loop("heartbeat", self.tick)

    def run(
        self,
        stop: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
        cadence_s: float = 1.0,
    ) -> None:
        """Beats until told to stop."""
        try:
            self._loop.run(stop, clock=clock, cadence_s=cadence_s)
        finally:
            self._door.close()

    def problem(self) -> str | None:
        """Why the last beat did not get through, or was held back; None: it did."""
        if self._held_back is not None:
            return f"the heartbeat is held back: {self._held_back}"
        if self._failed is not None:
            return f"the heartbeat does not get through: {self._failed}"
        return self._loop.problem()

    def tick(self, now_s: float) -> bool:
        """Beats if it is time; whether it did and was heard."""
        if self._settings.url is None or now_s < self._next_s:
            return False
        self._next_s = now_s + self._settings.interval_s
        self._note_held_back(self._reason(now_s))
        if self._held_back is not None:
            return False
        attempt = self._call(self._settings.url.get_secret_value(), now_s)
        delivered = attempt.fate is Fate.DELIVERED
        if not delivered:
            _LOG.warning("the heartbeat does not get through: %s", attempt.detail)
            self._next_s = now_s + min(self._settings.interval_s, 10.0)
        self._failed = None if delivered else attempt.detail
        return delivered

    def _call(self, url: str, now_s: float) -> Attempt:
        if self._settings.method == "POST":
            return self._door.post(url, "", {}, now_s=now_s).attempt
        return self._door.get(url, {}, now_s=now_s).attempt

    def _note_held_back(self, reason: str | None) -> None:
        if reason is not None and reason != self._held_back:
            _LOG.warning("the heartbeat is held back: %s", reason)
        self._held_back = reason

    def _reason(self, now_s: float) -> str | None:
        """What is not as it should be between the data and the receivers."""
        for problem in self._problems:
            if (found := problem()) is not None:
                return found
        with Session(self._state) as session:
            return self._unjudged(session, now_s) or self._undelivered(session, now_s)

    def _unjudged(self, session: Session, now_s: float) -> str | None:
        oldest = session.execute(
            select(PromiseRow.objective_id, PromiseRow.evaluated_until_s)
            .where(PromiseRow.active, PromiseRow.evaluated_until_s < now_s - self._late_s)
            .order_by(PromiseRow.evaluated_until_s)
            .limit(1)
        ).first()
        if oldest is None:
            return None
        return f"{oldest[0]} has not been judged for {now_s - oldest[1]:.0f} s"

    def _undelivered(self, session: Session, now_s: float) -> str | None:
        waiting = session.scalar(
            select(func.count()).where(
                OutboxRow.done_at_s.is_(None),
                OutboxRow.receiver.in_(self._receivers),
                OutboxRow.created_at_s < now_s - self._settings.overdue_s,
            )
        )
        if not waiting:
            return None
        return f"{waiting} notifications are undelivered for {self._settings.overdue_s:.0f} s"
