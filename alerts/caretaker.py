"""The caretaker: what becomes of an open alert after its first word, until its last.

A silence that begins mutes it; one that ends while it still fires lets it be told again. An
acknowledgement runs out. Where nobody acknowledges, further receivers are told, step by step. Every
step is one transaction with its notifications, and each is numbered: a kill repeats none.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alerts.acknowledgement import let_go
from alerts.loop import Loop
from alerts.response import acknowledged
from alerts.silence import Silence, active, first_covering
from alerts.tables import AlertRow, ResponseRow, writing
from alerts.telling import about, add_event, inform, mute, tell_round, told
from domain.labels import labels_of

__all__ = ["Caretaker"]


class Caretaker:
    """Looks after open alerts, of promises and of engines alike. One thread calls `tick`."""

    def __init__(self, state: Engine, *, wake: Callable[[], None] = lambda: None) -> None:
        self._state = state
        self._wake = wake
        self._loop = Loop("caretaker", self.tick)

    def run(
        self,
        stop: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
        cadence_s: float = 1.0,
    ) -> None:
        """Ticks until told to stop."""
        self._loop.run(stop, clock=clock, cadence_s=cadence_s)

    def problem(self) -> str | None:
        """Why nobody looks after alerts now, or None."""
        return self._loop.problem()

    def tick(self, now_s: float) -> bool:
        """One look at all open alerts; whether anything was due."""
        with Session(self._state) as session:
            waits = any(True for _ in _due(session, now_s))
        if not waits:
            return False
        with writing(self._state) as session, session.begin():
            for step in list(_due(session, now_s)):
                step()
        self._wake()
        return True


def _due(session: Session, now_s: float) -> Sequence[Callable[[], None]]:
    """What is to be done for each open alert now, at most one thing each."""
    silences = active(session, now_s)
    found = session.execute(
        select(AlertRow, ResponseRow)
        .join(ResponseRow, ResponseRow.alert_id == AlertRow.id)
        .where(AlertRow.resolved_at_s.is_(None))
        .order_by(AlertRow.started_at_s, AlertRow.id)
    ).all()
    steps = (_step(session, row, response, silences, now_s) for row, response in found)
    return [each for each in steps if each is not None]


def _step(
    session: Session,
    row: AlertRow,
    response: ResponseRow,
    silences: Sequence[Silence],
    now_s: float,
) -> Callable[[], None] | None:
    held = about(row, labels_of(json.loads(response.labels)))
    covers = [each for each in silences if each.covers(held)]
    silence = first_covering(covers, held)
    until_s = response.acknowledged_until_s
    if until_s is not None and until_s <= now_s:
        return lambda: _run_out(session, row, response, now_s)
    if silence is not None and response.silence_id not in [each.id for each in covers]:
        return lambda: mute(session, row, response, silence, at_s=int(now_s))
    if silence is None and response.silence_id is not None and not row.inhibited:
        return lambda: _unmute(session, row, response, now_s)
    if _escalates(row, response, now_s):
        return lambda: _escalate(session, row, response, now_s)
    return None


def _run_out(session: Session, row: AlertRow, response: ResponseRow, now_s: float) -> None:
    text = f"The acknowledgement of {response.acknowledged_by} has run out."
    let_go(session, row, response, text, at_s=int(now_s))


def _unmute(session: Session, row: AlertRow, response: ResponseRow, now_s: float) -> None:
    """Nothing silences it any more: it is told again, unless somebody has it."""
    response.silence_id = None
    at_s, known = int(now_s), told(session, row.id)
    add_event(session, row.id, "unsilenced", "The silence is over, and it still fires.", at_s=at_s)
    if acknowledged(response) or response.body == "{}":
        return
    response.body = json.dumps({**json.loads(response.body), "text": row.message})
    if known:
        response.round += 1
        add_event(session, row.id, "renotified", row.message, at_s=at_s)
    tell_round(session, row, response, now_s=now_s)


def _escalates(row: AlertRow, response: ResponseRow, now_s: float) -> bool:
    steps = json.loads(response.escalation)
    if response.waiting_since_s is None or row.inhibited or acknowledged(response):
        return False
    if response.silence_id is not None or response.steps >= len(steps):
        return False
    return bool(now_s >= response.waiting_since_s + steps[response.steps][0])


def _escalate(session: Session, row: AlertRow, response: ResponseRow, now_s: float) -> None:
    after_s, names = json.loads(response.escalation)[response.steps]
    identity = f"{row.id} escalated {response.round} {response.steps}"
    response.steps += 1
    text = f"Nobody acknowledged for {_span(after_s)}; told: {', '.join(names)}."
    add_event(session, row.id, "escalated", text, at_s=int(now_s))
    body = {**json.loads(response.body), "event": "escalated", "text": f"{text} {row.message}"}
    inform(session, names, body, identity, now_s=now_s)


def _span(seconds: int) -> str:
    return f"{seconds // 60} min" if seconds >= 60 and seconds % 60 == 0 else f"{seconds} s"
