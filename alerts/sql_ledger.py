"""The ledger as the tables tell it: any process that can open them may read."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from alerts.budget_records import parts
from alerts.change import Change
from alerts.codec import blame_from
from alerts.composite import standing_of
from alerts.detail import BurnDown, EventCount, ObjectiveEvent
from alerts.diagnosed import Diagnosed, diagnosed_of
from alerts.evidence import Evidence, evidence_of
from alerts.incident import Tier
from alerts.ledger import (
    AlertRecord,
    CompositeStanding,
    HistoryEntry,
    Standing,
    StandingState,
)
from alerts.records import known_stretches, load_composites, minutes
from alerts.response import response_from
from alerts.silence import Silence, Silences
from alerts.sql_detail import burn_down, event_counts, objective_history
from alerts.sql_standing import PROMISES, as_counted, gapless, standings, worst_first
from alerts.tables import (
    AlertEventRow,
    AlertRow,
    ConditionRow,
    PromiseRow,
    ResponseRow,
)
from alerts.telling import told
from alerts.told_changes import ToldChanges
from alerts.watch_records import condition_from
from domain.condition import Condition
from domain.labels import Labels
from domain.objective import Severity
from domain.slice import Slice

__all__ = ["SqlLedger"]

_DAY_S = 86_400


class SqlLedger:
    """Implements `alerts.ledger.Ledger` over the state of an evaluator, here or elsewhere."""

    def __init__(self, state: Engine) -> None:
        self._state = state

    def standings(self, *, spark_s: int = 3 * 3600) -> Sequence[Standing]:
        """Every promise, worst first; of equals the one with the least budget left."""
        with Session(self._state) as session:
            return sorted(standings(session, PROMISES, spark_s=spark_s), key=worst_first)

    def standing(self, objective_id: str, *, spark_s: int = 3 * 3600) -> Standing | None:
        wanted = PROMISES.where(PromiseRow.objective_id == objective_id)
        with Session(self._state) as session:
            return next(iter(standings(session, wanted, spark_s=spark_s)), None)

    def slices(self, objective_id: str, since_s: int, until_s: int) -> Sequence[Slice]:
        with Session(self._state) as session:
            stretches = known_stretches(session, objective_id)
            if not stretches:
                return []
            found: list[Slice] = []
            for part in parts(stretches, since_s, until_s):
                found += minutes(session, part.series_id, part.since_s, part.until_s)
            return as_counted(stretches[-1].definition, gapless(found, since_s, until_s))

    def alerts(self, *, limit: int = 100) -> Sequence[AlertRecord]:
        order = (AlertRow.resolved_at_s.is_(None).desc(), AlertRow.started_at_s.desc())
        with Session(self._state) as session:
            rows = session.scalars(select(AlertRow).order_by(*order).limit(limit))
            return [_record(session, row) for row in rows]

    def alert(self, alert_id: str) -> AlertRecord | None:
        with Session(self._state) as session:
            row = session.get(AlertRow, alert_id)
            if row is None:
                return None
            events = session.scalars(
                select(AlertEventRow)
                .where(AlertEventRow.alert_id == alert_id)
                .order_by(AlertEventRow.id)
            )
            entries = [
                HistoryEntry(at_s=each.at_s, event=each.event, text=each.text, author=each.author)
                for each in events
            ]
            return _record(session, row, entries)

    def alerts_of(self, objective_id: str, *, limit: int = 100) -> Sequence[AlertRecord]:
        order = (AlertRow.resolved_at_s.is_(None).desc(), AlertRow.started_at_s.desc())
        wanted = select(AlertRow).where(AlertRow.objective_id == objective_id)
        with Session(self._state) as session:
            rows = session.scalars(wanted.order_by(*order).limit(limit))
            return [_record(session, row) for row in rows]

    def burn_down(self, objective_id: str, since_s: int, until_s: int, step_s: int) -> BurnDown:
        with Session(self._state) as session:
            return burn_down(session, objective_id, since_s, until_s, step_s)

    def event_counts(
        self, objective_id: str, since_s: int, until_s: int, step_s: int
    ) -> Sequence[EventCount]:
        with Session(self._state) as session:
            return event_counts(session, objective_id, since_s, until_s, step_s)

    def history(self, objective_id: str, *, limit: int = 200) -> Sequence[ObjectiveEvent]:
        with Session(self._state) as session:
            return objective_history(session, objective_id, limit=limit)

    def evidence(self, alert_id: str) -> Sequence[Evidence]:
        with Session(self._state) as session:
            return evidence_of(session, alert_id)

    def diagnosed(self, alert_id: str) -> Diagnosed | None:
        with Session(self._state) as session:
            return diagnosed_of(session, alert_id)

    def silences(self, *, at_s: float, limit: int = 200) -> Sequence[Silence]:
        return Silences(self._state).all(at_s=at_s, limit=limit)

    def told_changes(self, since_s: int, until_s: int, *, where: Labels = ()) -> Sequence[Change]:
        return ToldChanges(self._state).between(since_s, until_s, where=where)

    def composites(self) -> Sequence[CompositeStanding]:
        """The worst first."""
        with Session(self._state) as session:
            promised = load_composites(session)
            known = (
                {each.id: each for each in standings(session, PROMISES, spark_s=0)}
                if promised
                else {}
            )
        order = list(StandingState)
        found = [standing_of(each, known) for each in promised]
        return sorted(found, key=lambda each: (order.index(each.state), each.id))

    def composite(self, composite_id: str) -> CompositeStanding | None:
        return next((each for each in self.composites() if each.id == composite_id), None)

    def conditions(self) -> Sequence[AlertRecord]:
        wanted = (AlertRow.tier == Tier.CONDITION.value) & AlertRow.resolved_at_s.is_(None)
        with Session(self._state) as session:
            rows = session.scalars(select(AlertRow).where(wanted).order_by(AlertRow.started_at_s))
            return [_record(session, row) for row in rows]


def _record(session: Session, row: AlertRow, history: Sequence[HistoryEntry] = ()) -> AlertRecord:
    flaps = session.scalar(
        select(func.count())
        .select_from(AlertRow)
        .where(
            AlertRow.dedup_key == row.dedup_key,
            AlertRow.started_at_s <= row.started_at_s,
            AlertRow.started_at_s > row.started_at_s - _DAY_S,
        )
    )
    return AlertRecord(
        id=row.id,
        objective_id=row.objective_id,
        objective_name=row.objective_name,
        severity=Severity(row.severity),
        kind=row.tier if row.tier in (Tier.NO_DATA, Tier.CONDITION) else "burn",
        dedup_key=row.dedup_key,
        started_at_s=row.started_at_s,
        resolved_at_s=row.resolved_at_s,
        stale=row.stale,
        inhibited=row.inhibited,
        flaps=flaps or 1,
        message=row.message,
        why=json.loads(row.why),
        blame=blame_from(row.blame),
        history=history,
        condition=_condition(session, row),
        response=response_from(session.get(ResponseRow, row.id), tuple(told(session, row.id))),
    )


def _condition(session: Session, row: AlertRow) -> Condition | None:
    if row.tier != Tier.CONDITION:
        return None
    kept = session.get(ConditionRow, row.objective_id)
    return condition_from(kept.condition) if kept is not None else None
