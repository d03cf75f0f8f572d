"""The ledger as the tables tell it: any process that can open them may read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from sqlalchemy import Engine, Select, func, select
from sqlalchemy.orm import Session

from alerts import message
from alerts.codec import blame_from, definition_from, standing_from
from alerts.definition import Definition
from alerts.incident import Tier
from alerts.ledger import (
    AlertRecord,
    Budget,
    HistoryEntry,
    RuleStanding,
    Standing,
    StandingState,
)
from alerts.records import minutes, minutes_of
from alerts.state import QUIET, Alert, Status
from alerts.tables import (
    AlertEventRow,
    AlertRow,
    ConditionRow,
    PromiseRow,
    RevisionRow,
    RuleRow,
)
from alerts.watch_records import condition_from
from domain.condition import Condition
from domain.objective import Severity
from domain.slice import MINUTE_S, Slice, Tally

__all__ = ["SqlLedger"]

_DAY_S = 86_400
_UNSEEN_S = 2 * MINUTE_S
_ORDER = list(StandingState)


class SqlLedger:
    """Implements `alerts.ledger.Ledger` over the state of an evaluator, here or elsewhere."""

    def __init__(self, state: Engine) -> None:
        self._state = state

    def standings(self, *, spark_s: int = 3 * 3600) -> Sequence[Standing]:
        """Every promise, worst first; of equals the one with the least budget left."""
        return sorted(self._standings(_PROMISES, spark_s), key=_worst_first)

    def standing(self, objective_id: str, *, spark_s: int = 3 * 3600) -> Standing | None:
        wanted = _PROMISES.where(PromiseRow.objective_id == objective_id)
        return next(iter(self._standings(wanted, spark_s)), None)

    def _standings(self, wanted: Select[PromiseRow, RevisionRow], spark_s: int) -> list[Standing]:
        with Session(self._state) as session:
            found = session.execute(wanted).all()
            alerts, rules = _open_alerts(session), _rules(session)
            series_ids = [revision.series_id for _, revision in found] if spark_s else []
            ends_s = [row.evaluated_until_s for row, _ in found] or [0]
            known = minutes_of(session, series_ids, min(ends_s) - spark_s, max(ends_s))
            return [
                _standing(
                    row,
                    revision,
                    alerts,
                    rules,
                    _gapless(
                        known.get(revision.series_id, ()),
                        row.evaluated_until_s - spark_s,
                        row.evaluated_until_s,
                    ),
                )
                for row, revision in found
            ]

    def slices(self, objective_id: str, since_s: int, until_s: int) -> Sequence[Slice]:
        with Session(self._state) as session:
            row = session.execute(
                _PROMISES.where(PromiseRow.objective_id == objective_id)
            ).one_or_none()
            return (
                []
                if row is None
                else _gapless(
                    minutes(session, row[1].series_id, since_s, until_s), since_s, until_s
                )
            )

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
                HistoryEntry(at_s=each.at_s, event=each.event, text=each.text) for each in events
            ]
            return _record(session, row, entries)

    def conditions(self) -> Sequence[AlertRecord]:
        wanted = (AlertRow.tier == Tier.CONDITION.value) & AlertRow.resolved_at_s.is_(None)
        with Session(self._state) as session:
            rows = session.scalars(select(AlertRow).where(wanted).order_by(AlertRow.started_at_s))
            return [_record(session, row) for row in rows]


_PROMISES = (
    select(PromiseRow, RevisionRow)
    .join(RevisionRow, RevisionRow.id == PromiseRow.revision_id)
    .where(PromiseRow.active)
)


def _open_alerts(session: Session) -> dict[str, list[AlertRow]]:
    found: dict[str, list[AlertRow]] = {}
    for row in session.scalars(select(AlertRow).where(AlertRow.resolved_at_s.is_(None))):
        found.setdefault(row.objective_id, []).append(row)
    return found


def _rules(session: Session) -> dict[tuple[str, str], Alert]:
    return {
        (row.objective_id, row.rule): Alert(
            status=Status(row.status),
            since_s=row.since_s,
            last_true_s=row.last_true_s,
            stale=row.stale,
        )
        for row in session.scalars(select(RuleRow))
    }


def _standing(
    row: PromiseRow,
    revision: RevisionRow,
    alerts: dict[str, list[AlertRow]],
    rules: dict[tuple[str, str], Alert],
    slices: Sequence[Slice],
) -> Standing:
    definition = definition_from(revision.definition)
    objective = definition.objective
    verdicts, spending, last_hour, trouble = standing_from(row.standing, objective.period_s)
    open_rows = sorted(alerts.get(row.objective_id, []), key=lambda each: each.tier != "page")
    state = _state(row, last_hour, open_rows, trouble=trouble)
    return Standing(
        id=row.objective_id,
        objective=objective,
        description=definition.description,
        state=state,
        stale=bool(trouble) or any(each.stale for each in open_rows),
        rules=[
            RuleStanding(verdict=v, alert=rules.get((row.objective_id, v.rule.name), QUIET))
            for v in verdicts
        ],
        budget=Budget(
            allowed=spending.allowed,
            spent_low=spending.spent_low,
            spent_high=spending.spent_high,
            total=spending.total,
            period_s=objective.period_s,
            counted_since_s=row.counted_since_s,
        ),
        last_hour=last_hour,
        slices=slices,
        evaluated_at_s=row.evaluated_until_s,
        observed_at_s=row.observed_at_s,
        message=_message(definition, row, last_hour, open_rows, state, trouble=trouble),
        alert_ids=[each.id for each in open_rows],
        trouble=trouble,
    )


def _state(
    row: PromiseRow, last_hour: Tally, open_rows: Sequence[AlertRow], *, trouble: str
) -> StandingState:
    tiers = {each.tier for each in open_rows}
    if "page" in tiers:
        return StandingState.PAGE
    if "ticket" in tiers:
        return StandingState.TICKET
    unseen = row.observed_at_s is None or row.evaluated_until_s - row.observed_at_s >= _UNSEEN_S
    if unseen or trouble:
        return StandingState.NOT_OBSERVED
    return StandingState.HEALTHY if last_hour.total else StandingState.NO_TRAFFIC


def _message(
    definition: Definition,
    row: PromiseRow,
    last_hour: Tally,
    open_rows: Sequence[AlertRow],
    state: StandingState,
    *,
    trouble: str,
) -> str:
    unjudged = message.unjudged(definition.objective, trouble, since_s=row.evaluated_until_s)
    if open_rows:
        return f"{open_rows[0].message} {unjudged}" if trouble else open_rows[0].message
    if trouble:
        return unjudged
    if state is StandingState.NOT_OBSERVED:
        return message.unobserved(
            definition.objective, observed_at_s=row.observed_at_s, at_s=row.evaluated_until_s
        )
    return message.quiet(definition.objective, last_hour)


def _gapless(known: Iterable[Slice], since_s: int, until_s: int) -> list[Slice]:
    """Whole minutes of the window, none left out."""
    begin_s = -(-since_s // MINUTE_S) * MINUTE_S
    by_minute = {each.minute_at_s: each for each in known}
    return [
        by_minute.get(at_s) or Slice(minute_at_s=at_s, observed=False)
        for at_s in range(begin_s, until_s // MINUTE_S * MINUTE_S, MINUTE_S)
    ]


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
    )


def _condition(session: Session, row: AlertRow) -> Condition | None:
    if row.tier != Tier.CONDITION:
        return None
    kept = session.get(ConditionRow, row.objective_id)
    return condition_from(kept.condition) if kept is not None else None


def _worst_first(standing: Standing) -> tuple[int, float, str]:
    remaining = standing.budget.remaining_low
    return (
        _ORDER.index(standing.state),
        2.0 if remaining is None else float(remaining),
        standing.id,
    )
