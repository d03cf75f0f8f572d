"""The HTTP API of objectives and alerts: what the ledger says, as JSON."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import PlainTextResponse

from alerts.blame import Blame
from alerts.diagnosed import Diagnosed
from alerts.diagnosis.telling import diagnosis_json
from alerts.evidence import csv_text
from alerts.ledger import AlertRecord, Ledger
from alerts.response import Acknowledgement
from alerts.standing_json import (
    burn_down_json,
    composite_json,
    event_count_json,
    event_json,
    rfc3339,
    standing_json,
)
from domain.objective import DAY_S

__all__ = ["alert_json", "router", "standing_json"]


_MOST_STEPS = 3000
_Instant = Annotated[int | None, Query(ge=0, le=1 << 40, description="Epoch s; default: newest.")]
_Span = Annotated[int, Query(ge=300, le=90 * DAY_S, description="How far back (s).")]
_Step = Annotated[int, Query(ge=300, le=DAY_S, multiple_of=300, description="One point each (s).")]


def router(ledger: Ledger) -> APIRouter:
    """`/api/v1/slos`, `/slos/{id}`, `/alerts`, `/alerts/{id}`."""
    routes = APIRouter(prefix="/api/v1", tags=["objectives and alerts"])

    @routes.get("/slos")
    def slos() -> dict[str, Any]:
        return {"slos": [standing_json(each) for each in ledger.standings(spark_s=0)]}

    @routes.get("/slos/{objective_id}")
    def slo(objective_id: str) -> dict[str, Any]:
        standing = ledger.standing(objective_id)
        if standing is None:
            raise HTTPException(404, f"there is no objective {objective_id!r}; see /api/v1/slos")
        return standing_json(standing)

    _add_details(routes, ledger)
    _add_composites(routes, ledger)

    @routes.get("/alerts")
    def alerts(limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> dict[str, Any]:
        return {"alerts": [alert_json(each) for each in ledger.alerts(limit=limit)]}

    @routes.get("/alerts/{alert_id}")
    def alert(alert_id: str) -> dict[str, Any]:
        record = ledger.alert(alert_id)
        if record is None:
            raise HTTPException(404, f"there is no alert {alert_id!r}; see /api/v1/alerts")
        return {**alert_json(record), "diagnosis": _diagnosis(ledger.diagnosed(alert_id))}

    @routes.get("/alerts/{alert_id}/slices.csv", response_class=PlainTextResponse)
    def slices_csv(alert_id: str) -> PlainTextResponse:
        """The minutes on which it fired and ended, as they counted then."""
        if ledger.alert(alert_id) is None:
            raise HTTPException(404, f"there is no alert {alert_id!r}; see /api/v1/alerts")
        return PlainTextResponse(csv_text(ledger.evidence(alert_id)), media_type="text/csv")

    return routes


def _add_details(routes: APIRouter, ledger: Ledger) -> None:
    """What a promise's page shows."""

    def window(until: int | None, span_s: int, objective_id: str) -> tuple[int, int]:
        standing = ledger.standing(objective_id, spark_s=0)
        if standing is None:
            raise HTTPException(404, f"there is no objective {objective_id!r}; see /api/v1/slos")
        end_s = standing.evaluated_at_s if until is None else until
        return end_s - span_s, end_s

    @routes.get("/slos/{objective_id}/budget")
    def budget(
        objective_id: str, until: _Instant = None, span_s: _Span = 30 * DAY_S, step_s: _Step = 3600
    ) -> dict[str, Any]:
        """The burn-down of the budget: what was left at every step, and where the line breaks."""
        since_s, until_s = window(until, _few(span_s, step_s), objective_id)
        return burn_down_json(ledger.burn_down(objective_id, since_s, until_s, step_s))

    @routes.get("/slos/{objective_id}/events")
    def events(
        objective_id: str, until: _Instant = None, span_s: _Span = DAY_S, step_s: _Step = 300
    ) -> dict[str, Any]:
        """What was counted in every step, and how many a second."""
        since_s, until_s = window(until, _few(span_s, step_s), objective_id)
        found = ledger.event_counts(objective_id, since_s, until_s, step_s)
        return {"events": [event_count_json(each) for each in found]}

    @routes.get("/slos/{objective_id}/history")
    def history(
        objective_id: str, limit: Annotated[int, Query(ge=1, le=1000)] = 200
    ) -> dict[str, Any]:
        """Revisions, resets, maintenance, and what its alerts did; the newest first."""
        window(None, 0, objective_id)
        found = ledger.history(objective_id, limit=limit)
        return {"history": [event_json(each) for each in found]}


