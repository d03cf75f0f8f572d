"""The delivery log: what was sent to whom, what came of it, and how each receiver is doing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from alerts.tables import AttemptRow, OutboxRow

__all__ = ["Doing", "Sent", "Try", "deliveries", "doing_json", "receivers", "sent_json"]

_MOST_TRIES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Try:
    """One attempt."""

    at_s: float
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """One notification for one receiver, with its last attempts, the newest last."""

    id: int
    receiver: str
    event: str
    alert_id: str
    objective: str
    outcome: str
    attempts: int
    created_at_s: float
    done_at_s: float | None
    tries: Sequence[Try]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doing:
    """How a receiver is doing: what waits for it since when, and its last attempt."""

    receiver: str
    waiting: int
    waiting_since_s: float | None
    last: Try | None
    delivered_at_s: float | None


def deliveries(
    state: Engine, *, receiver: str | None = None, alert_id: str | None = None, limit: int = 100
) -> list[Sent]:
    """The newest notifications first."""
    chosen = select(OutboxRow).order_by(OutboxRow.id.desc())
    if receiver is not None:
        chosen = chosen.where(OutboxRow.receiver == receiver)
    if alert_id is not None:
        quoted = f'"alert_id": {json.dumps(alert_id)}'
        chosen = chosen.where(func.instr(OutboxRow.body, quoted) > 0) if _lite(state) else (
            chosen.where(func.strpos(OutboxRow.body, quoted) > 0)
        )  # fmt: skip
    with Session(state) as session:
        rows = list(session.scalars(chosen.limit(limit)))
        return [_sent(row, _tries(session, row.id)) for row in rows]


def receivers(state: Engine) -> list[Doing]:
    """Every receiver that was ever to be told something, by name."""
    with Session(state) as session:
        names = session.scalars(select(OutboxRow.receiver).distinct().order_by(OutboxRow.receiver))
        return [_doing(session, name) for name in list(names)]


def sent_json(sent: Sent) -> dict[str, Any]:
    """One delivery, as the API and `--format json` give it."""
    return {
        "id": sent.id,
        "receiver": sent.receiver,
        "event": sent.event,
        "alert_id": sent.alert_id,
        "objective": sent.objective,
        "outcome": sent.outcome,
        "attempts": sent.attempts,
        "created_at": _rfc3339(sent.created_at_s),
        "done_at": _rfc3339(sent.done_at_s),
        "tries": [_try_json(each) for each in sent.tries],
    }


def doing_json(doing: Doing) -> dict[str, Any]:
    """One receiver's state."""
    failing = doing.last is not None and doing.last.outcome != "delivered"
    return {
        "name": doing.receiver,
        "state": "failing" if failing else "well",
        "waiting": doing.waiting,
        "waiting_since": _rfc3339(doing.waiting_since_s),
        "last": None if doing.last is None else _try_json(doing.last),
        "delivered_at": _rfc3339(doing.delivered_at_s),
    }


def _doing(session: Session, name: str) -> Doing:
    waits = select(func.count(), func.min(OutboxRow.created_at_s)).where(
        OutboxRow.receiver == name, OutboxRow.done_at_s.is_(None)
    )
    count, since_s = session.execute(waits).one()
    last = session.scalars(
        select(AttemptRow)
        .join(OutboxRow, OutboxRow.id == AttemptRow.outbox_id)
        .where(OutboxRow.receiver == name)
        .order_by(AttemptRow.id.desc())
        .limit(1)
    ).first()
    delivered_at_s = session.scalar(
        select(func.max(OutboxRow.done_at_s)).where(
            OutboxRow.receiver == name, OutboxRow.outcome == "delivered"
        )
    )
    return Doing(
        receiver=name,
        waiting=count,
        waiting_since_s=since_s,
        last=None if last is None else _try(last),
        delivered_at_s=delivered_at_s,
    )


def _tries(session: Session, outbox_id: int) -> list[Try]:
    rows = session.scalars(
        select(AttemptRow)
        .where(AttemptRow.outbox_id == outbox_id)
        .order_by(AttemptRow.id.desc())
        .limit(_MOST_TRIES)
    )
    return [_try(row) for row in reversed(list(rows))]


def _sent(row: OutboxRow, tries: Sequence[Try]) -> Sent:
    said = json.loads(row.body)
    return Sent(
        id=row.id,
        receiver=row.receiver,
        event=str(said.get("event", "")),
        alert_id=str(said.get("alert_id", "")),
        objective=str(said.get("objective", "")),
        outcome=row.outcome,
        attempts=row.attempts,
        created_at_s=row.created_at_s,
        done_at_s=row.done_at_s,
        tries=tries,
    )


def _try(row: AttemptRow) -> Try:
    return Try(at_s=row.at_s, outcome=row.outcome, detail=row.detail)


def _try_json(each: Try) -> dict[str, Any]:
    return {"at": _rfc3339(each.at_s), "outcome": each.outcome, "detail": each.detail}


def _lite(state: Engine) -> bool:
    return state.dialect.name == "sqlite"


def _rfc3339(at_s: float | None) -> str | None:
    if at_s is None:
        return None
    return (
        datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    )
