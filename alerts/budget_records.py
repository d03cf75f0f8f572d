"""What is kept of budgets: their sums over the minutes on disk, resets, and maintenance left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from alerts.counting import Exclusion, budget_at, counted, same_unit
from alerts.course import Course, Stretch
from alerts.history import Spending
from alerts.promise import Definition
from alerts.tables import ExclusionRow, MinuteRow, ResetRow
from domain.slice import MINUTE_S, Slice, SlicePolicy

__all__ = [
    "Part",
    "exclusions",
    "last_reset_s",
    "last_resets",
    "newer_resets",
    "parts",
    "rows_of",
    "save_exclusions",
    "spending",
    "whole_minute",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Minutes [since, until) of one series that count at one budget."""

    series_id: int
    since_s: int
    until_s: int
    budget: Fraction
    definition: Definition


def spending(session: Session, course: Course) -> Spending:
    """The sums of the present budget, each stretch at its own target."""
    found = Spending()
    policy = course.definition.objective.slices
    spans = [(each.since_s, each.until_s) for each in course.exclusions.values()]
    wanted = parts(course.stretches, course.budget_begin_s, course.evaluated_until_s, spans)
    for part in wanted:
        low, high, total = (
            _summed(session, part) if policy is None else _counted_whole(session, part, policy)
        )
        found.add_counts(low, high, total, part.budget)
    return found


def parts(
    stretches: Sequence[Stretch], since_s: int, until_s: int, spans: Iterable[tuple[int, int]] = ()
) -> Iterator[Part]:
    """[since, until) as it was promised, cut where the promise changed; maintenance left out.

    A stretch that counted something else than is counted now has no part in it.
    """
    now = stretches[-1].definition.objective
    ends_s = [*(each.since_s for each in stretches[1:]), until_s]
    for stretch, end_s in zip(stretches, ends_s, strict=True):
        definition = stretch.definition
        if not same_unit(definition.objective, now):
            continue
        begun_s = max(stretch.since_s, definition.since_s or 0, since_s)
        cuts = sorted({each.since_s for each in definition.changes})
        for begin_s, stop_s in _cut(begun_s, min(end_s, until_s), cuts):
            for first_s, last_s in _without(begin_s, stop_s, spans):
                yield Part(
                    series_id=stretch.series_id,
                    since_s=first_s,
                    until_s=last_s,
                    budget=budget_at(definition, first_s),
                    definition=definition,
                )


def rows_of(session: Session, part: Part) -> Sequence[tuple[int, int, int, int, int]]:
    """Minute, good at least and at most, total, excluded: as they were counted, by request."""
    rows = session.connection().execute(
        select(
            MinuteRow.minute_at_s,
            MinuteRow.good_low,
            MinuteRow.good_high,
            MinuteRow.total,
            MinuteRow.excluded,
        )
        .where(
            MinuteRow.series_id == part.series_id,
            MinuteRow.minute_at_s >= part.since_s,
            MinuteRow.minute_at_s < part.until_s,
        )
        .order_by(MinuteRow.minute_at_s)
    )
    return [(row[0], row[1], row[2], row[3], row[4]) for row in rows]


def exclusions(session: Session, objective_id: str) -> list[Exclusion]:
    """The maintenance of an objective so far."""
    rows = session.scalars(
        select(ExclusionRow)
        .where(ExclusionRow.objective_id == objective_id)
        .order_by(ExclusionRow.since_s)
    )
    return [
        Exclusion(name=row.name, since_s=row.since_s, until_s=row.until_s, reason=row.reason)
        for row in rows
    ]


def save_exclusions(session: Session, course: Course) -> None:
    """What has been left out by now."""
    for each in course.exclusions.values():
        row = session.get(ExclusionRow, (course.definition.id, each.name, each.since_s))
        if row is None:
            row = ExclusionRow(
                objective_id=course.definition.id, name=each.name, since_s=each.since_s
            )
            session.add(row)
        row.until_s, row.reason = each.until_s, each.reason
    session.flush()


def last_resets(session: Session) -> Mapping[str, int]:
    """When the budget of each objective was last begun anew."""
    rows = session.execute(
        select(ResetRow.objective_id, func.max(ResetRow.at_s)).group_by(ResetRow.objective_id)
    )
    return {objective_id: whole_minute(at_s) for objective_id, at_s in rows}


def last_reset_s(session: Session, objective_id: str) -> int | None:
    """The same of one objective."""
    at_s = session.scalar(
        select(func.max(ResetRow.at_s)).where(ResetRow.objective_id == objective_id)
    )
    return None if at_s is None else whole_minute(at_s)


def newer_resets(session: Session, after_id: int) -> tuple[Mapping[str, int], int]:
    """Those that were written since, and the number of the newest."""
    rows = session.execute(
        select(ResetRow.objective_id, ResetRow.at_s, ResetRow.id)
        .where(ResetRow.id > after_id)
        .order_by(ResetRow.id)
    ).all()
    found = {objective_id: whole_minute(at_s) for objective_id, at_s, _ in rows}
    return found, rows[-1][2] if rows else after_id


def whole_minute(at_s: int) -> int:
    """The first minute that begins after it: the one in which it was said belongs to the past."""
    return -(-at_s // MINUTE_S) * MINUTE_S


def _summed(session: Session, part: Part) -> tuple[int, int, int]:
    low, high, total = session.execute(
        select(
            func.coalesce(func.sum(MinuteRow.good_low), 0),
            func.coalesce(func.sum(MinuteRow.good_high), 0),
            func.coalesce(func.sum(MinuteRow.total), 0),
        ).where(
            MinuteRow.series_id == part.series_id,
            MinuteRow.minute_at_s >= part.since_s,
            MinuteRow.minute_at_s < part.until_s,
        )
    ).one()
    return int(low), int(high), int(total)


def _counted_whole(session: Session, part: Part, policy: SlicePolicy) -> tuple[int, int, int]:
    low = high = total = 0
    for at_s, good_low, good_high, asked, _ in rows_of(session, part):
        whole = counted(
            part.definition,
            Slice(minute_at_s=at_s, good_low=good_low, good_high=good_high, total=asked),
            policy,
        )
        low, high, total = low + whole.good_low, high + whole.good_high, total + whole.total
    return low, high, total


def _cut(begin_s: int, end_s: int, cuts: Iterable[int]) -> Iterator[tuple[int, int]]:
    for cut_s in cuts:
        if begin_s < cut_s < end_s:
            yield begin_s, cut_s
            begin_s = cut_s
    if begin_s < end_s:
        yield begin_s, end_s


def _without(
    begin_s: int, end_s: int, spans: Iterable[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    for since_s, until_s in sorted(spans):
        if since_s < end_s and until_s > begin_s:
            if since_s > begin_s:
                yield begin_s, since_s
            begin_s = max(begin_s, until_s)
    if begin_s < end_s:
        yield begin_s, end_s
