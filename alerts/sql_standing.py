"""How promises stand, read from the tables: what was written last, in words of now."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from alerts import message
from alerts.budget import Budget
from alerts.budget_records import last_resets
from alerts.codec import definition_from, standing_from
from alerts.counting import Exclusion, counted
from alerts.history import Spending
from alerts.incident import Tier
from alerts.ledger import RuleStanding, Standing, StandingState
from alerts.promise import Definition
from alerts.records import minutes_of
from alerts.state import QUIET, Alert, Status
from alerts.tables import AlertRow, ExclusionRow, PromiseRow, RevisionRow, RuleRow
from domain.slice import MINUTE_S, Slice, Tally

__all__ = ["PROMISES", "as_counted", "gapless", "standings", "worst_first"]

_UNSEEN_S = 2 * MINUTE_S
_ORDER = list(StandingState)

PROMISES = (
    select(PromiseRow, RevisionRow)
    .join(RevisionRow, RevisionRow.id == PromiseRow.revision_id)
    .where(PromiseRow.active)
)

_TICKETS = {Tier.TICKET.value, Tier.BUDGET_25.value}
_NOTES = (Tier.BUDGET_0.value, Tier.BUDGET_25.value, Tier.BUDGET_50.value)
_LOUDEST = [tier.value for tier in (Tier.PAGE, Tier.TICKET, Tier.NO_DATA)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What is read once for all promises."""

    alerts: Mapping[str, Sequence[AlertRow]]
    rules: Mapping[tuple[str, str], Alert]
    resets: Mapping[str, int]
    exclusions: Mapping[str, Sequence[Exclusion]]


def standings(
    session: Session, wanted: Select[PromiseRow, RevisionRow], *, spark_s: int
) -> list[Standing]:
    """Each of these promises, with its newest minutes where `spark_s` asks for some."""
    found = session.execute(wanted).all()
    known = _Known(
        alerts=_open_alerts(session),
        rules=_rules(session),
        resets=last_resets(session),
        exclusions=_exclusions(session),
    )
    series_ids = [revision.series_id for _, revision in found] if spark_s else []
    ends_s = [row.evaluated_until_s for row, _ in found] or [0]
    slices = minutes_of(session, series_ids, min(ends_s) - spark_s, max(ends_s))
    return [
        _standing(
            row,
            _definition(revision.definition),
            known,
            spark_s,
            slices.get(revision.series_id, ()),
        )
        for row, revision in found
    ]


@functools.lru_cache(maxsize=2048)
def _definition(text: str) -> Definition:
    """Read once: it is asked for whenever anybody looks, and changes with a revision only."""
    return definition_from(text)


def worst_first(standing: Standing) -> tuple[int, float, str]:
    """The worst state on top; of equals the one with the least budget left."""
    remaining = standing.budget.remaining_low
    return (
        _ORDER.index(standing.state),
        2.0 if remaining is None else float(remaining),
        standing.id,
    )


