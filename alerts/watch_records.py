"""What the watch keeps: where the alert of each condition stands, with its open incident."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from alerts.incident import Incident, Tier
from alerts.records import incident_from, upsert
from alerts.state import QUIET, Alert, Status
from alerts.tables import AlertRow, ConditionRow
from domain.condition import Condition, ConditionKind
from domain.labels import labels_of

__all__ = ["Watched", "condition_from", "condition_text", "drop", "load", "save"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """One condition of one place: as last told, where its alert stands, its incident while open."""

    id: str
    condition: Condition
    alert: Alert = QUIET
    incident: Incident | None = None


def load(session: Session) -> dict[str, Watched]:
    """All that is pending or open."""
    incidents = {
        row.objective_id: incident_from(row)
        for row in session.scalars(
            select(AlertRow).where(
                AlertRow.tier == Tier.CONDITION.value, AlertRow.resolved_at_s.is_(None)
            )
        )
    }
    watched = (
        Watched(
            id=row.condition_id,
            condition=condition_from(row.condition),
            alert=Alert(
                status=Status(row.status),
                since_s=row.since_s,
                last_true_s=row.last_true_s,
                stale=row.stale,
            ),
            incident=incidents.get(row.condition_id),
        )
        for row in session.scalars(select(ConditionRow))
    )
    return {each.id: each for each in watched if _stands(each.alert)}


def save(session: Session, watched: Iterable[Watched]) -> None:
    """Each where it stands now. What is resolved stays, for the labels of its alert."""
    rows: list[dict[str, Any]] = [
        {
            "condition_id": each.id,
            "status": each.alert.status.value,
            "since_s": each.alert.since_s,
            "last_true_s": each.alert.last_true_s,
            "stale": each.alert.stale,
            "condition": condition_text(each.condition),
        }
        for each in watched
    ]
    upsert(session, ConditionRow, rows)


def drop(session: Session, ids: Iterable[str]) -> None:
    """What was pending and came to nothing."""
    session.execute(delete(ConditionRow).where(ConditionRow.condition_id.in_(list(ids))))


def condition_text(condition: Condition) -> str:
    """A condition as JSON."""
    return json.dumps(
        {
            "kind": condition.kind.value,
            "labels": dict(condition.labels),
            "since_s": condition.since_s,
            "seen_at_s": condition.seen_at_s,
            "over_at_s": condition.over_at_s,
            "running": condition.running,
            "waiting": condition.waiting,
            "metrics": list(condition.metrics),
            "reason": condition.reason,
            "gpus": condition.gpus,
        }
    )


def condition_from(text: str) -> Condition:
    """And back."""
    said: dict[str, Any] = json.loads(text)
    return Condition(
        **{
            **said,
            "kind": ConditionKind(said["kind"]),
            "labels": labels_of(said["labels"]),
            "metrics": tuple(said["metrics"]),
        }
    )


def _stands(alert: Alert) -> bool:
    return alert.open or alert.status is Status.PENDING
