"""Acknowledgements: somebody has it, so nobody else is called; receivers that know of it hear so."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alerts.response import acknowledged
from alerts.tables import AlertRow, ResponseRow, writing
from alerts.telling import NOBODY, add_event, inform, response_of, told
from domain.errors import InputError

__all__ = ["Acknowledged", "Acknowledgements", "OverError", "let_go"]

_AUTHOR_LENGTH, _NOTE_LENGTH = 128, 1000


class OverError(InputError):
    """The alert has ended, so that nobody needs to have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Acknowledged:
    """Who takes it. `source`: the receivers where it was said, who need not hear of it."""

    by: str
    note: str = ""
    until_s: int | None = None
    source: tuple[str, ...] = ()


class Acknowledgements:
    """Those of a state; any process may write them."""

    def __init__(self, state: Engine) -> None:
        self._state = state

    def give(self, alert_id: str, said: Acknowledged, *, now_s: float) -> bool:
        """Somebody takes the alert, from whoever had it; False: there is no such alert."""
        _check(said, now_s)
        with writing(self._state) as session, session.begin():
            row = _open(session, alert_id)
            if row is None:
                return False
            response = response_of(session, row, NOBODY)
            response.acknowledged_by = said.by.strip()
            response.note = said.note.strip()
            response.acknowledged_at_s = int(now_s)
            response.acknowledged_until_s = said.until_s
            response.waiting_since_s = None
            _tell(session, row, response, said, now_s=now_s)
        return True

    def withdraw(self, alert_id: str, *, by: str, now_s: float, why: str = "") -> bool:
        """Nobody has it any more; False: there is no such alert."""
        with writing(self._state) as session, session.begin():
            row = _open(session, alert_id)
            if row is None:
                return False
            response = session.get(ResponseRow, row.id)
            if response is not None and acknowledged(response):
                text = f"Unacknowledged by {by}{f': {why}' if why else '.'}"
                let_go(session, row, response, text, at_s=int(now_s), author=by)
        return True


def let_go(
    session: Session,
    row: AlertRow,
    response: ResponseRow,
    text: str,
    *,
    at_s: int,
    author: str = "",
) -> None:
    """Nobody has it from now on, and the wait for somebody begins anew."""
    response.acknowledged_at_s = response.acknowledged_until_s = None
    response.acknowledged_by = response.note = ""
    if response.silence_id is None and told(session, row.id):
        response.waiting_since_s = at_s
        response.round += 1
        response.steps = 0
    add_event(session, row.id, "unacknowledged", text, at_s=at_s, author=author)


def _open(session: Session, alert_id: str) -> AlertRow | None:
    row = session.get(AlertRow, alert_id)
    if row is not None and row.resolved_at_s is not None:
        raise OverError(
            "is over", where=f"alert {alert_id!r}", remedy="There is nothing to take on."
        )
    return row


def _tell(
    session: Session, row: AlertRow, response: ResponseRow, said: Acknowledged, *, now_s: float
) -> None:
    text = f"Acknowledged by {response.acknowledged_by}"
    if said.until_s is not None:
        text += f" until {_rfc3339(said.until_s)}"
    text += f": {response.note.rstrip('. ')}." if response.note else "."
    number = add_event(
        session, row.id, "acknowledged", text, at_s=int(now_s), author=response.acknowledged_by
    )
    body = {
        **json.loads(response.body),
        "event": "acknowledged",
        "dedup_key": row.dedup_key,
        "alert_id": row.id,
        "objective": row.objective_name,
        "objective_id": row.objective_id,
        "severity": row.severity,
        "tier": row.tier,
        "text": f"{text} {row.message}",
        "acknowledged": {
            "by": response.acknowledged_by,
            "note": response.note,
            "until": None if said.until_s is None else _rfc3339(said.until_s),
        },
    }
    names = [name for name in told(session, row.id) if name not in said.source]
    inform(session, names, body, f"{row.id} acknowledged {number}", now_s=now_s)


def _check(said: Acknowledged, now_s: float) -> None:
    problem = ""
    if not said.by.strip() or len(said.by) > _AUTHOR_LENGTH:
        problem = f"needs an author of at most {_AUTHOR_LENGTH} characters"
    elif len(said.note) > _NOTE_LENGTH:
        problem = f"has a note of more than {_NOTE_LENGTH} characters"
    elif said.until_s is not None and said.until_s <= now_s:
        problem = "runs out before it begins"
    if problem:
        remedy = "Say who takes it; a note and an end in the future may follow."
        raise InputError(problem, where="acknowledgement", remedy=remedy)


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
