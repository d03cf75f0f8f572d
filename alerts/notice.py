"""What is written down when an alert changes: its row, its history, and one notification each.

All of it belongs into the transaction that changes the state, so that neither can be without the
other. Ids are made of identity and instant: the same change written again is the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from alerts import message, runbook, wording
from alerts.blame import Blame, stage_metric
from alerts.codec import blame_from, blame_text
from alerts.course import Course
from alerts.evaluate import Verdict
from alerts.incident import Change, Event, Incident, Tier
from alerts.receivers.words import own_summary
from alerts.tables import AlertRow
from alerts.telling import (
    NOBODY,
    Audience,
    Receiver,
    Step,
    add_event,
    audience_of,
    tell,
    tell_end,
)
from domain.labels import Labels
from domain.objective import Severity

__all__ = ["VERSION", "Notice", "notice", "record", "refresh", "retire"]

VERSION = 1
"""Of the JSON body; raised when a field changes its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """A change in words: `text` is one sentence, `detail` names stage, place and next step.

    `diagnosis`: up to three lines, the likeliest cause first. `summary`: the promise's own template.
    """

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
    audience: Audience = NOBODY
    summary: str = ""
    diagnosis: Sequence[str] = ()

    @property
    def message(self) -> str:
        return f"{self.text} {self.detail}".strip()


def notice(course: Course, change: Change, blame: Blame | None) -> Notice:
    """The words for a change of this course's alerts."""
    objective, verdict = course.now.objective, change.verdict
    allowed, spent = course.spending.allowed, course.spending.spent_high
    place = blame.place if blame else None
    return Notice(
        change=change,
        name=objective.name,
        runbook=objective.runbook,
        stage=blame.stage if blame else None,
        place=place.labels if place and place.stands_out else None,
        next_step=blame.next_step if blame else wording.look(objective.indicator),
        text=_sentence(course, change.incident, change.event, verdict, change.at_s),
        detail=_detail(course, change, blame),
        why=message.why(objective, verdict) if verdict else (),
        blame=blame,
        budget_remaining=float(1 - spent / allowed) if allowed else None,
        audience=audience_of(course.definition),
        summary=course.definition.summary,
    )


def _detail(course: Course, change: Change, blame: Blame | None) -> str:
    """What is at fault, of promises on requests' stages; where to look next, of the others."""
    if change.event is not Event.FIRING or change.incident.tier not in (Tier.PAGE, Tier.TICKET):
        return ""
    indicator = course.definition.objective.indicator
    if stage_metric(indicator) is None:
        return f"Next: {wording.look(indicator)}."
    return message.accusation(blame)


def record(
    session: Session,
    said: Notice,
    receivers: Sequence[Receiver],
    *,
    link: str,
    now_s: float,
    escalation: Sequence[Step] = (),
) -> None:
    """The alert's row, its history, and what each receiver is to be told.

    `escalation` is for pages whose promise says nothing of it.
    """
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
    event = said.change.event
    add_event(session, row.id, event.value, row.message, at_s=at_s)
    if not said.change.tell:
        return
    if event is Event.RESOLVED:
        tell_end(session, row, _body(said, link), receivers, now_s=now_s)
    else:
        audience = said.audience
        if incident.severity is Severity.PAGE:
            audience = audience.escalated_by(escalation)
        tell(session, row, _body(said, link), receivers, audience, now_s=now_s)


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
    receivers: Sequence[Receiver],
    *,
    at_s: int,
    now_s: float,
    why: str = "it is no longer promised",
) -> None:
    """Ends the alert of what is no longer promised or watched, and tells those who were told."""
    row.resolved_at_s, row.stale = at_s, False
    row.message = f"{row.objective_name} is over: {why}."
    event = Event.RESOLVED
    add_event(session, row.id, event.value, row.message, at_s=at_s)
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
    tell_end(session, row, said, receivers, now_s=now_s)


def _sentence(
    course: Course, incident: Incident, event: Event, verdict: Verdict | None, at_s: int
) -> str:
    objective, started_s = course.now.objective, incident.started_at_s
    if incident.level is not None:
        left = course.budget.of_period_low
        if event is Event.RESOLVED:
            return message.budget_back(objective, incident.level, left)
        return message.budget_low(objective, incident.level, left, since_s=started_s, at_s=at_s)
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
    body = {
        "version": VERSION,
        "event": said.change.event.value,
        "dedup_key": incident.key,
        "alert_id": incident.id,
        "objective": said.name,
        "objective_id": incident.objective_id,
        "severity": incident.severity.value,
        "tier": incident.tier.value,
        "text": said.message,
        "stale": incident.stale,
        "labels": dict(said.audience.labels),
        "receivers": list(said.audience.receivers),
        "diagnosis": list(said.diagnosis)[:3],
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
            "runbook": said.runbook or _our_runbook(incident, link),
        },
    }
    return {**body, "summary": own_summary(said.summary, body)}


def _our_runbook(incident: Incident, link: str) -> str:
    return runbook.address(link, runbook.anchor_of(incident.tier, incident.objective_id))


def _about(incident: Incident, link: str) -> str | None:
    """A condition is about no objective."""
    if incident.tier is Tier.CONDITION:
        return None
    return f"{link}/objectives/{incident.objective_id}"


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


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
