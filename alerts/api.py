"""The HTTP API of objectives and alerts: what the ledger says, as JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query

from alerts.blame import Blame
from alerts.ledger import AlertRecord, Budget, Ledger, RuleStanding, Standing
from domain.objective import Objective
from domain.slice import Slice, Tally

__all__ = ["alert_json", "router", "standing_json"]


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

    @routes.get("/alerts")
    def alerts(limit: Annotated[int, Query(ge=1, le=1000)] = 100) -> dict[str, Any]:
        return {"alerts": [alert_json(each) for each in ledger.alerts(limit=limit)]}

    @routes.get("/alerts/{alert_id}")
    def alert(alert_id: str) -> dict[str, Any]:
        record = ledger.alert(alert_id)
        if record is None:
            raise HTTPException(404, f"there is no alert {alert_id!r}; see /api/v1/alerts")
        return alert_json(record)

    return routes


def standing_json(standing: Standing) -> dict[str, Any]:
    """One promise. Shares are 0 to 1; low and high are equal where the source is exact."""
    answer: dict[str, Any] = {
        "id": standing.id,
        "objective": _objective(standing.objective),
        "description": standing.description,
        "state": standing.state.value,
        "stale": standing.stale,
        "trouble": standing.trouble or None,
        "message": standing.message,
        "budget": _budget(standing.budget),
        "burn": {"low": _share(standing.burn_low), "high": _share(standing.burn_high)},
        "exhausted_in_s": standing.exhausted_in_s,
        "last_hour": _tally(standing.last_hour),
        "rules": [_rule(each) for each in standing.rules],
        "evaluated_at": _rfc3339(standing.evaluated_at_s),
        "observed_at": _rfc3339(standing.observed_at_s),
        "alerts": list(standing.alert_ids),
    }
    if standing.slices:
        answer["slices"] = [_slice(each) for each in standing.slices]
    return answer


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
        "started_at": _rfc3339(record.started_at_s),
        "resolved_at": _rfc3339(record.resolved_at_s),
        "message": record.message,
        "why": list(record.why),
        "stage": record.stage,
        "labels": dict(record.condition.labels) if record.condition else None,
        "blame": _blame(record.blame),
        "history": [
            {"at": _rfc3339(each.at_s), "event": each.event, "text": each.text}
            for each in record.history
        ],
    }


def _objective(objective: Objective) -> dict[str, Any]:
    return {
        "name": objective.name,
        "metric": objective.indicator.metric,
        "threshold_s": float(objective.indicator.threshold_s),
        "target": float(objective.target),
        "period_s": objective.period_s,
        "where": dict(objective.indicator.where),
        "min_events": objective.min_events,
        "runbook": objective.runbook or None,
    }


def _budget(budget: Budget) -> dict[str, Any]:
    return {
        "remaining_low": _share(budget.remaining_low),
        "remaining_high": _share(budget.remaining_high),
        "allowed": _share(budget.allowed),
        "spent_low": budget.spent_low,
        "spent_high": budget.spent_high,
        "total": budget.total,
        "period_s": budget.period_s,
        "counted_since": _rfc3339(budget.counted_since_s),
    }


def _rule(standing: RuleStanding) -> dict[str, Any]:
    verdict, alert = standing.verdict, standing.alert
    return {
        "name": verdict.rule.name,
        "severity": verdict.rule.severity.value,
        "factor": float(verdict.rule.factor),
        "reason": verdict.reason.value,
        "status": alert.status.value,
        "since": _rfc3339(alert.since_s),
        "stale": alert.stale,
        "long": {"window_s": verdict.rule.long_s, **_tally(verdict.long)},
        "short": {"window_s": verdict.rule.short_s, **_tally(verdict.short)},
    }


def _tally(tally: Tally) -> dict[str, int]:
    return {
        "bad_low": tally.bad_low,
        "bad_high": tally.bad_high,
        "total": tally.total,
        "minutes": tally.minutes,
        "observed_minutes": tally.observed_minutes,
    }


def _slice(each: Slice) -> dict[str, Any]:
    return {
        "at": _rfc3339(each.minute_at_s),
        "state": each.state.value,
        "good_low": each.good_low,
        "good_high": each.good_high,
        "total": each.total,
        "excluded": each.excluded,
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


def _share(value: Fraction | None) -> float | None:
    return None if value is None else float(value)


def _rfc3339(at_s: int | None) -> str | None:
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")
