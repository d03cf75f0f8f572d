"""A trial of a receiver: a notification through an outbox of its own, and what became of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.courier import Courier
from alerts.receivers.attempt import Fate
from alerts.receivers.opening import opened
from alerts.receivers.settings import ReceiverSettings
from alerts.tables import AttemptRow, open_state, writing
from alerts.telling import queue

__all__ = ["Trial", "trial"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One notification of the trial."""

    event: str
    outcome: str
    detail: str
    took_s: float

    @property
    def arrived(self) -> bool:
        return self.outcome == Fate.DELIVERED.value


def trial(
    settings: ReceiverSettings, body: Mapping[str, Any], *, clock: Callable[[], float]
) -> list[Trial]:
    """Tells it, and where it would stay open, its end."""
    state = open_state("sqlite://")
    receiver = opened(settings)
    courier = Courier(state, receiver)
    at_s = int(clock())
    told = {**body, "alert_id": f"test-{at_s}", "dedup_key": f"stagewatch-test-{at_s}"}
    events = (body["event"], "resolved") if settings.closes else (body["event"],)
    found: list[Trial] = []
    try:
        for event in events:
            with writing(state) as session, session.begin():
                queue(session, settings.name, told | {"event": event}, event, now_s=clock())
            began_s = time.perf_counter()
            courier.deliver(clock)
            found.append(_outcome(state, event, time.perf_counter() - began_s))
            if not found[-1].arrived:
                break
    finally:
        receiver.close()
        state.dispose()
    return found


def _outcome(state: Any, event: str, took_s: float) -> Trial:
    with Session(state) as session:
        last = session.scalars(select(AttemptRow).order_by(AttemptRow.id.desc()).limit(1)).one()
        return Trial(event=event, outcome=last.outcome, detail=last.detail, took_s=took_s)
