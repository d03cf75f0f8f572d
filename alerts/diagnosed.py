"""Why an alert fired, as it was found when it did and as it was found last: kept with the alert."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import ForeignKey, String, Text
from sqlalchemy.orm import Mapped, Session, mapped_column

from alerts.diagnosis.codec import diagnosis_from
from alerts.diagnosis.diagnosis import Diagnosis
from alerts.diagnosis.telling import diagnosis_json
from alerts.tables import Base

__all__ = ["Diagnosed", "DiagnosisRow", "diagnosed_of", "keep_diagnoses"]

_FIRST, _LATEST = "first", "latest"


class DiagnosisRow(Base):
    """One answer to "why?", word for word. `moment`: `first` is never written again."""

    __tablename__ = "alert_diagnosis"
    alert_id: Mapped[str] = mapped_column(ForeignKey("alert.id"), primary_key=True)
    moment: Mapped[str] = mapped_column(String(16), primary_key=True)
    at_s: Mapped[int]
    body: Mapped[str] = mapped_column(Text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosed:
    """`first` is as it was when the alert fired; `latest` is None until it was looked at again."""

    first: Diagnosis
    latest: Diagnosis | None = None

    @property
    def changed(self) -> Diagnosis | None:
        """The latest, where it names other causes than the first."""
        if self.latest is None or _named(self.latest) == _named(self.first):
            return None
        return self.latest


def _named(found: Diagnosis) -> list[tuple[str, str]]:
    return [(each.rule, each.place) for each in found.causes]


def keep_diagnoses(session: Session, found: Iterable[tuple[str, Diagnosis]]) -> None:
    """By alert. One that failed, or had no time for every question, takes no other's place."""
    for alert_id, diagnosis in found:
        body = json.dumps(diagnosis_json(diagnosis))
        first = session.get(DiagnosisRow, (alert_id, _FIRST))
        if first is None or json.loads(first.body)["trouble"]:
            _put(session, alert_id, _FIRST, diagnosis.at_s, body)
        elif not (diagnosis.trouble or diagnosis.hurried) and diagnosis.at_s > first.at_s:
            _put(session, alert_id, _LATEST, diagnosis.at_s, body)
    session.flush()


def _put(session: Session, alert_id: str, moment: str, at_s: int, body: str) -> None:
    row = session.get(DiagnosisRow, (alert_id, moment))
    if row is None:
        session.add(DiagnosisRow(alert_id=alert_id, moment=moment, at_s=at_s, body=body))
    else:
        row.at_s, row.body = at_s, body


def diagnosed_of(session: Session, alert_id: str) -> Diagnosed | None:
    """What is kept of an alert; None: nobody has looked yet, or there is nothing to look for."""
    told = {
        moment: diagnosis_from(json.loads(row.body))
        for moment in (_FIRST, _LATEST)
        if (row := session.get(DiagnosisRow, (alert_id, moment))) is not None
    }
    first = told.get(_FIRST)
    return None if first is None else Diagnosed(first=first, latest=told.get(_LATEST))
