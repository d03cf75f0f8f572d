"""What is written down when an alert changes: its row, its history, and one notification each.

All of it belongs into the transaction that changes the state, so that neither can be without the
other. Ids are made of identity and instant: the same change written again is the same rows.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts import message
from alerts.blame import Blame
from alerts.codec import blame_from, blame_text
from alerts.course import Course
from alerts.evaluate import Verdict
from alerts.incident import Change, Event, Incident, Tier
from alerts.settings import WebhookSettings
from alerts.tables import AlertEventRow, AlertRow, OutboxRow
from domain.labels import Labels

__all__ = ["VERSION", "Notice", "notice", "record", "refresh", "retire"]

VERSION = 1
"""Of the JSON body; raised when a field changes its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A change in words: `text` is one sentence, `detail` names stage, place and next step."""

    change: Change
    name: str
    text: str
    detail: str
    why: Sequence[str] = ()
    blame: Blame | None = None
    budget_remaining: float | None = None
    runbook: str = ""
    stage: str | None = None
    place: Labels | None = None
    next_step: str = ""

    @property
    def message(self) -> str:
        return f"{self.text} {self.detail}".strip()


def notice(course: Course, change: Change, blame: Blame | None) -> Notice:
    """The words for a change of this course's alerts."""
    objective, verdict = course.definition.objective, change.verdict
    accused = change.event is Event.FIRING and change.incident.tier is not Tier.NO_DATA
    allowed, spent = course.spending.allowed, course.spending.spent_high
    place = blame.place if blame else None
    return Notice(
        change=change,
        name=objective.name,
        runbook=objective.runbook,
        stage=blame.stage if blame else None,
        place=place.labels if place and place.stands_out else None,
        next_step=blame.next_step if blame else "",
        text=_sentence(course, change.incident, change.event, verdict, change.at_s),
        detail=message.accusation(blame) if accused else "",
        why=message.why(objective, verdict) if verdict else (),
        blame=blame,
        budget_remaining=float(1 - spent / allowed) if allowed else None,
    )


def record(
    session: Session, said: Notice, receivers: Sequence[WebhookSettings], *, link: str, now_s: float
) -> None:
    """The alert's row, its history, and what each receiver is to be told."""
    incident, at_s = said.change.incident, said.change.at_s
    row = session.get(AlertRow, incident.id)
    if row is None:
        row = _row(incident, said)
        session.add(row)
    row.told = incident.told
    row.message = said.message
    if said.change.event is Event.RESOLVED:
        row.resolved_at_s, row.stale = at_s, False
    session.flush()
    session.add(
        AlertEventRow(
            alert_id=incident.id, at_s=at_s, event=said.change.event.value, text=row.message
        )
    )
    if said.change.tell:
        body = _body(said, link)
        for receiver in receivers:
            if incident.severity in receiver.severities:
                _queue(session, receiver, said.change.event, body, now_s=now_s)


def refresh(session: Session, course: Course, incident: Incident, blame: Blame | None) -> None:
    """The open alert in today's words. Without a new blame the known one stays."""
    row = session.get(AlertRow, incident.id)
    if row is not None and (blame is None or blame.stage is None):
        blame = blame_from(row.blame)
    change = Change(
        incident=incident,
        event=Event.FIRING,
        at_s=course.evaluated_until_s,
        verdict=course.verdict_of(incident.tier),
        tell=False,
    )
    said = notice(course, change, blame)
    if row is None:  # an inhibited ticket: nobody has been told, but the page shows it
        row = _row(incident, said)
        session.add(row)
    row.stale, row.inhibited, row.told = incident.stale, incident.inhibited, incident.told
    row.message, row.why = said.message, json.dumps(list(said.why))
    row.blame = blame_text(blame)


