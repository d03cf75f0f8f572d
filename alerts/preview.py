"""What matchers would silence now: open alerts, and promises that could alert."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alerts.codec import definition_from
from alerts.definition import Definition
from alerts.incident import Tier
from alerts.matcher import Matcher
from alerts.silence import subject
from alerts.tables import AlertRow, PromiseRow, ResponseRow, RevisionRow
from alerts.telling import about, audience_of
from domain.labels import Labels, labels_of

__all__ = ["Preview", "preview"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Ids and names. Of a promise `whole` says that each of its alerts is matched, not only some."""

    alerts: Sequence[tuple[str, str, str]]
    objectives: Sequence[tuple[str, str, bool]]


def preview(state: Engine, matchers: Sequence[Matcher]) -> Preview:
    """What all of these match, as things stand."""
    with Session(state) as session:
        promised = _promised(session)
        objectives = []
        for definition in promised.values():
            hits = [_matches(matchers, each) for each in _subjects(definition)]
            if any(hits):
                objectives.append((definition.id, definition.name, all(hits)))
        alerts = [
            (row.id, row.objective_name, row.severity)
            for row, labels in _open(session, promised)
            if _matches(
                matchers,
                about(row, labels),
            )
        ]
    return Preview(alerts=alerts, objectives=sorted(objectives))


def _matches(matchers: Sequence[Matcher], about: dict[str, str]) -> bool:
    return all(each.matches(about) for each in matchers)


def _subjects(definition: Definition) -> list[dict[str, str]]:
    """Every alert that the promise could raise."""
    labels = audience_of(definition).labels
    kinds = {(rule.severity.value, rule.severity.value) for rule in definition.rules}
    if definition.no_data is not None:
        kinds.add((Tier.NO_DATA.value, definition.no_data.value))
    return [
        subject(
            labels, objective_id=definition.id, severity=severity, tier=tier, name=definition.name
        )
        for tier, severity in sorted(kinds)
    ]


def _promised(session: Session) -> dict[str, Definition]:
    rows = session.scalars(
        select(RevisionRow.definition)
        .join(PromiseRow, PromiseRow.revision_id == RevisionRow.id)
        .where(PromiseRow.active)
    )
    found = [definition_from(text) for text in rows]
    return {each.id: each for each in found}


def _open(session: Session, promised: dict[str, Definition]) -> list[tuple[AlertRow, Labels]]:
    rows = session.execute(
        select(AlertRow, ResponseRow)
        .outerjoin(ResponseRow, ResponseRow.alert_id == AlertRow.id)
        .where(AlertRow.resolved_at_s.is_(None))
        .order_by(AlertRow.started_at_s, AlertRow.id)
    ).all()
    found = []
    for row, response in rows:
        definition = promised.get(row.objective_id)
        labels: Labels = ()
        if response is not None:
            labels = labels_of(json.loads(response.labels))
        elif definition is not None:
            labels = audience_of(definition).labels
        found.append((row, labels))
    return found
