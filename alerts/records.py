"""What alerts keep: courses read from the tables and written back, a whole step at a time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from alerts.budget_records import (
    exclusions,
    last_reset_s,
    parts,
    save_exclusions,
    spending,
)
from alerts.codec import (
    composites_from,
    composites_text,
    definition_from,
    definition_text,
    indicator_text,
    standing_text,
)
from alerts.course import Course, Stretch, history_minutes
from alerts.history import History
from alerts.incident import Incident, Tier
from alerts.promise import Composite, Definition
from alerts.state import Alert, Status
from alerts.tables import (
    AlertRow,
    Base,
    MetaRow,
    MinuteRow,
    PromiseRow,
    RevisionRow,
    RuleRow,
    SeriesRow,
)
from domain.objective import Severity
from domain.slice import Slice

__all__ = [
    "deactivate",
    "forget",
    "incident_from",
    "known_stretches",
    "leaving",
    "load_composites",
    "load_course",
    "minutes",
    "minutes_of",
    "save_composites",
    "save_courses",
    "save_minutes",
    "turn_back",
    "upsert",
]


_COMPOSITES = "composites"
_TABLE = MinuteRow.__table__
_MINUTES = (
    select(
        _TABLE.c.series_id,
        _TABLE.c.minute_at_s,
        _TABLE.c.good_low,
        _TABLE.c.good_high,
        _TABLE.c.total,
        _TABLE.c.excluded,
    )
    .where(
        _TABLE.c.series_id.in_(bindparam("series_ids", expanding=True)),
        _TABLE.c.minute_at_s >= bindparam("since_s"),
        _TABLE.c.minute_at_s < bindparam("until_s"),
    )
    .order_by(_TABLE.c.series_id, _TABLE.c.minute_at_s)
)


def load_course(session: Session, definition: Definition, *, until_s: int) -> Course:
    """The course where it was left; one that begins at `until_s` where it is new."""
    row = session.get(PromiseRow, definition.id)
    evaluated_s = row.evaluated_until_s if row else until_s
    stretches = _stretches(session, definition, since_s=evaluated_s if row else 0)
    series_id = stretches[-1].series_id
    course = Course(
        stretches=stretches,
        history=History(history_minutes(definition), evaluated_s),
        evaluated_until_s=evaluated_s,
        filled_from_s=row.filled_from_s if row else evaluated_s,
    )
    if row is None:
        return course
    if row.revision_id != stretches[-1].revision_id and _series_changed(stretches):
        course.filled_from_s = evaluated_s  # why: the new query has not been asked of the past
    course.observed_at_s = row.observed_at_s
    course.counted_since_s = row.counted_since_s
    course.reset_s = last_reset_s(session, definition.id)
    known = exclusions(session, definition.id)
    course.exclusions = {(each.name, each.since_s): each for each in known}
    stored = minutes(session, series_id, course.history.begin_s, evaluated_s)
    course.history.amend([course.count(each) for each in stored])
    course.spending = spending(session, course)
    course.alerts = _alerts(session, definition)
    course.saved_alerts = dict(course.alerts)
    course.incidents = _incidents(session, definition)
    return course


def save_composites(session: Session, composites: Iterable[Composite]) -> None:
    """What is promised of several together, so that any process can tell how it stands."""
    session.merge(MetaRow(key=_COMPOSITES, value=composites_text(composites)))


def load_composites(session: Session) -> list[Composite]:
    """The same, read back."""
    row = session.get(MetaRow, _COMPOSITES)
    return [] if row is None else composites_from(row.value)


def save_courses(session: Session, courses: Iterable[Course]) -> None:
    """Where each course stands now, and each of its rules that has changed."""
    promises, rules = [], []
    for course in courses:
        if course.definition.maintenance:
            save_exclusions(session, course)
        promises.append(_promise(course))
        rules += [
            _rule(course.definition.id, name, alert)
            for name, alert in course.alerts.items()
            if course.saved_alerts.get(name) != alert
        ]
        course.saved_alerts = dict(course.alerts)
    upsert(session, PromiseRow, promises)
    upsert(session, RuleRow, rules)


def save_minutes(session: Session, fresh: Iterable[tuple[Course, Sequence[Slice]]]) -> None:
    """Observed minutes of these courses; the others have no row."""
    rows = [
        {
            "series_id": course.series_id,
            "minute_at_s": each.minute_at_s,
            "good_low": each.good_low,
            "good_high": each.good_high,
            "total": each.total,
            "excluded": each.excluded,
        }
        for course, slices in fresh
        for each in slices
        if each.observed
    ]
    upsert(session, MinuteRow, rows)


def minutes(session: Session, series_id: int, since_s: int, until_s: int) -> list[Slice]:
    """The observed minutes of a series that begin in [since, until), in order."""
    return minutes_of(session, [series_id], since_s, until_s).get(series_id, [])


def minutes_of(
    session: Session, series_ids: Sequence[int], since_s: int, until_s: int
) -> dict[int, list[Slice]]:
    """The observed minutes of each of these series; a series without any is absent."""
    found: dict[int, list[Slice]] = {}
    rows = session.connection().execute(
        _MINUTES, {"series_ids": list(series_ids), "since_s": since_s, "until_s": until_s}
    )
    for series_id, at_s, low, high, total, excluded in rows:
        found.setdefault(series_id, []).append(
            Slice(minute_at_s=at_s, good_low=low, good_high=high, total=total, excluded=excluded)
        )
    return found


def leaving(session: Session, course: Course, since_s: int, until_s: int) -> list[Slice]:
    """The minutes of [since, until) that count, of the stretches that were in force."""
    found: list[Slice] = []
    for part in parts(course.stretches, since_s, until_s):
        found += minutes(session, part.series_id, part.since_s, part.until_s)
    return found


def forget(session: Session, courses: Iterable[Course], *, before_s: int) -> None:
    """Drops minutes older than the retention, but none that a budget still holds."""
    for course in courses:
        held_s = min(before_s, course.budget_begin_s)
        for series_id in sorted({stretch.series_id for stretch in course.stretches}):
            session.execute(
                delete(MinuteRow).where(
                    MinuteRow.series_id == series_id, MinuteRow.minute_at_s < held_s
                )
            )


def turn_back(session: Session, course: Course, *, until_s: int) -> None:
    """Takes back what was written of minutes from `until_s` on; alerts that are open stay so."""
    for series_id in sorted({stretch.series_id for stretch in course.stretches}):
        session.execute(
            delete(MinuteRow).where(
                MinuteRow.series_id == series_id, MinuteRow.minute_at_s >= until_s
            )
        )
    for table, columns in (
        (PromiseRow, ("evaluated_until_s", "filled_from_s", "observed_at_s", "counted_since_s")),
        (RuleRow, ("since_s", "last_true_s")),
        (RevisionRow, ("since_s",)),
    ):
        for name in columns:
            column = getattr(table, name)
            later = (table.objective_id == course.definition.id) & (column > until_s)
            session.execute(update(table).where(later).values({name: until_s}))


def incident_from(row: AlertRow) -> Incident:
    return Incident(
        objective_id=row.objective_id,
        tier=Tier(row.tier),
        severity=Severity(row.severity),
        key=row.dedup_key,
        started_at_s=row.started_at_s,
        told=row.told,
        inhibited=row.inhibited,
        stale=row.stale,
    )


def upsert(session: Session, table: type[Base], rows: Sequence[Mapping[str, Any]]) -> None:
    """Inserts rows, or replaces those with the same key."""
    if not rows:
        return
    # why not the ORM's bulk insert: it costs more than SQLite itself
    dialect = postgresql if session.get_bind().dialect.name == "postgresql" else sqlite
    keys = [column.name for column in table.__table__.primary_key]
    insert = dialect.insert(table.__table__)
    replaced = {name: insert.excluded[name] for name in rows[0] if name not in keys}
    statement = insert.on_conflict_do_update(index_elements=keys, set_=replaced)
    session.connection().execute(statement, list(rows))


def known_stretches(session: Session, objective_id: str) -> list[Stretch]:
    """What an objective has said so far, in order."""
    rows = session.scalars(
        select(RevisionRow)
        .where(RevisionRow.objective_id == objective_id)
        .order_by(RevisionRow.since_s, RevisionRow.id)
    )
    return [_stretch(row, definition_from(row.definition)) for row in rows]


def _stretches(session: Session, definition: Definition, *, since_s: int) -> list[Stretch]:
    known = known_stretches(session, definition.id)
    if known and known[-1].definition == definition:
        return known
    row = RevisionRow(
        objective_id=definition.id,
        series_id=_series_id(session, definition),
        since_s=since_s,
        target=str(definition.objective.target),
        definition=definition_text(definition),
    )
    session.add(row)
    session.flush()
    return [*known, _stretch(row, definition)]


def _stretch(row: RevisionRow, definition: Definition) -> Stretch:
    return Stretch(
        since_s=row.since_s, series_id=row.series_id, revision_id=row.id, definition=definition
    )


def _series_id(session: Session, definition: Definition) -> int:
    said = indicator_text(definition.objective.indicator)
    found = session.scalar(
        select(SeriesRow.id).where(
            SeriesRow.objective_id == definition.id, SeriesRow.indicator == said
        )
    )
    if found is not None:
        return found
    row = SeriesRow(objective_id=definition.id, indicator=said)
    session.add(row)
    session.flush()
    return row.id


def _series_changed(stretches: Sequence[Stretch]) -> bool:
    return len(stretches) > 1 and stretches[-1].series_id != stretches[-2].series_id


def _alerts(session: Session, definition: Definition) -> dict[str, Alert]:
    rows = session.scalars(select(RuleRow).where(RuleRow.objective_id == definition.id))
    return {
        row.rule: Alert(
            status=Status(row.status),
            since_s=row.since_s,
            last_true_s=row.last_true_s,
            stale=row.stale,
        )
        for row in rows
    }


def _incidents(session: Session, definition: Definition) -> dict[Tier, Incident]:
    rows = session.scalars(
        select(AlertRow).where(
            AlertRow.objective_id == definition.id, AlertRow.resolved_at_s.is_(None)
        )
    )
    return {Tier(row.tier): incident_from(row) for row in rows}


def _promise(course: Course) -> dict[str, Any]:
    return {
        "objective_id": course.definition.id,
        "active": True,
        "revision_id": course.stretches[-1].revision_id,
        "evaluated_until_s": course.evaluated_until_s,
        "filled_from_s": course.filled_from_s,
        "observed_at_s": course.observed_at_s,
        "counted_since_s": course.counted_since_s,
        "standing": standing_text(
            course.verdicts, course.spending, course.last_hour, course.trouble
        ),
    }


def _rule(objective_id: str, rule: str, alert: Alert) -> dict[str, Any]:
    return {
        "objective_id": objective_id,
        "rule": rule,
        "status": alert.status.value,
        "since_s": alert.since_s,
        "last_true_s": alert.last_true_s,
        "stale": alert.stale,
    }


def deactivate(session: Session, kept: Sequence[str]) -> list[AlertRow]:
    """Objectives that are no longer promised; their open alerts are returned, to be ended."""
    gone = PromiseRow.active & PromiseRow.objective_id.not_in(kept)
    ids = session.scalars(select(PromiseRow.objective_id).where(gone)).all()
    session.execute(update(PromiseRow).where(gone).values(active=False))
    session.execute(delete(RuleRow).where(RuleRow.objective_id.in_(ids)))
    still_open = AlertRow.objective_id.in_(ids) & AlertRow.resolved_at_s.is_(None)
    return list(session.scalars(select(AlertRow).where(still_open)))
