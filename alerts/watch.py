"""The watch: conditions of engines as alerts, looked at every second, beside the minutes of promises.

State, alert and outbox change in one transaction, as they do for promises; the same states, stable
keys, and delivery. What nobody confirms any more goes on and says *stale*; it ends when the
contrary is seen, or when nobody has heard of the place for a day.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alerts import watch_records
from alerts.incident import Change, Event, Incident, Tier
from alerts.loop import Loop
from alerts.notice import Notice, record, retire
from alerts.settings import AlertsSettings
from alerts.state import Status, Timers, after_condition
from alerts.tables import AlertRow, writing
from alerts.telling import Audience
from alerts.watch_records import Watched
from collector.query import Reader, Selection, Window
from domain.condition import (
    FRESH_S,
    Condition,
    ConditionKind,
    condition_id,
    condition_name,
    next_step,
    sentence,
)
from domain.labels import labels_of, value_of
from domain.objective import Severity

__all__ = ["STAGE", "Watch"]

STAGE = "engine"
"""What a condition is to be blamed on: no stage of a request, but who serves it."""

_REFRESH_S = 5
_GAUGES = {ConditionKind.STALLED: "engine_stalled", ConditionKind.DOWN: "up"}


class Watch:
    """Looks at conditions, and tells of those that begin and end. One thread calls `tick`."""

    def __init__(
        self,
        reader: Reader,
        state: Engine,
        *,
        settings: AlertsSettings | None = None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        self._reader = reader
        self._state = state
        self._settings = settings or AlertsSettings()
        self._wake = wake
        self._watched: dict[str, Watched] | None = None
        self._written_s: dict[str, int] = {}
        self._loop = Loop("watch", self.tick)

    @property
    def severities(self) -> Mapping[ConditionKind, Severity]:
        """What is watched, and how loudly."""
        asked = self._settings.conditions
        told = {
            ConditionKind.STALLED: asked.engine_stalled,
            ConditionKind.DOWN: asked.target_down,
        }
        return {kind: severity for kind, severity in told.items() if severity is not None}

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
        """Why nothing is watched now, or None."""
        return self._loop.problem()

    def tick(self, now_s: float) -> list[Change]:
        """One look at all conditions; what began and what ended."""
        try:
            if self._watched is None:
                self._watched = self._load(now_s)
            return self._look(self._watched, now_s)
        except BaseException:
            self._watched = None  # why: memory may be ahead of the tables
            raise

    def _load(self, now_s: float) -> dict[str, Watched]:
        with writing(self._state) as session, session.begin():
            known = watch_records.load(session)
            gone = [each for each in known.values() if each.condition.kind not in self.severities]
            for each in gone:
                row = session.get(AlertRow, each.incident.id) if each.incident else None
                if row is not None:
                    retire(
                        session,
                        row,
                        self._settings.receivers,
                        at_s=int(now_s),
                        now_s=now_s,
                        why="it is no longer watched",
                    )
            watch_records.drop(session, [each.id for each in gone])
        self._written_s = {}
        return {name: each for name, each in known.items() if each not in gone}

    def _look(self, known: dict[str, Watched], now_s: float) -> list[Change]:
        at_s = int(now_s)
        told = {
            condition_id(each.kind, each.labels): each
            for each in self._reader.conditions(at_s, kinds=tuple(self.severities))
        }
        before = {name: known.get(name) or _new(name, each) for name, each in told.items()} | known
        after = {name: self._after(each, told.get(name), at_s) for name, each in before.items()}
        notices = [
            said
            for name, each in after.items()
            if (said := _notice(before[name], each, at_s)) is not None
        ]
        self._write(before, after, notices, now_s)
        self._watched = {name: each for name, each in after.items() if _stands(each)}
        if notices:
            self._wake()
        return [each.change for each in notices]

    def _after(self, watched: Watched, told: Condition | None, at_s: int) -> Watched:
        """Where it stands after this look."""
        condition = told or watched.condition
        holds = self._holds(condition, told, at_s)
        gone = at_s - condition.seen_at_s > self._settings.conditions.forget_after_s
        if holds is False and not condition.over:
            condition = replace(condition, over_at_s=max(at_s, condition.seen_at_s))
        is_down = condition.kind is ConditionKind.DOWN
        timers = Timers(for_s=self._settings.conditions.down_after_s if is_down else 0)
        alert = after_condition(watched.alert, timers, holds=False if gone else holds, at_s=at_s)
        if (
            alert.status is Status.PENDING
            and holds is None
            and at_s - condition.seen_at_s > FRESH_S
        ):
            alert = replace(alert, status=Status.QUIET, since_s=None, stale=False)
        incident = watched.incident
        if alert.open:
            severity = self.severities[condition.kind]
            incident = replace(
                incident or _opened(watched.id, severity, at_s), stale=alert.stale, told=True
            )
        return replace(watched, condition=condition, alert=alert, incident=incident)

    def _holds(self, condition: Condition, told: Condition | None, at_s: int) -> bool | None:
        """None: nobody says so, and nobody says the contrary."""
        if told is not None:
            return None if told.stale(at_s) else not told.over
        return False if self._well(condition, at_s) else None

    def _well(self, condition: Condition, at_s: int) -> bool:
        """Whether the place has just said that nothing is wrong: it was, too long ago to be told."""
        place = {
            name: value_of(condition.labels, name) for name in ("service", "replica", "source")
        }
        window = Window(since_s=at_s - FRESH_S, until_s=at_s + 1)
        found = self._reader.numbers(
            _GAUGES[condition.kind], Selection(window=window, where=labels_of(place))
        )
        last = [each.points[-1].last for each in found if each.points]
        if not last:
            return False
        return last[0] >= 1 if condition.kind is ConditionKind.DOWN else last[0] < 1

    def _write(
        self,
        before: Mapping[str, Watched],
        after: Mapping[str, Watched],
        notices: Sequence[Notice],
        now_s: float,
    ) -> None:
        """All that changed, in one transaction; what merely goes on, now and then."""
        at_s = int(now_s)
        due = [
            each
            for name, each in after.items()
            if _standing(before[name]) != _standing(each)
            or (_stands(each) and at_s - self._written_s.get(name, 0) >= _REFRESH_S)
        ]
        if not due:
            return
        link = self._settings.public_url.rstrip("/")
        with writing(self._state) as session, session.begin():
            watch_records.save(session, [each for each in due if each.alert.status is not _QUIET])
            watch_records.drop(session, [each.id for each in due if each.alert.status is _QUIET])
            for said in notices:
                record(
                    session,
                    said,
                    self._settings.receivers,
                    link=link,
                    now_s=now_s,
                    escalation=self._settings.escalation,
                )
            for each in due:
                _refresh(session, each, at_s)
        self._written_s |= {each.id: at_s for each in due}


_QUIET = Status.QUIET


def _new(name: str, condition: Condition) -> Watched:
    return Watched(id=name, condition=condition)


def _stands(watched: Watched) -> bool:
    return watched.alert.open or watched.alert.status is Status.PENDING


def _standing(watched: Watched) -> tuple[Status, bool]:
    return watched.alert.status, watched.alert.stale


def _opened(name: str, severity: Severity, at_s: int) -> Incident:
    return Incident(
        objective_id=name,
        tier=Tier.CONDITION,
        severity=severity,
        key=hashlib.sha256(f"condition {name}".encode()).hexdigest()[:32],
        started_at_s=at_s,
    )


def _notice(before: Watched, after: Watched, at_s: int) -> Notice | None:
    """What receivers are to hear of a change, if it is one."""
    incident = after.incident
    if incident is None or before.alert.open == after.alert.open:
        return None
    event = Event.FIRING if after.alert.open else Event.RESOLVED
    firing = event is Event.FIRING
    return Notice(
        change=Change(incident=incident, event=event, at_s=at_s, verdict=None),
        name=condition_name(after.condition),
        text=_text(after, at_s),
        detail=f"Next: {next_step(after.condition)}." if firing else "",
        stage=STAGE,
        place=after.condition.labels,
        next_step=next_step(after.condition) if firing else "",
        audience=Audience(labels=after.condition.labels),
    )


def _text(watched: Watched, at_s: int) -> str:
    condition = watched.condition
    if not watched.alert.open and not condition.over:
        return (
            f"{condition_name(condition)} is over: nobody has heard of it for a long time, "
            "well or not."
        )
    return sentence(condition, at_s=at_s)


def _refresh(session: Session, watched: Watched, at_s: int) -> None:
    """The open alert in today's words."""
    row = session.get(AlertRow, watched.incident.id) if watched.incident else None
    if row is not None and watched.alert.open:
        row.stale = watched.alert.stale
        row.message = f"{_text(watched, at_s)} Next: {next_step(watched.condition)}."
