"""The HTTP API of what people do about alerts: acknowledge, silence, and what is silenced."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from sqlalchemy import Engine

from alerts.access import Person, responder
from alerts.acknowledgement import Acknowledged, Acknowledgements, OverError
from alerts.api import alert_json
from alerts.ledger import Ledger
from alerts.matcher import matchers_of
from alerts.preview import preview
from alerts.silence import LONGEST_S, Silence, Silences, Wish
from domain.errors import InputError

__all__ = ["response_router", "silence_json"]

_Author = Annotated[str | None, Field(max_length=128, description="Who; a token's name wins.")]
_Lasting = Annotated[
    int | None, Field(gt=0, le=LONGEST_S, description="Seconds from its start on.")
]
_Acting = Annotated[Person, Depends(responder)]


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Matching(_Asked):
    """Matchers that must all match."""

    matchers: Annotated[
        list[Annotated[str, Field(max_length=400)]], Field(min_length=1, max_length=20)
    ] = Field(description="`service=chat`, `replica=~gpu-.*`, `objective=…`, `severity=page`, …")


class SilenceRequest(Matching):
    """A silence; its end is an instant or a length."""

    reason: str = Field(max_length=1000, description="Why; others will ask.")
    author: _Author = None
    starts_at: AwareDatetime | None = Field(default=None, description="Default: now.")
    ends_at: AwareDatetime | None = Field(default=None, description="At most 30 days on.")
    duration_s: _Lasting = None


class AckRequest(_Asked):
    """Somebody takes an alert, or lets go of it."""

    author: _Author = None
    note: str = Field(default="", max_length=1000, description="What is being done.")
    ends_at: AwareDatetime | None = Field(default=None, description="Default: with the alert.")
    duration_s: _Lasting = None


def response_router(
    state: Engine, ledger: Ledger, *, clock: Callable[[], float] = time.time
) -> APIRouter:
    """`/api/v1/silences…` and `/api/v1/alerts/{id}/ack|unack`."""
    routes = APIRouter(prefix="/api/v1", tags=["acknowledgements and silences"])
    _add_silences(routes, state, clock)
    _add_acknowledgements(routes, state, ledger, clock)
    return routes


def _add_silences(routes: APIRouter, state: Engine, clock: Callable[[], float]) -> None:
    silences = Silences(state)

    @routes.get("/silences")
    def listed(limit: Annotated[int, Query(ge=1, le=1000)] = 200) -> dict[str, Any]:
        now_s = clock()
        found = silences.all(at_s=now_s, limit=limit)
        return {"silences": [silence_json(each, now_s) for each in found]}

    @routes.post("/silences", status_code=201)
    def create(asked: SilenceRequest, person: _Acting) -> dict[str, Any]:
        now_s = clock()
        with _refusing():
            wish = _wish(asked, person, int(now_s))
            return silence_json(silences.create(wish, at_s=int(now_s)), now_s)

    @routes.post("/silences/preview")
    def previewed(asked: Matching) -> dict[str, Any]:
        with _refusing():
            found = preview(state, matchers_of(asked.matchers))
        return {
            "alerts": [
                {"id": alert_id, "objective": name, "severity": severity}
                for alert_id, name, severity in found.alerts
            ],
            "objectives": [
                {"id": objective_id, "name": name, "whole": whole}
                for objective_id, name, whole in found.objectives
            ],
        }

    @routes.get("/silences/{silence_id}")
    def one(silence_id: str) -> dict[str, Any]:
        return silence_json(_there(silences.one(silence_id), silence_id), clock())

    @routes.delete("/silences/{silence_id}")
    def end(silence_id: str, person: _Acting) -> dict[str, Any]:
        now_s = clock()
        ended = silences.end(silence_id, by=person.name, at_s=int(now_s))
        return silence_json(_there(ended, silence_id), now_s)


def _add_acknowledgements(
    routes: APIRouter, state: Engine, ledger: Ledger, clock: Callable[[], float]
) -> None:
    acknowledgements = Acknowledgements(state)

    @routes.post("/alerts/{alert_id}/ack")
    def acknowledge(alert_id: str, asked: AckRequest, person: _Acting) -> dict[str, Any]:
        now_s = clock()
        said = Acknowledged(
            by=person.author(asked.author),
            note=asked.note,
            until_s=_ends_s(asked.ends_at, asked.duration_s, int(now_s)),
        )
        with _refusing():
            return _alert(ledger, alert_id, acknowledgements.give(alert_id, said, now_s=now_s))

    @routes.post("/alerts/{alert_id}/unack")
    def withdraw(alert_id: str, asked: AckRequest, person: _Acting) -> dict[str, Any]:
        by = person.author(asked.author)
        with _refusing():
            done = acknowledgements.withdraw(alert_id, by=by, why=asked.note, now_s=clock())
            return _alert(ledger, alert_id, done)


def _alert(ledger: Ledger, alert_id: str, there: object) -> dict[str, Any]:
    record = ledger.alert(alert_id) if there else None
    if record is None:
        raise HTTPException(404, f"there is no alert {alert_id[:400]!r}; see /api/v1/alerts")
    return alert_json(record)


def silence_json(silence: Silence, now_s: float) -> dict[str, Any]:
    """One silence; `ended_by` is empty where it ran its time."""
    return {
        "id": silence.id,
        "state": silence.state(now_s),
        "matchers": [str(each) for each in silence.matchers],
        "author": silence.author,
        "reason": silence.reason,
        "created_at": _rfc3339(silence.created_at_s),
        "starts_at": _rfc3339(silence.starts_at_s),
        "ends_at": _rfc3339(silence.ends_at_s),
        "ended_at": None if silence.ended_at_s is None else _rfc3339(silence.ended_at_s),
        "ended_by": silence.ended_by,
    }


def _wish(asked: SilenceRequest, person: Person, now_s: int) -> Wish:
    starts_s = now_s if asked.starts_at is None else int(asked.starts_at.timestamp())
    ends_s = _ends_s(asked.ends_at, asked.duration_s, max(starts_s, now_s))
    if ends_s is None:
        raise InputError(
            "has no end", where="silence", remedy="Give `ends_at` or `duration_s`, 30 days at most."
        )
    return Wish(
        author=person.author(asked.author),
        reason=asked.reason,
        matchers=matchers_of(asked.matchers),
        starts_at_s=starts_s,
        ends_at_s=ends_s,
    )


def _ends_s(ends_at: datetime | None, duration_s: int | None, begins_s: int) -> int | None:
    if ends_at is not None and duration_s is not None:
        raise HTTPException(422, "give `ends_at` or `duration_s`, not both")
    if ends_at is not None:
        return int(ends_at.timestamp())
    return None if duration_s is None else begins_s + duration_s


@contextmanager
def _refusing() -> Iterator[None]:
    """What cannot be is the asker's mistake, and is answered with the way out."""
    try:
        yield
    except OverError as error:
        raise HTTPException(409, str(error)) from error
    except InputError as error:
        raise HTTPException(422, str(error)) from error


def _there(silence: Silence | None, silence_id: str) -> Silence:
    if silence is None:
        raise HTTPException(404, f"there is no silence {silence_id[:80]!r}; see /api/v1/silences")
    return silence


def _rfc3339(at_s: int) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
