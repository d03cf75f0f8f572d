"""An outbox filled by hand, and a clock that goes only when it is told to."""

import json

from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.receivers.samples import sample
from alerts.tables import OutboxRow, writing
from alerts.telling import queue

__all__ = ["START_S", "Clock", "events", "put", "rows"]

START_S = 1_772_366_940.0


class Clock:
    """Seconds since the epoch, by hand."""

    def __init__(self, now_s=START_S):
        self.now_s = now_s

    def __call__(self):
        return self.now_s

    def run(self, couriers, until_s, *, at=(), step_s=0.0):
        """Lets couriers do what is due, and steps on, by `step_s` at least."""
        todo = sorted(at, key=lambda each: each[0])
        while self.now_s < until_s:
            while todo and todo[0][0] <= self.now_s:
                todo.pop(0)[1]()
            self.now_s += max(step_s, min(courier.deliver(self) for courier in couriers))


def put(state, receiver, kind="firing", *, alert="chat-ttft-page-1", now_s=START_S, **changes):
    """One notification for one receiver."""
    body = sample(kind) | {"alert_id": alert, "dedup_key": f"key of {alert}"} | changes
    with writing(state) as session, session.begin():
        queue(session, receiver, body, f"{alert} {kind} {receiver} {changes}", now_s=now_s)


def rows(state, table=OutboxRow):
    """All of a table, in order."""
    with Session(state) as session:
        return list(session.scalars(select(table).order_by(table.id)))


def events(state, receiver):
    """What one receiver was to hear, with what became of it."""
    return [
        (json.loads(row.body)["tier"], json.loads(row.body)["event"], row.outcome)
        for row in rows(state)
        if row.receiver == receiver
    ]