def _few(span_s: int, step_s: int) -> int:
    """No more steps than anybody can look at."""
    if span_s // step_s > _MOST_STEPS:
        raise HTTPException(422, f"more than {_MOST_STEPS} steps; ask for a larger step_s")
    return span_s


def _add_composites(routes: APIRouter, ledger: Ledger) -> None:
    @routes.get("/composites")
    def composites() -> dict[str, Any]:
        """The promises made of others, worst first."""
        return {"composites": [composite_json(each) for each in ledger.composites()]}

    @routes.get("/composites/{composite_id}")
    def composite(composite_id: str) -> dict[str, Any]:
        found = ledger.composite(composite_id)
        if found is None:
            raise HTTPException(
                404, f"there is no composite {composite_id!r}; see /api/v1/composites"
            )
        return composite_json(found)


def alert_json(record: AlertRecord) -> dict[str, Any]:
    """One alert; its history is empty in lists."""
    return {
        "id": record.id,
        "objective_id": record.objective_id,
        "objective": record.objective_name,
        "severity": record.severity.value,
        "kind": record.kind,
        "state": "firing" if record.open else "resolved",
        "stale": record.stale,
        "inhibited": record.inhibited,
        "flaps": record.flaps,
        "dedup_key": record.dedup_key,
        "started_at": rfc3339(record.started_at_s),
        "resolved_at": rfc3339(record.resolved_at_s),
        "message": record.message,
        "why": list(record.why),
        "stage": record.stage,
        "labels": dict(record.condition.labels) if record.condition else None,
        "blame": _blame(record.blame),
        "acknowledged": _acknowledgement(record.response.acknowledgement),
        "silenced_by": record.response.silence_id,
        "escalated": record.response.escalated,
        "told": list(record.response.told),
        "history": [
            {
                "at": rfc3339(each.at_s),
                "event": each.event,
                "text": each.text,
                "author": each.author,
            }
            for each in record.history
        ],
    }


def _diagnosis(found: Diagnosed | None) -> dict[str, Any] | None:
    """As `/api/v1/diagnosis` answers: when it fired, and last. `latest` is null until then."""
    if found is None:
        return None
    latest = None if found.latest is None else diagnosis_json(found.latest)
    return {"first": diagnosis_json(found.first), "latest": latest}


def _acknowledgement(taken: Acknowledgement | None) -> dict[str, Any] | None:
    if taken is None:
        return None
    return {
        "by": taken.by,
        "note": taken.note,
        "at": rfc3339(taken.at_s),
        "until": rfc3339(taken.until_s),
    }


def _blame(blame: Blame | None) -> dict[str, Any] | None:
    if blame is None:
        return None
    place = blame.place
    return {
        "stage": blame.stage,
        "per_token": blame.per_token,
        "now_s": blame.now_s,
        "before_s": blame.before_s,
        "share": blame.share,
        "place": place
        and {
            "labels": dict(place.labels),
            "mean_s": place.mean_s,
            "median_s": place.median_s,
            "replicas": place.replicas,
            "stands_out": place.stands_out,
        },
        "not_measured": list(blame.missing),
        "behind": list(blame.behind),
        "next": blame.next_step or None,
    }
