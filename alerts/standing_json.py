"""How promises stand, as JSON: stable, documented, with the doubt of every number."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from alerts import wording
from alerts.budget import Budget, Forecast
from alerts.counting import Exclusion
from alerts.definition_codec import indicator_json
from alerts.detail import BurnDown, EventCount, ObjectiveEvent
from alerts.ledger import CompositeStanding, RuleStanding, Standing
from alerts.sentence import sentence
from domain.indicator import GoodputIndicator, Indicator, LatencyIndicator, Limit
from domain.objective import Objective
from domain.slice import Slice, SlicePolicy, Tally

__all__ = [
    "burn_down_json",
    "composite_json",
    "event_count_json",
    "event_json",
    "limits_of",
    "rfc3339",
    "standing_json",
]


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
        "forecast": _forecast(standing.forecast),
        "maintenance": _maintenance(standing.maintenance),
        "last_hour": _tally(standing.last_hour),
        "rules": [_rule(each) for each in standing.rules],
        "evaluated_at": rfc3339(standing.evaluated_at_s),
        "observed_at": rfc3339(standing.observed_at_s),
        "alerts": list(standing.alert_ids),
    }
    if standing.slices:
        answer["slices"] = [_slice(each) for each in standing.slices]
    return answer


def composite_json(standing: CompositeStanding) -> dict[str, Any]:
    """A promise made of others; what is wrong is in its parts."""
    return {
        "id": standing.id,
        "name": standing.name,
        "description": standing.description,
        "state": standing.state.value,
        "target": float(standing.target),
        "weights": [float(weight) for weight in standing.weights],
        "ratio": {"low": _share(standing.ratio_low), "high": _share(standing.ratio_high)},
        "remaining": {
            "low": _share(standing.remaining_low),
            "high": _share(standing.remaining_high),
        },
        "burn": {"low": _share(standing.burn_low), "high": _share(standing.burn_high)},
        "parts": [
            {"id": each.id, "state": each.state.value, "message": each.message}
            for each in standing.parts
        ],
        "missing": list(standing.missing),
    }


def burn_down_json(found: BurnDown) -> dict[str, Any]:
    """What was left at each step, and the seams."""
    return {
        "points": [
            {
                "at": rfc3339(each.at_s),
                "remaining_low": each.remaining_low,
                "remaining_high": each.remaining_high,
            }
            for each in found.points
        ],
        "seams": [
            {"at": rfc3339(each.at_s), "kind": each.kind, "text": each.text} for each in found.seams
        ],
    }


def event_count_json(each: EventCount) -> dict[str, Any]:
    """What was counted in one step."""
    return {
        "since": rfc3339(each.since_s),
        "until": rfc3339(each.until_s),
        "bad_low": each.bad_low,
        "bad_high": each.bad_high,
        "total": each.total,
        "excluded": each.excluded,
        "per_s": each.per_s,
        "observed_minutes": each.observed_minutes,
        "maintenance_minutes": each.maintenance_minutes,
    }


def event_json(each: ObjectiveEvent) -> dict[str, Any]:
    """One thing that happened to a promise."""
    return {
        "at": rfc3339(each.at_s),
        "event": each.event,
        "text": each.text,
        "author": each.author or None,
        "alert_id": each.alert_id,
    }


def rfc3339(at_s: int | None) -> str | None:
    """`2026-03-01T08:00:00Z`."""
    if at_s is None:
        return None
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")


def _objective(objective: Objective) -> dict[str, Any]:
    indicator, calendar = objective.indicator, objective.calendar
    threshold_s = getattr(indicator, "threshold_s", None)
    return {
        "name": objective.name,
        "promise": sentence(objective),
        "kind": indicator_json(indicator)["kind"],
        "metric": getattr(indicator, "metric", None) or None,
        "threshold_s": None if threshold_s is None else float(threshold_s),
        "limits": {each.metric: float(each.threshold_s) for each in limits_of(indicator)},
        "unit": wording.unit(objective),
        "bad": wording.deed(objective),
        "target": float(objective.target),
        "period_s": objective.period_s,
        "calendar": calendar and {"unit": calendar.unit.value, "zone": calendar.zone},
        "slices": _policy(objective.slices),
        "where": dict(indicator.where),
        "min_events": objective.min_events,
        "runbook": objective.runbook or None,
    }


def _policy(policy: SlicePolicy | None) -> dict[str, Any] | None:
    if policy is None:
        return None
    return {"target": float(policy.target), "empty": policy.empty.value}


def limits_of(indicator: Indicator) -> tuple[Limit, ...]:
    """The latencies that a request has to keep."""
    if isinstance(indicator, LatencyIndicator | GoodputIndicator):
        return indicator.limits
    return ()


def _forecast(found: Forecast) -> dict[str, Any]:
    return {
        "exhausted_in_s": {"earliest": found.earliest_s, "latest": found.latest_s},
        "begins_anew_in_s": found.ends_in_s,
    }


def _maintenance(now: Exclusion | None) -> dict[str, Any] | None:
    if now is None:
        return None
    return {"name": now.name, "since": rfc3339(now.since_s), "reason": now.reason or None}


def _budget(budget: Budget) -> dict[str, Any]:
    return {
        "remaining_low": _share(budget.remaining_low),
        "remaining_high": _share(budget.remaining_high),
        "of_period_low": _share(budget.of_period_low),
        "of_period_high": _share(budget.of_period_high),
        "allowed": _share(budget.allowed),
        "spent_low": budget.spent_low,
        "spent_high": budget.spent_high,
        "total": budget.total,
        "period_s": budget.period_s,
        "begun_at": rfc3339(budget.begin_s),
        "begins_anew_at": rfc3339(budget.end_s),
        "counted_since": rfc3339(budget.counted_since_s),
        "maintenance_minutes": budget.excluded_minutes,
    }


def _rule(standing: RuleStanding) -> dict[str, Any]:
    verdict, alert = standing.verdict, standing.alert
    return {
        "name": verdict.rule.name,
        "severity": verdict.rule.severity.value,
        "factor": float(verdict.rule.factor),
        "reason": verdict.reason.value,
        "status": alert.status.value,
        "since": rfc3339(alert.since_s),
        "stale": alert.stale,
        "long": {
            "window_s": verdict.rule.long_s,
            "burn": _burn(standing.long_burn),
            **_tally(verdict.long),
        },
        "short": {
            "window_s": verdict.rule.short_s,
            "burn": _burn(standing.short_burn),
            **_tally(verdict.short),
        },
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
        "at": rfc3339(each.minute_at_s),
        "state": each.state.value,
        "good_low": each.good_low,
        "good_high": each.good_high,
        "total": each.total,
        "excluded": each.excluded,
    }


def _burn(burn: tuple[Fraction, Fraction] | None) -> dict[str, float] | None:
    return None if burn is None else {"low": float(burn[0]), "high": float(burn[1])}


def _share(value: Fraction | None) -> float | None:
    return None if value is None else float(value)
