"""The alarm about a receiver: the others are told when one cannot be told, and when it can again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from alerts import runbook
from alerts.receivers.settings import CommonSettings
from alerts.tables import MetaRow, OutboxRow
from alerts.telling import queue

__all__ = ["TIER", "lower", "raised", "sound"]

TIER = "receiver"
"""The tier of these alarms; there is never one about one of them."""

_SENTENCE = 300


def raised(session: Session, name: str) -> bool:
    """Whether others know already that this one cannot be told."""
    return session.get(MetaRow, _place(name)) is not None


def sound(
    session: Session,
    row: OutboxRow,
    receiver: CommonSettings,
    others: Sequence[CommonSettings],
    *,
    detail: str,
    now_s: float,
) -> None:
    """Tells the others what this one was not told; once, until it can be told again."""
    body = json.loads(row.body)
    if body.get("tier") == TIER or not others or raised(session, receiver.name):
        return
    severity = str(body.get("severity", "page"))
    fitting = [each for each in others if severity in each.severities] or list(others)
    names = [each.name for each in fitting]
    said = _body(receiver.name, body, detail=detail, row=row, now_s=now_s)
    for name in names:
        queue(session, name, said, f"{said['alert_id']} firing {name}", now_s=now_s)
    kept = json.dumps({"names": names, "body": said})
    session.add(MetaRow(key=_place(receiver.name), value=kept))


def lower(session: Session, receiver: CommonSettings, *, now_s: float) -> None:
    """Tells those who heard of it that this one can be told again."""
    row = session.get(MetaRow, _place(receiver.name))
    if row is None:
        return
    kept = json.loads(row.value)
    said = kept["body"] | {
        "event": "resolved",
        "text": f"Receiver {receiver.name} can be told again.",
        "next": None,
        "resolved_at": _rfc3339(now_s),
    }
    for name in kept["names"]:
        queue(session, name, said, f"{said['alert_id']} resolved {name}", now_s=now_s)
    session.delete(row)


def _body(
    name: str, lost: Mapping[str, Any], *, detail: str, row: OutboxRow, now_s: float
) -> dict[str, Any]:
    sentence = str(lost.get("text") or lost.get("objective") or lost.get("alert_id"))[:_SENTENCE]
    tried = "was given up" if row.done_at_s is not None else f"has failed {row.attempts} times"
    advice = f"look at receiver {name}: stagewatch alerts test-receiver {name}"
    return {
        "version": 1,
        "event": "firing",
        "dedup_key": hashlib.sha256(_place(name).encode()).hexdigest()[:32],
        "alert_id": f"receiver-{name}-{int(now_s)}",
        "objective": f"receiver {name}",
        "objective_id": None,
        "severity": lost.get("severity", "page"),
        "tier": TIER,
        "text": f"Receiver {name} could not be told: {detail}; it {tried}. It was to hear: "
        f"{sentence} Next: {advice}.",
        "stale": False,
        "labels": lost.get("labels") or {},
        "receivers": [],
        "diagnosis": [],
        "counts": None,
        "why": [],
        "budget_remaining": None,
        "stage": None,
        "place": None,
        "next": advice,
        "not_measured": [],
        "started_at": _rfc3339(now_s),
        "resolved_at": None,
        "links": _links((lost.get("links") or {}).get("alert")),
        "summary": "",
    }


def _links(alert: str | None) -> dict[str, str | None]:
    """The alert that was to be told, and what to do about the receiver."""
    pages_url, inside, _ = (alert or "").partition("/alerts/")
    ours = runbook.address(pages_url, runbook.RECEIVER) if inside else None
    return {"alert": alert, "objective": None, "runbook": ours}


def _place(name: str) -> str:
    return f"alarm {name}"[:64]


def _rfc3339(at_s: float) -> str:
    return datetime.fromtimestamp(int(at_s), UTC).isoformat().replace("+00:00", "Z")
