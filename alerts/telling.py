"""Who is told of an alert: its receivers, unless a silence mutes it; and who hears of its end.

All of it belongs into the transaction that changes the alert. A key is made of identity alone, so
that the same notification written again is the same row.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.definition import Definition
from alerts.silence import Silence, active, first_covering, subject
from alerts.tables import AlertEventRow, AlertRow, OutboxRow, ResponseRow, ToldRow
from domain.labels import Labels, labels_of

__all__ = [
    "NOBODY",
    "Audience",
    "Receiver",
    "Step",
    "about",
    "add_event",
    "audience_of",
    "inform",
    "mute",
    "queue",
    "response_of",
    "tell",
    "tell_end",
    "tell_round",
    "told",
]


class Receiver(Protocol):
    """What is to be known of a receiver to choose it."""

    @property
    def name(self) -> str: ...

    @property
    def severities(self) -> Sequence[str]: ...


class Step(Protocol):
    """Who is told when nobody has acknowledged for so long."""

    @property
    def after_s(self) -> int: ...

    @property
    def receivers(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Audience:
    """Whom an alert concerns. `receivers`: names, none: all but those who are told later only."""

    labels: Labels = ()
    receivers: tuple[str, ...] = ()
    escalation: tuple[Step, ...] = ()

    def first(self, receivers: Iterable[Receiver], severity: str) -> list[str]:
        """The names of those who are told at once: somebody always is, if there is anybody."""
        loud = [each.name for each in receivers if severity in each.severities]
        later = {name for step in self.escalation for name in step.receivers}
        named = [name for name in loud if name in self.receivers]
        return named if self.receivers else [name for name in loud if name not in later] or loud

    def escalated_by(self, default: Sequence[Step]) -> Audience:
        """The same with these steps, where it has none of its own."""
        return self if self.escalation else replace(self, escalation=tuple(default))


NOBODY = Audience()


def audience_of(definition: Definition) -> Audience:
    """Whom a promise concerns; its own labels go before what it selects by."""
    where = definition.objective.indicator.where
    return Audience(
        labels=labels_of({**dict(where), **dict(definition.labels)}),
        receivers=definition.receivers,
        escalation=definition.escalation,
    )


def tell(
    session: Session,
    row: AlertRow,
    body: Mapping[str, Any],
    receivers: Sequence[Receiver],
    audience: Audience,
    *,
    now_s: float,
) -> None:
    """The first word of an alert, to those whom it concerns; muted, it is told when that ends."""
    response = response_of(session, row, audience)
    response.receivers = json.dumps(audience.first(receivers, row.severity))
    response.body = json.dumps(body)
    silence = first_covering(active(session, now_s), about(row, audience.labels))
    if silence is not None:
        mute(session, row, response, silence, at_s=int(now_s))
    else:
        tell_round(session, row, response, now_s=now_s)


def tell_round(session: Session, row: AlertRow, response: ResponseRow, *, now_s: float) -> None:
    """What fires, to those who are to hear of it first: the first time, or anew."""
    body = json.loads(response.body) | ({"event": "renotified"} if response.round else {})
    again = f" {response.round}" if response.round else ""
    for name in json.loads(response.receivers):
        _inform(session, name, body, f"{row.id} firing {name}{again}", now_s=now_s)
    response.waiting_since_s = int(now_s)
    response.steps = 0


def tell_end(
    session: Session,
    row: AlertRow,
    body: Mapping[str, Any],
    receivers: Sequence[Receiver],
    *,
    now_s: float,
) -> None:
    """The end, to those who were told of the beginning, whatever is silenced meanwhile."""
    response = session.get(ResponseRow, row.id)
    names = told(session, row.id)
    if response is None and row.told:  # it began before anybody wrote down who was told
        names = [each.name for each in receivers if row.severity in each.severities]
    known = {each.name for each in receivers}
    for name in names:
        if name in known:
            queue(session, name, body, f"{row.id} resolved {name}", now_s=now_s)
    if response is not None:
        response.waiting_since_s, response.silence_id = None, None


def inform(
    session: Session,
    names: Iterable[str],
    body: Mapping[str, Any],
    identity: str,
    *,
    now_s: float,
) -> None:
    """Something else that happened to it, to each of these; from now on they know of it."""
    for name in names:
        _inform(session, name, body, f"{identity} {name}", now_s=now_s)


def mute(
    session: Session, row: AlertRow, response: ResponseRow, silence: Silence, *, at_s: int
) -> None:
    """From now on a silence covers it: nobody is told, and nobody waited for."""
    response.silence_id = silence.id
    response.waiting_since_s = None
    text = f"Silenced by {silence.author} ({silence.id}): {silence.reason}"
    add_event(session, row.id, "silenced", text, at_s=at_s, author=silence.author)


def told(session: Session, alert_id: str) -> list[str]:
    """The receivers that know of an alert, in the order in which they learnt of it."""
    rows = session.scalars(
        select(ToldRow).where(ToldRow.alert_id == alert_id).order_by(ToldRow.at_s, ToldRow.receiver)
    )
    return [row.receiver for row in rows]


def response_of(session: Session, row: AlertRow, audience: Audience) -> ResponseRow:
    """What is kept of what became of it; made where it is missing."""
    found = session.get(ResponseRow, row.id)
    if found is not None:
        return found
    response = ResponseRow(
        alert_id=row.id,
        labels=json.dumps(dict(audience.labels)),
        receivers="[]",
        escalation=json.dumps([[each.after_s, each.receivers] for each in audience.escalation]),
        body="{}",
        round=0,
        steps=0,
        acknowledged_by="",
        note="",
    )
    session.add(response)
    session.flush()
    return response


def about(row: AlertRow, labels: Labels) -> dict[str, str]:
    """What the matchers of silences are held against."""
    return subject(
        labels,
        objective_id=row.objective_id,
        severity=row.severity,
        tier=row.tier,
        name=row.objective_name,
        dedup_key=row.dedup_key,
    )


def add_event(
    session: Session, alert_id: str, event: str, text: str, *, at_s: int, author: str = ""
) -> int:
    """One line of an alert's history, and its number."""
    row = AlertEventRow(alert_id=alert_id, at_s=at_s, event=event, text=text, author=author)
    session.add(row)
    session.flush()
    return row.id


def queue(
    session: Session, receiver: str, body: Mapping[str, Any], identity: str, *, now_s: float
) -> None:
    """One notification for one receiver, if it does not lie there already."""
    key = hashlib.sha256(identity.encode()).hexdigest()[:32]
    if session.scalar(select(OutboxRow.id).where(OutboxRow.key == key)) is not None:
        return
    session.add(
        OutboxRow(
            key=key,
            receiver=receiver,
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


def _inform(
    session: Session, name: str, body: Mapping[str, Any], identity: str, *, now_s: float
) -> None:
    queue(session, name, body, identity, now_s=now_s)
    if session.get(ToldRow, (body["alert_id"], name)) is None:
        session.add(ToldRow(alert_id=body["alert_id"], receiver=name, at_s=now_s))
        session.flush()
