"""A budget that begins anew because somebody says so: who, why, and what was left. Deletes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alerts.codec import definition_from, standing_from
from alerts.tables import PromiseRow, ResetRow, RevisionRow, writing
from alerts.wording import percent
from domain.errors import InputError

__all__ = ["Reset", "reset_budget", "resets"]

_AUTHOR_LENGTH, _REASON_LENGTH = 128, 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """From the first whole minute after `at_s` on the budget is full. `remaining`: what was left."""

    objective_id: str
    at_s: int
    author: str
    reason: str
    remaining: str


def reset_budget(
    state: Engine, objective_id: str, *, author: str, reason: str, at_s: int
) -> Reset | None:
    """Writes it down; the evaluator heeds it at its next tick. None: there is no such objective."""
    said = author.strip(), reason.strip()
    for name, text, longest in zip(
        ("author", "reason"), said, (_AUTHOR_LENGTH, _REASON_LENGTH), strict=True
    ):
        if not text or len(text) > longest or not text.isprintable():
            raise InputError(
                f"a reset wants the {name} in one line of at most {longest} characters",
                where="reset",
                remedy="Say who resets the budget and why; it is kept.",
            )
    with writing(state) as session, session.begin():
        promise = session.get(PromiseRow, objective_id)
        if promise is None or not promise.active:
            return None
        reset = Reset(
            objective_id=objective_id,
            at_s=at_s,
            author=said[0],
            reason=said[1],
            remaining=_remaining(session, promise),
        )
        session.add(
            ResetRow(
                objective_id=reset.objective_id,
                at_s=reset.at_s,
                author=reset.author,
                reason=reset.reason,
                remaining=reset.remaining,
            )
        )
    return reset


def resets(state: Engine, objective_id: str) -> list[Reset]:
    """All of an objective, in order."""
    with Session(state) as session:
        rows = session.scalars(
            select(ResetRow).where(ResetRow.objective_id == objective_id).order_by(ResetRow.id)
        )
        return [
            Reset(
                objective_id=row.objective_id,
                at_s=row.at_s,
                author=row.author,
                reason=row.reason,
                remaining=row.remaining,
            )
            for row in rows
        ]


def _remaining(session: Session, promise: PromiseRow) -> str:
    revision = session.get_one(RevisionRow, promise.revision_id)
    period_s = definition_from(revision.definition).objective.period_s
    _, spending, _, _ = standing_from(promise.standing, period_s)
    if not spending.allowed:
        return "no traffic"
    return percent(1 - Fraction(spending.spent_high) / spending.allowed)
