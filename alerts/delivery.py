"""The outbox, emptied: one thread per receiver, so that a dead one delays nobody else.

Notifications of one alert go out in order. What was not answered is sent again with the same key;
a receiver that keeps the key sees each notification once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from alerts.settings import WebhookSettings
from alerts.tables import AttemptRow, OutboxRow, writing
from alerts.webhook import Attempt, Fate, Webhook

__all__ = ["Courier", "Delivery", "backoff_s"]

_LOG = logging.getLogger(__name__)
_IDLE_S = 1.0
_FIRST_S = 1.0
_LONGEST_S = 60.0
_LEASE_S = 1.0  # beyond the patience for one attempt; after a kill it is sent again then


def backoff_s(attempts: int, asked_s: float | None) -> float:
    """How long to wait after so many failed attempts; never less than the receiver asked for."""
    own_s = min(_FIRST_S * 2.0 ** min(attempts - 1, 10), _LONGEST_S)
    return max(own_s, asked_s or 0.0)


class Courier:
    """Carries the notifications of one receiver."""

    def __init__(self, state: Engine, webhook: Webhook) -> None:
        self._state = state
        self._webhook = webhook

    def deliver(self, clock: Callable[[], float]) -> float:
        """Sends what is due; seconds until something else may be."""
        while (row := self._claim(clock())) is not None:
            attempt = self._webhook.send(row.body, key=row.key, now_s=clock())
            self._note(row.id, attempt, clock())
        return self._wait_s(clock())

    def _open(self, session: Session) -> Sequence[OutboxRow]:
        """The first undone notification of each alert identity, oldest first."""
        rows = session.scalars(
            select(OutboxRow)
            .where(OutboxRow.receiver == self._webhook.settings.name, OutboxRow.done_at_s.is_(None))
            .order_by(OutboxRow.id)
        )
        first: dict[str, OutboxRow] = {}
        for row in rows:
            first.setdefault(row.dedup_key, row)
        return list(first.values())

    def _claim(self, now_s: float) -> OutboxRow | None:
        """The next that is due, if no other process is sending it; for a while it is ours alone."""
        with Session(self._state) as session:
            due = next((row for row in self._open(session) if row.next_at_s <= now_s), None)
        if due is None:
            return None
        until_s = now_s + self._webhook.settings.timeout_s + _LEASE_S
        seen = (OutboxRow.id == due.id) & (OutboxRow.next_at_s == due.next_at_s)
        with writing(self._state) as session, session.begin():
            taken = session.scalar(
                update(OutboxRow)
                .where(seen, OutboxRow.done_at_s.is_(None))
                .values(next_at_s=until_s)
                .returning(OutboxRow.id)
            )
        return due if taken is not None else None

    def _wait_s(self, now_s: float) -> float:
        with Session(self._state) as session:
            due_s = min((row.next_at_s for row in self._open(session)), default=now_s + _IDLE_S)
        return min(max(due_s - now_s, 0.01), _IDLE_S)

    def _note(self, row_id: int, attempt: Attempt, now_s: float) -> None:
        with writing(self._state) as session, session.begin():
            row = session.get_one(OutboxRow, row_id)
            row.attempts += 1
            row.next_at_s = now_s + backoff_s(row.attempts, attempt.retry_after_s)
            row.outcome = attempt.fate.value
            age_s = now_s - row.created_at_s
            if attempt.fate is Fate.RETRY and age_s > self._webhook.settings.give_up_after_s:
                row.outcome = "given up"
            if row.outcome != Fate.RETRY.value:
                row.done_at_s = now_s
            detail = attempt.detail
            session.add(
                AttemptRow(outbox_id=row_id, at_s=now_s, outcome=row.outcome, detail=detail)
            )
            outcome = row.outcome
        if outcome != Fate.DELIVERED.value:
            name = self._webhook.settings.name
            _LOG.warning("receiver %s, notification %s: %s (%s)", name, row_id, outcome, detail)


class Delivery:
    """A thread for each receiver; `wake` after something was put into the outbox."""

    def __init__(
        self,
        state: Engine,
        receivers: Sequence[WebhookSettings],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._clock = clock
        self._stopped = False
        self._wakes = [threading.Event() for _ in receivers]
        self._threads = [
            threading.Thread(
                target=self._carry,
                args=(settings, wake),
                name=f"receiver {settings.name}",
                daemon=True,
            )
            for settings, wake in zip(receivers, self._wakes, strict=True)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Something new lies in the outbox."""
        for wake in self._wakes:
            wake.set()

    def close(self, timeout_s: float = 2.0) -> None:
        """Stops; a request under way is not waited for: its notification is sent again."""
        self._stopped = True
        self.wake()
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(until_s - time.monotonic(), 0.0))

    def _carry(self, settings: WebhookSettings, wake: threading.Event) -> None:
        webhook = Webhook(settings)
        courier = Courier(self._state, webhook)
        while not self._stopped:
            wake.clear()
            try:
                wait_s = courier.deliver(self._clock)
            except Exception:  # noqa: BLE001 - why all: a receiver whose thread ended hears of nothing more
                _LOG.exception("receiver %s: a delivery failed; it is tried again", settings.name)
                wait_s = _IDLE_S
            if not self._stopped:
                wake.wait(wait_s)
        webhook.close()