def retire(
    session: Session,
    row: AlertRow,
    receivers: Sequence[WebhookSettings],
    *,
    at_s: int,
    now_s: float,
    why: str = "it is no longer promised",
) -> None:
    """Ends the alert of what is no longer promised or watched, and tells those who were told."""
    row.resolved_at_s, row.stale = at_s, False
    row.message = f"{row.objective_name} is over: {why}."
    event = Event.RESOLVED
    session.add(AlertEventRow(alert_id=row.id, at_s=at_s, event=event.value, text=row.message))
    said = {
        "version": VERSION,
        "event": event.value,
        "dedup_key": row.dedup_key,
        "alert_id": row.id,
        "objective": row.objective_name,
        "objective_id": row.objective_id,
        "severity": row.severity,
        "tier": row.tier,
        "text": row.message,
        "started_at": _rfc3339(row.started_at_s),
        "resolved_at": _rfc3339(at_s),
    }
    for receiver in receivers:
        if row.told and row.severity in receiver.severities:
            _queue(session, receiver, event, said, now_s=now_s)


def _sentence(
    course: Course, incident: Incident, event: Event, verdict: Verdict | None, at_s: int
) -> str:
    objective, started_s = course.definition.objective, incident.started_at_s
    if event is Event.RESOLVED:
        return message.resolved(objective, verdict, started_at_s=started_s, at_s=at_s)
    if verdict is None:
        return message.no_data(
            objective, incident.severity, observed_at_s=course.observed_at_s, at_s=at_s
        )
    return message.headline(
        objective,
        incident.severity,
        verdict,
        since_s=started_s,
        at_s=at_s,
        stale_since_s=course.observed_at_s if incident.stale else None,
    )


def _row(incident: Incident, said: Notice) -> AlertRow:
    return AlertRow(
        id=incident.id,
        objective_id=incident.objective_id,
        objective_name=said.name,
        tier=incident.tier.value,
        severity=incident.severity.value,
        dedup_key=incident.key,
        started_at_s=incident.started_at_s,
        resolved_at_s=None,
        told=incident.told,
        inhibited=incident.inhibited,
        stale=incident.stale,
        message=said.text,
        why=json.dumps(list(said.why)),
        blame=blame_text(said.blame),
    )


def _body(said: Notice, link: str) -> dict[str, Any]:
    incident, verdict = said.change.incident, said.change.verdict
    resolved = said.change.event is Event.RESOLVED
    return {
        "version": VERSION,
        "event": said.change.event.value,
        "dedup_key": incident.key,
        "alert_id": incident.id,
        "objective": said.name,
        "objective_id": incident.objective_id,
        "severity": incident.severity.value,
        "tier": incident.tier.value,
        "text": said.message,
        "counts": _counts(verdict) if verdict else None,
        "why": list(said.why),
        "budget_remaining": said.budget_remaining,
        "stage": said.stage,
        "place": dict(said.place) if said.place is not None else None,
        "next": said.next_step or None,
        "not_measured": list(said.blame.missing) if said.blame else [],
        "started_at": _rfc3339(incident.started_at_s),
        "resolved_at": _rfc3339(said.change.at_s) if resolved else None,
        "links": {
            "alert": f"{link}/alerts/{incident.id}",
            "objective": _about(incident, link),
            "runbook": said.runbook or None,
        },
    }


def _about(incident: Incident, link: str) -> str | None:
    """A condition is about no objective."""
    if incident.tier is Tier.CONDITION:
        return None
    return f"{link}/api/v1/slos/{incident.objective_id}"


def _counts(verdict: Verdict) -> dict[str, Any]:
    windows = {
        "long": (verdict.rule.long_s, verdict.long),
        "short": (verdict.rule.short_s, verdict.short),
    }
    return {
        name: {
            "window_s": span_s,
            "bad": counted.bad_low,
            "bad_possible": counted.bad_high,
            "total": counted.total,
        }
        for name, (span_s, counted) in windows.items()
    }


def _queue(
    session: Session,
    receiver: WebhookSettings,
    event: Event,
    body: dict[str, Any],
    *,
    now_s: float,
) -> None:
    identity = f"{body['alert_id']} {event.value} {receiver.name}"
    key = hashlib.sha256(identity.encode()).hexdigest()[:32]
    if session.scalar(select(OutboxRow.id).where(OutboxRow.key == key)) is not None:
        return
    session.add(
        OutboxRow(
            key=key,
            receiver=receiver.name,
            dedup_key=body["dedup_key"],
            body=json.dumps({**body, "idempotency_key": key}),
            created_at_s=now_s,
            next_at_s=now_s,
            attempts=0,
            done_at_s=None,
            outcome="waiting",
        )
    )
    session.flush()


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
