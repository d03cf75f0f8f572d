"""The minutes on which an alert fired or ended, kept with it: what anybody may check afterwards."""

from __future__ import annotations

import csv
import io
import zlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.course import Course
from alerts.incident import Change, Event
from alerts.tables import EvidenceRow
from domain.slice import MINUTE_S, Slice

__all__ = ["Evidence", "csv_text", "evidence", "evidence_of", "keep"]

_FIELDS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one rule saw when it decided: the minutes of its long window, as they counted then.

    The last `short_s` of them are its short window.
    """

    alert_id: str
    event: str
    at_s: int
    rule: str
    long_s: int
    short_s: int
    slices: Sequence[Slice]


def evidence(course: Course, change: Change) -> Evidence | None:
    """Of a change that was decided just now; None where no windows decided."""
    verdict = change.verdict
    if verdict is None or change.event not in (Event.FIRING, Event.RESOLVED):
        return None
    rule = verdict.rule
    return Evidence(
        alert_id=change.incident.id,
        event=change.event.value,
        at_s=change.at_s,
        rule=rule.name,
        long_s=rule.long_s,
        short_s=rule.short_s,
        slices=course.history.slices(rule.long_s, change.at_s),
    )


def keep(session: Session, found: Iterable[Evidence]) -> None:
    """Written once; the same decision written again is the same row."""
    for each in found:
        identity = (each.alert_id, each.event, each.at_s)
        if session.get(EvidenceRow, identity) is None:
            session.add(
                EvidenceRow(
                    alert_id=each.alert_id,
                    event=each.event,
                    at_s=each.at_s,
                    rule=each.rule,
                    long_s=each.long_s,
                    short_s=each.short_s,
                    minutes=_packed(each.slices),
                )
            )
    session.flush()


def evidence_of(session: Session, alert_id: str) -> list[Evidence]:
    """All that is kept of an alert, in order of time."""
    rows = session.scalars(
        select(EvidenceRow).where(EvidenceRow.alert_id == alert_id).order_by(EvidenceRow.at_s)
    )
    return [
        Evidence(
            alert_id=row.alert_id,
            event=row.event,
            at_s=row.at_s,
            rule=row.rule,
            long_s=row.long_s,
            short_s=row.short_s,
            slices=_unpacked(row.minutes, row.at_s),
        )
        for row in rows
    ]


def csv_text(found: Iterable[Evidence]) -> str:
    """One line per decision and minute; `window`: whether it lay in both windows or the long one."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(
        ("event", "at", "rule", "minute", "window", "state", "good_low", "good_high", "total")
    )
    for each in found:
        for minute in each.slices:
            both = minute.minute_at_s >= each.at_s - each.short_s
            table.writerow(
                (
                    each.event,
                    _rfc3339(each.at_s),
                    each.rule,
                    _rfc3339(minute.minute_at_s),
                    "both" if both else "long",
                    minute.state.value,
                    minute.good_low,
                    minute.good_high,
                    minute.total,
                )
            )
    return text.getvalue()


def _packed(slices: Iterable[Slice]) -> bytes:
    numbers = array("q")
    for each in slices:
        numbers.extend((each.good_low, each.good_high, each.total, each.observed))
    return zlib.compress(numbers.tobytes())


def _unpacked(packed: bytes, until_s: int) -> list[Slice]:
    numbers = array("q", zlib.decompress(packed))
    since_s = until_s - len(numbers) // _FIELDS * MINUTE_S
    rows = zip(*(numbers[column::_FIELDS] for column in range(_FIELDS)), strict=True)
    return [
        Slice(
            minute_at_s=since_s + index * MINUTE_S,
            good_low=low,
            good_high=high,
            total=total,
            observed=bool(observed),
        )
        for index, (low, high, total, observed) in enumerate(rows)
    ]


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