def gapless(known: Iterable[Slice], since_s: int, until_s: int) -> list[Slice]:
    """Whole minutes of the window, none left out."""
    begin_s = -(-since_s // MINUTE_S) * MINUTE_S
    by_minute = {each.minute_at_s: each for each in known}
    return [
        by_minute.get(at_s) or Slice(minute_at_s=at_s, observed=False)
        for at_s in range(begin_s, until_s // MINUTE_S * MINUTE_S, MINUTE_S)
    ]


def as_counted(definition: Definition, slices: Sequence[Slice]) -> Sequence[Slice]:
    """The minutes as they count for this promise."""
    policy = definition.objective.slices
    if policy is None and not definition.maintenance and definition.since_s is None:
        return slices
    return [counted(definition, each, policy) for each in slices]


def _standing(
    row: PromiseRow,
    definition: Definition,
    known: _Known,
    spark_s: int,
    slices: Sequence[Slice],
) -> Standing:
    at_s = row.evaluated_until_s
    objective = definition.in_force(at_s - MINUTE_S).objective
    verdicts, spending, last_hour, trouble = standing_from(row.standing, objective.period_s)
    open_rows = sorted(known.alerts.get(row.objective_id, []), key=_loudness)
    state = _state(row, last_hour, open_rows, trouble=trouble)
    away = known.exclusions.get(row.objective_id, ())
    maintenance = next((each for each in away if each.until_s == at_s), None)
    return Standing(
        id=row.objective_id,
        objective=objective,
        description=definition.description,
        state=state,
        stale=bool(trouble) or any(each.stale for each in open_rows),
        rules=[
            RuleStanding(
                verdict=each,
                alert=known.rules.get((row.objective_id, each.rule.name), QUIET),
                budget=objective.budget,
            )
            for each in verdicts
        ],
        budget=_budget(row, definition, spending, known.resets.get(row.objective_id, 0), away),
        last_hour=last_hour,
        slices=as_counted(definition, gapless(slices, at_s - spark_s, at_s)),
        evaluated_at_s=at_s,
        observed_at_s=row.observed_at_s,
        message=_message(
            definition,
            row,
            last_hour,
            open_rows,
            state=state,
            trouble=trouble,
            maintenance=maintenance,
        ),
        alert_ids=[each.id for each in open_rows],
        trouble=trouble,
        maintenance=maintenance,
    )


def _budget(
    row: PromiseRow,
    definition: Definition,
    spending: Spending,
    reset_s: int,
    away: Iterable[Exclusion],
) -> Budget:
    objective, at_s = definition.objective, row.evaluated_until_s
    begin_s = max(objective.period_begin_s(at_s), definition.since_s or 0, reset_s)
    since_s = row.counted_since_s
    if since_s is not None and max(reset_s, definition.since_s or 0) > since_s:
        since_s = max(reset_s, definition.since_s or 0)
    return Budget(
        allowed=spending.allowed,
        spent_low=spending.spent_low,
        spent_high=spending.spent_high,
        total=spending.total,
        period_s=objective.period_length_s(at_s),
        counted_since_s=since_s,
        begin_s=begin_s,
        at_s=at_s,
        end_s=objective.period_end_s(at_s),
        excluded_minutes=sum(each.minutes_within(begin_s, at_s) for each in away),
    )


def _state(
    row: PromiseRow, last_hour: Tally, open_rows: Sequence[AlertRow], *, trouble: str
) -> StandingState:
    tiers = {each.tier for each in open_rows}
    if Tier.PAGE.value in tiers:
        return StandingState.PAGE
    if tiers & _TICKETS:
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
    *,
    state: StandingState,
    trouble: str,
    maintenance: Exclusion | None,
) -> str:
    """What is loudest, and beside it how low the budget is, and what keeps us from judging."""
    objective, at_s = definition.objective, row.evaluated_until_s
    loud = [each.message for each in open_rows if each.tier in _LOUDEST]
    notes = [each.message for each in open_rows if each.tier in _NOTES]
    parts = loud[:1]
    if not loud and not trouble:
        if state is StandingState.NOT_OBSERVED:
            unseen = message.unobserved(objective, observed_at_s=row.observed_at_s, at_s=at_s)
            parts.append(unseen)
        else:
            parts.append(message.quiet(definition.in_force(at_s - MINUTE_S).objective, last_hour))
    if not loud:
        parts += notes[:1]
    if trouble:
        parts.append(message.unjudged(objective, trouble, since_s=at_s))
    text = " ".join(parts)
    return text if maintenance is None else message.maintained(text, maintenance.name)


def _loudness(row: AlertRow) -> int:
    order = (*_LOUDEST, *_NOTES)
    return order.index(row.tier) if row.tier in order else len(order)


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


def _exclusions(session: Session) -> dict[str, list[Exclusion]]:
    """Maintenance of the last hundred days: no period is longer, but for a year's."""
    newest_s = session.scalar(select(func.max(ExclusionRow.until_s)))
    found: dict[str, list[Exclusion]] = {}
    if newest_s is None:
        return found
    for row in session.scalars(select(ExclusionRow).order_by(ExclusionRow.since_s)):
        found.setdefault(row.objective_id, []).append(
            Exclusion(name=row.name, since_s=row.since_s, until_s=row.until_s, reason=row.reason)
        )
    return found
