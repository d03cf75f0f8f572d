"""A courier: carries the notifications of one receiver, each alert's in order, and keeps the log."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import Engine, select, update
from sqlalchemy.orm import Session

from alerts import receiver_alarm
from alerts.breaker import CLOSED, Breaker
from alerts.receivers.attempt import Attempt, Fate, Receiver
from alerts.receivers.settings import CommonSettings
from alerts.tables import AlertRow, AttemptRow, MetaRow, OutboxRow, ReceiptRow, writing
from domain.own_work import Kind, own_work

__all__ = ["Courier", "backoff_s"]

_LOG = logging.getLogger(__name__)
_IDLE_S = 1.0
_FIRST_S = 1.0
_LONGEST_S = 60.0
_LEASE_S = 1.0  # beyond the patience for one attempt; after a kill it is sent again then
_LOUD = frozenset({"firing", "escalated", "renotified"})


def backoff_s(attempts: int, asked_s: float | None) -> float:
    """How long to wait after so many failed attempts; never less than the receiver asked for."""
    own_s = min(_FIRST_S * 2.0 ** min(attempts - 1, 10), _LONGEST_S)
    return max(own_s, asked_s or 0.0)


class _Open(NamedTuple):
    """A notification that is yet to be sent."""

    id: int
    next_at_s: float


class Courier:
    """Belongs to one thread. `others` are told when this receiver cannot be."""

    def __init__(
        self, state: Engine, receiver: Receiver, others: Sequence[CommonSettings] = ()
    ) -> None:
        self._state = state
        self._receiver = receiver
        self._others = others
        self._name = receiver.settings.name
        self._breaker: Breaker = CLOSED
        self._again_at_s = 0.0
        self._asked_key = f"asked {hashlib.sha256(self._name.encode()).hexdigest()[:48]}"

    @property
    def breaker(self) -> Breaker:
        """How the receiver is doing."""
        return self._breaker

    def deliver(self, clock: Callable[[], float]) -> float:
        """Sends what is due; seconds until something else may be."""
        while self._breaker.allows(clock()) and (row := self._claim(clock())) is not None:
            attempt = self._send(row.body, row.key, clock())
            self._note(row.id, attempt, clock())
        self._repeat(clock())
        return self._wait_s(clock())

    def _send(self, body: str, key: str, now_s: float) -> Attempt:
        with Session(self._state) as session:
            kept = session.get(ReceiptRow, (self._name, _alert_of(body)))
            receipt = "" if kept is None else kept.receipt
        about = {"stagewatch.receiver": self._name}
        with own_work(f"notify {self._receiver.settings.type}", about, Kind.CLIENT) as piece:
            attempt = self._receiver.send(body, key=key, now_s=now_s, receipt=receipt)
            piece.tell("stagewatch.fate", attempt.fate.value)
        return attempt

    def _open(self, session: Session) -> Sequence[_Open]:
        """The first undone notification of each alert identity, oldest first."""
        rows = session.execute(
            select(OutboxRow.id, OutboxRow.dedup_key, OutboxRow.next_at_s)
            .where(OutboxRow.receiver == self._name, OutboxRow.done_at_s.is_(None))
            .order_by(OutboxRow.id)
        )
        first: dict[str, _Open] = {}
        for row_id, dedup_key, next_at_s in rows:
            first.setdefault(dedup_key, _Open(row_id, next_at_s))
        return list(first.values())

    def _claim(self, now_s: float) -> OutboxRow | None:
        """The next that is due, if no other process is sending it; for a while it is ours alone."""
        with Session(self._state) as session:
            if now_s < self._asked_until_s(session):
                return None
            due = next((row for row in self._open(session) if row.next_at_s <= now_s), None)
            found = None if due is None else session.get(OutboxRow, due.id)
        if due is None or found is None:
            return None
        until_s = now_s + self._receiver.settings.timeout_s + _LEASE_S
        seen = (OutboxRow.id == due.id) & (OutboxRow.next_at_s == due.next_at_s)
        with writing(self._state) as session, session.begin():
            taken = session.scalar(
                update(OutboxRow)
                .where(seen, OutboxRow.done_at_s.is_(None))
                .values(next_at_s=until_s)
                .returning(OutboxRow.id)
            )
        return found if taken is not None else None

    def _wait_s(self, now_s: float) -> float:
        """A receiver that is left in peace costs not even a look into the outbox."""
        if not self._breaker.allows(now_s):
            return min(max(self._breaker.until_s - now_s, 0.01), _IDLE_S)
        with Session(self._state) as session:
            due_s = min((row.next_at_s for row in self._open(session)), default=now_s + _IDLE_S)
            due_s = max(due_s, self._asked_until_s(session))
        return min(max(due_s - now_s, 0.01), _IDLE_S)

    def _asked_until_s(self, session: Session) -> float:
        """Until when the receiver asked to be left alone: whichever process asks, of any alert."""
        row = session.get(MetaRow, self._asked_key)
        return 0.0 if row is None else float(row.value)

    def _note(self, row_id: int, attempt: Attempt, now_s: float) -> None:
        settings = self._receiver.settings
        self._breaker = self._breaker.after(attempt, now_s)
        detail = attempt.detail + (" (left in peace for a while)" if self._breaker.open else "")
        with writing(self._state) as session, session.begin():
            row = session.get_one(OutboxRow, row_id)
            row.attempts += 1
            row.next_at_s = now_s + backoff_s(row.attempts, attempt.retry_after_s)
            age_s = now_s - row.created_at_s
            late = attempt.fate is Fate.RETRY and age_s > settings.give_up_after_s
            row.outcome = outcome = "given up" if late else attempt.fate.value
            if row.outcome != Fate.RETRY.value:
                row.done_at_s = now_s
            session.add(AttemptRow(outbox_id=row_id, at_s=now_s, outcome=outcome, detail=detail))
            if attempt.retry_after_s:
                until_s = now_s + attempt.retry_after_s
                session.merge(MetaRow(key=self._asked_key, value=str(until_s)))
            if attempt.fate is Fate.DELIVERED:
                self._keep(session, row.body, attempt.receipt)
                receiver_alarm.lower(session, settings, now_s=now_s)
            elif row.done_at_s is not None or age_s > settings.alarm_after_s:
                receiver_alarm.sound(
                    session, row, settings, self._others, detail=attempt.detail, now_s=now_s
                )
        if outcome != Fate.DELIVERED.value:
            _LOG.warning(
                "receiver %s, notification %s: %s (%s)", self._name, row_id, outcome, detail
            )

    def _keep(self, session: Session, body: str, receipt: str) -> None:
        alert_id = _alert_of(body)
        if receipt and alert_id:
            session.merge(ReceiptRow(receiver=self._name, alert_id=alert_id, receipt=receipt))

    def _repeat(self, now_s: float) -> None:
        """What still fires, once more, where silence is taken for its end."""
        every_s = self._receiver.settings.again_every_s
        if every_s is None or now_s < self._again_at_s or not self._breaker.allows(now_s):
            return
        self._again_at_s = now_s + every_s
        for body, key in self._firing():
            attempt = self._send(body, key, now_s)
            if attempt.fate is not Fate.DELIVERED:
                _LOG.warning(
                    "receiver %s: what fires is not repeated (%s)", self._name, attempt.detail
                )
                self._breaker = self._breaker.after(attempt, now_s)
                return

    def _firing(self) -> list[tuple[str, str]]:
        """The last loud word of each open alert that has arrived, with its key."""
        with Session(self._state) as session:
            rows = session.execute(
                select(OutboxRow.body, OutboxRow.key)
                .join(AlertRow, AlertRow.dedup_key == OutboxRow.dedup_key)
                .where(
                    AlertRow.resolved_at_s.is_(None),
                    OutboxRow.created_at_s >= AlertRow.started_at_s,
                    OutboxRow.receiver == self._name,
                    OutboxRow.outcome == Fate.DELIVERED.value,
                )
                .order_by(OutboxRow.id)
            )
            loud = {
                said["dedup_key"]: (row.body, row.key)
                for row in rows
                if (said := json.loads(row.body))["event"] in _LOUD
            }
        return list(loud.values())


def _alert_of(body: str) -> str:
    return str(json.loads(body).get("alert_id") or "")
