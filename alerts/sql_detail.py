"""The details of one promise, from its minutes, revisions, resets and alerts as they are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from alerts.budget_records import Part, exclusions, parts, rows_of, whole_minute
from alerts.counting import Exclusion, counted
from alerts.course import Stretch
from alerts.detail import BudgetPoint, BurnDown, EventCount, ObjectiveEvent, Seam
from alerts.records import known_stretches
from alerts.sentence import sentence
from alerts.tables import AlertEventRow, AlertRow, MinuteRow, ResetRow
from alerts.wording import share
from domain.objective import Objective
from domain.slice import Slice

__all__ = ["burn_down", "event_counts", "objective_history"]

GRAIN_S = 300
"""Charts are drawn in steps of so much; sums of the minutes within are exact."""


def burn_down(
    session: Session, objective_id: str, since_s: int, until_s: int, step_s: int
) -> BurnDown:
    """The budget at every step, each as of then: of that period, since the last reset before it."""
    stretches = known_stretches(session, objective_id)
    if not stretches:
        return BurnDown(points=[], seams=[])
    resets = _resets(session, objective_id)
    step_s = _whole_steps(step_s)
    ats = range(-(-since_s // step_s) * step_s, until_s + 1, step_s)
    begins = {at_s: _begin_s(stretches, resets, at_s) for at_s in ats}
    first_s = min(begins.values(), default=since_s)
    spans = _spans(exclusions(session, objective_id))
    wanted = parts(stretches, first_s, until_s, spans)
    sums = _sums(session, wanted, stretches[-1].definition.objective, set(begins.values()))
    points = [_point(sums, begin_s, at_s) for at_s, begin_s in begins.items()]
    seams = _seams(stretches, resets, since_s, until_s)
    return BurnDown(points=points, seams=sorted(seams, key=lambda each: each.at_s))


def event_counts(
    session: Session, objective_id: str, since_s: int, until_s: int, step_s: int
) -> list[EventCount]:
    """What was counted in each step, none left out; maintenance counts nothing, and is told."""
    stretches = known_stretches(session, objective_id)
    if not stretches:
        return []
    away = exclusions(session, objective_id)
    begins = range(since_s // step_s * step_s, until_s, step_s)
    found = {at_s: np.zeros(5, np.int64) for at_s in begins}
    for part in parts(stretches, begins.start, begins.stop, _spans(away)):
        for at_s, *numbers in _entries(session, part, stretches[-1].definition.objective, step_s):
            found[at_s // step_s * step_s] += numbers
    return [_event_count(at_s, step_s, numbers, away) for at_s, numbers in found.items()]


def objective_history(
    session: Session, objective_id: str, *, limit: int = 200
) -> list[ObjectiveEvent]:
    """Revisions, resets, maintenance, and what happened to its alerts; the newest first."""
    stretches = known_stretches(session, objective_id)
    events = [
        ObjectiveEvent(at_s=seam.at_s, event=seam.kind, text=seam.text)
        for seam in _revisions(stretches)
    ]
    events += [
        ObjectiveEvent(
            at_s=row.at_s,
            event="reset",
            text=f"The budget begins anew: {row.reason} ({row.remaining} was left)",
            author=row.author,
        )
        for row in _resets(session, objective_id)
    ]
    events += [_set_aside(each) for each in exclusions(session, objective_id)]
    events += _of_alerts(session, objective_id, limit)
    return sorted(events, key=lambda each: -each.at_s)[:limit]


def _of_alerts(session: Session, objective_id: str, limit: int) -> list[ObjectiveEvent]:
    rows = session.scalars(
        select(AlertEventRow)
        .join(AlertRow, AlertRow.id == AlertEventRow.alert_id)
        .where(AlertRow.objective_id == objective_id)
        .order_by(AlertEventRow.id.desc())
        .limit(limit)
    )
    return [
        ObjectiveEvent(
            at_s=row.at_s,
            event=row.event,
            text=row.text,
            author=row.author,
            alert_id=row.alert_id,
        )
        for row in rows
    ]


def _set_aside(each: Exclusion) -> ObjectiveEvent:
    minutes = each.minutes_within(each.since_s, each.until_s)
    why = f": {each.reason}" if each.reason else ""
    text = f"Maintenance {each.name}: {minutes} min do not count{why}"
    return ObjectiveEvent(at_s=each.since_s, event="maintenance", text=text)


def _resets(session: Session, objective_id: str) -> Sequence[ResetRow]:
    return session.scalars(
        select(ResetRow).where(ResetRow.objective_id == objective_id).order_by(ResetRow.at_s)
    ).all()


def _begin_s(stretches: Sequence[Stretch], resets: Iterable[ResetRow], at_s: int) -> int:
    """Where the budget of an instant began."""
    definition = stretches[-1].definition
    anew = [whole_minute(row.at_s) for row in resets if whole_minute(row.at_s) <= at_s]
    return max(
        definition.objective.period_begin_s(at_s), definition.since_s or 0, *(anew[-1:] or [0])
    )


def _sums(
    session: Session, wanted: Iterable[Part], objective: Objective, cuts: set[int]
) -> NDArray[np.float64]:
    """Rows of when, and the sums of all before: good low and high, total, allowed."""
    off_grain = sorted(cut for cut in cuts if cut % GRAIN_S)
    rows = [
        (at_s, low, high, total, total * float(piece.budget))
        for part in wanted
        for piece in _pieces(part, off_grain)
        for at_s, low, high, total, _, _ in _entries(session, piece, objective, GRAIN_S)
    ]
    counts = np.array(rows, np.float64).reshape(-1, 5)
    sums = np.zeros((len(counts) + 1, 5))
    sums[1:, 1:] = counts[:, 1:].cumsum(axis=0)
    sums[:-1, 0], sums[-1, 0] = counts[:, 0], np.inf
    return sums


def _pieces(part: Part, cuts: Iterable[int]) -> Iterator[Part]:
    """A part cut where a budget began off the grain, so that no sum straddles it."""
    edges = [part.since_s, *(c for c in cuts if part.since_s < c < part.until_s), part.until_s]
    for begin_s, end_s in pairwise(edges):
        yield Part(
            series_id=part.series_id,
            since_s=begin_s,
            until_s=end_s,
            budget=part.budget,
            definition=part.definition,
        )


def _entries(
    session: Session, part: Part, objective: Objective, grain_s: int
) -> Iterator[tuple[int, int, int, int, int, int]]:
    """When, good low and high, total, excluded, observed minutes: by grain, or by whole minute."""
    if objective.slices is None:
        yield from _grouped(session, part, grain_s)
        return
    for at_s, low, high, total, excluded in rows_of(session, part):
        minute = Slice(
            minute_at_s=at_s, good_low=low, good_high=high, total=total, excluded=excluded
        )
        whole = counted(part.definition, minute, objective.slices)
        yield at_s, whole.good_low, whole.good_high, whole.total, whole.excluded, 1


def _grouped(
    session: Session, part: Part, grain_s: int
) -> Iterator[tuple[int, int, int, int, int, int]]:
    table = MinuteRow.__table__
    grain = table.c.minute_at_s - table.c.minute_at_s % grain_s
    rows = session.connection().execute(
        select(
            grain,
            func.sum(table.c.good_low),
            func.sum(table.c.good_high),
            func.sum(table.c.total),
            func.sum(table.c.excluded),
            func.count(),
        )
        .where(
            table.c.series_id == part.series_id,
            table.c.minute_at_s >= part.since_s,
            table.c.minute_at_s < part.until_s,
        )
        .group_by(grain)
        .order_by(grain)
    )
    for at_s, low, high, total, excluded, count in rows:
        yield max(at_s, part.since_s), int(low), int(high), int(total), int(excluded), count


def _point(sums: NDArray[np.float64], begin_s: int, at_s: int) -> BudgetPoint:
    first, last = np.searchsorted(sums[:, 0], (begin_s, at_s))
    _, low, high, total, allowed = (sums[last] - sums[first]).tolist()
    if not allowed:
        return BudgetPoint(at_s=at_s, remaining_low=None, remaining_high=None)
    return BudgetPoint(
        at_s=at_s,
        remaining_low=1 - (total - low) / allowed,
        remaining_high=1 - (total - high) / allowed,
    )


def _event_count(
    at_s: int, step_s: int, numbers: NDArray[np.int64], away: Iterable[Exclusion]
) -> EventCount:
    low, high, total, excluded, observed = numbers.tolist()
    set_aside = sum(each.minutes_within(at_s, at_s + step_s) for each in away)
    return EventCount(
        since_s=at_s,
        until_s=at_s + step_s,
        bad_low=total - high,
        bad_high=total - low,
        total=total,
        excluded=excluded,
        observed_minutes=observed + set_aside,
        maintenance_minutes=set_aside,
    )


def _seams(
    stretches: Sequence[Stretch], resets: Iterable[ResetRow], since_s: int, until_s: int
) -> list[Seam]:
    definition = stretches[-1].definition
    seams = _revisions(stretches)
    seams += [
        Seam(at_s=whole_minute(row.at_s), kind="reset", text=f"{row.author}: {row.reason}")
        for row in resets
    ]
    if definition.since_s is not None:
        seams.append(Seam(at_s=definition.since_s, kind="start", text="counts since"))
    calendar = definition.objective.calendar
    at_s = since_s
    while calendar is not None and (at_s := calendar.end_s(at_s)) < until_s:
        seams.append(Seam(at_s=at_s, kind="period", text=f"a new {calendar.unit}"))
    return [each for each in seams if since_s <= each.at_s <= until_s]


def _revisions(stretches: Sequence[Stretch]) -> list[Seam]:
    """Where the promise changed, and to what."""
    seams = [
        Seam(at_s=now.since_s, kind="revision", text=_changed(before, now))
        for before, now in pairwise(stretches)
    ]
    for change in stretches[-1].definition.changes if stretches else ():
        text = f"the target is {share(change.target)}"
        seams.append(Seam(at_s=change.since_s, kind="target", text=text))
    return seams


def _changed(before: Stretch, now: Stretch) -> str:
    old, new = before.definition.objective, now.definition.objective
    if sentence(old) == sentence(new):
        return "how it is watched changed"
    return f"{sentence(old)} became {sentence(new)}"


def _spans(away: Iterable[Exclusion]) -> list[tuple[int, int]]:
    return [(each.since_s, each.until_s) for each in away]


def _whole_steps(step_s: int) -> int:
    return max(-(-step_s // GRAIN_S), 1) * GRAIN_S
