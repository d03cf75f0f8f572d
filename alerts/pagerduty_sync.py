"""Acknowledgements that are given at PagerDuty, taken over.

Ours travel there as events (`alerts.receivers.pagerduty`); theirs are asked for with a REST API key.
PagerDuty cannot take back an acknowledgement by an event: what is withdrawn here stays with whoever
has it there, and only an acknowledgement that is given there later is taken over again.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from alerts.acknowledgement import Acknowledged, Acknowledgements, OverError
from alerts.loop import Loop
from alerts.receivers.attempt import Fate
from alerts.receivers.post import Door
from alerts.receivers.settings import PagerDutySettings
from alerts.tables import AlertEventRow, AlertRow, ResponseRow, ToldRow

__all__ = ["Incident", "PagerDutySync", "incident_of"]

_LOG = logging.getLogger(__name__)
_BASES = {"us": "https://api.pagerduty.com", "eu": "https://api.eu.pagerduty.com"}
_EVERY_S = 10.0
_MOST = 50
_THERE = " at PagerDuty"


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """An open incident there. `by`: the person who has it, since `at_s`; None: nobody has."""

    by: str | None
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Alert:
    id: str
    dedup_key: str
    acknowledged_by: str
    let_go_at_s: int


class PagerDutySync:
    """Asks for each open alert that a PagerDuty receiver with an API key knows of."""

    def __init__(self, state: Engine, receivers: Sequence[object]) -> None:
        self._state = state
        self._acknowledgements = Acknowledgements(state)
        self._asked = [
            (each, Door(timeout_s=each.timeout_s, allow_private=each.allow_private))
            for each in receivers
            if isinstance(each, PagerDutySettings) and each.api_key is not None
        ]
        self._loop = Loop("PagerDuty sync", self.tick)

    def run(
        self,
        stop: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
        cadence_s: float = _EVERY_S,
    ) -> None:
        """Until told to stop; at once where nothing is to be asked."""
        if not self._asked:
            return
        try:
            self._loop.run(stop, clock=clock, cadence_s=cadence_s)
        finally:
            for _, door in self._asked:
                door.close()

    def tick(self, now_s: float) -> None:
        """One look at each incident there."""
        for settings, door in self._asked:
            for alert in list(self._open(settings.name)):
                text = _answer(settings, door, alert.dedup_key, now_s)
                if text is None:
                    break  # why: what is not answered for one is not for the others either
                self._reflect(settings.name, alert, incident_of(text, alert.dedup_key), now_s)

    def _open(self, receiver: str) -> Iterator[_Alert]:
        let_go = (
            select(func.max(AlertEventRow.at_s))
            .where(AlertEventRow.alert_id == AlertRow.id, AlertEventRow.event == "unacknowledged")
            .scalar_subquery()
        )
        with Session(self._state) as session:
            rows = session.execute(
                select(AlertRow.id, AlertRow.dedup_key, ResponseRow.acknowledged_by, let_go)
                .join(ToldRow, ToldRow.alert_id == AlertRow.id)
                .join(ResponseRow, ResponseRow.alert_id == AlertRow.id)
                .where(AlertRow.resolved_at_s.is_(None), ToldRow.receiver == receiver)
                .order_by(AlertRow.started_at_s.desc())
                .limit(_MOST)
            ).all()
        for alert_id, dedup_key, by, let_go_at_s in rows:
            yield _Alert(
                id=alert_id, dedup_key=dedup_key, acknowledged_by=by, let_go_at_s=let_go_at_s or 0
            )

    def _reflect(
        self, receiver: str, alert: _Alert, incident: Incident | None, now_s: float
    ) -> None:
        try:
            if incident is None:
                return
            if incident.by and not alert.acknowledged_by and incident.at_s > alert.let_go_at_s:
                said = Acknowledged(by=f"{incident.by}{_THERE}", source=(receiver,))
                self._acknowledgements.give(alert.id, said, now_s=now_s)
            elif incident.by is None and alert.acknowledged_by.endswith(_THERE):
                by, why = alert.acknowledged_by, "it is triggered there again."
                self._acknowledgements.withdraw(alert.id, by=by, why=why, now_s=now_s)
        except OverError:
            _LOG.info("%s ended while PagerDuty was asked about it", alert.id)


def incident_of(text: str, dedup_key: str) -> Incident | None:
    """The open incident of an alert, in what PagerDuty answers; None: there is none, or no answer."""
    try:
        listed = json.loads(text)["incidents"]
        found = [
            each
            for each in listed
            if each["incident_key"] == dedup_key and each["status"] in ("triggered", "acknowledged")
        ]
        if not found:
            return None
        given = [_given(each) for each in found[0].get("acknowledgements") or ()]
    except (ValueError, KeyError, TypeError, AttributeError):
        _LOG.warning("PagerDuty's answer is not what it says it answers; it is not used")
        return None
    people = [each for each in given if each is not None]
    if found[0]["status"] == "triggered" or not people:
        return None if found[0]["status"] != "triggered" else Incident(by=None, at_s=0.0)
    at_s, by = max(people)
    return Incident(by=by, at_s=at_s)


def _given(said: dict[str, Any]) -> tuple[float, str] | None:
    """When and by whom; None where it was no person: our own event came back."""
    who = said["acknowledger"]
    if not str(who.get("type", "")).startswith("user"):
        return None
    at = datetime.fromisoformat(said["at"])
    name = str(who.get("summary") or "somebody")[:100]
    return at.replace(tzinfo=at.tzinfo or UTC).timestamp(), name


def _answer(settings: PagerDutySettings, door: Door, dedup_key: str, now_s: float) -> str | None:
    if settings.api_key is None:
        return None
    base = settings.api_url.get_secret_value() if settings.api_url else _BASES[settings.region]
    asked = [
        ("incident_key", dedup_key),
        ("statuses[]", "triggered"),
        ("statuses[]", "acknowledged"),
    ]
    headers = {
        "Authorization": f"Token token={settings.api_key.get_secret_value()}",
        "Accept": "application/json",
    }
    target = f"{base.rstrip('/')}/incidents?{urlencode([*asked, ('limit', '3')])}"
    answer = door.get(target, headers, now_s=now_s)
    if answer.attempt.fate is not Fate.DELIVERED:
        _LOG.warning("receiver %s: PagerDuty's API: %s", settings.name, answer.attempt.detail)
        return None
    return answer.text
