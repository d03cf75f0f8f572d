"""Values of alerts as JSON and back: what stands in the columns of the tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from alerts.blame import Blame, Place
from alerts.definition import Definition
from alerts.evaluate import Reason, Verdict
from alerts.history import Spending
from alerts.state import Timers
from domain.indicator import Indicator, LatencyIndicator
from domain.labels import labels_of
from domain.objective import Objective, Severity, burn_rules
from domain.request import Stage
from domain.slice import Tally

__all__ = [
    "blame_from",
    "blame_text",
    "definition_from",
    "definition_text",
    "indicator_text",
    "standing_from",
    "standing_text",
]

_TALLY = ("good_low", "good_high", "total", "minutes", "observed_minutes")


def indicator_text(indicator: Indicator) -> str:
    """What is counted; the same text means the same minutes."""
    return json.dumps([indicator.metric, str(indicator.threshold_s), list(indicator.where)])


def definition_text(definition: Definition) -> str:
    objective, indicator = definition.objective, definition.objective.indicator
    return json.dumps(
        {
            "name": objective.name,
            "metric": indicator.metric,
            "threshold_s": str(indicator.threshold_s),
            "where": dict(indicator.where),
            "target": str(objective.target),
            "period_s": objective.period_s,
            "min_events": objective.min_events,
            "runbook": objective.runbook,
            "description": definition.description,
            "for_s": definition.timers.for_s,
            "keep_firing_s": definition.timers.keep_firing_s,
            "no_data_after_s": definition.no_data_after_s,
            "no_data": definition.no_data and definition.no_data.value,
        }
    )


def definition_from(text: str) -> Definition:
    said = json.loads(text)
    return Definition(
        objective=Objective(
            name=said["name"],
            indicator=LatencyIndicator(
                metric=said["metric"],
                threshold_s=Fraction(said["threshold_s"]),
                where=labels_of(said["where"]),
            ),
            target=Fraction(said["target"]),
            period_s=said["period_s"],
            min_events=said["min_events"],
            runbook=said["runbook"],
        ),
        description=said["description"],
        timers=Timers(for_s=said["for_s"], keep_firing_s=said["keep_firing_s"]),
        no_data_after_s=said["no_data_after_s"],
        no_data=said["no_data"] and Severity(said["no_data"]),
    )


def standing_text(
    verdicts: Sequence[Verdict], spending: Spending, last_hour: Tally, trouble: str
) -> str:
    return json.dumps(
        {
            "verdicts": [
                [
                    each.rule.name,
                    each.reason.name,
                    _tally_list(each.long),
                    _tally_list(each.short),
                    each.holds,
                    each.observed,
                ]
                for each in verdicts
            ],
            "spending": [
                str(spending.allowed),
                spending.spent_low,
                spending.spent_high,
                spending.total,
            ],
            "last_hour": _tally_list(last_hour),
            "trouble": trouble,
        }
    )


def standing_from(text: str, period_s: int) -> tuple[list[Verdict], Spending, Tally, str]:
    said = json.loads(text)
    rules = {rule.name: rule for rule in burn_rules(period_s)}
    verdicts = [
        Verdict(
            rule=rules[name],
            reason=Reason[reason],
            long=_tally(long),
            short=_tally(short),
            holds=holds,
            observed=observed,
        )
        for name, reason, long, short, holds, observed in said["verdicts"]
    ]
    allowed, low, high, total = said["spending"]
    return (
        verdicts,
        Spending(Fraction(allowed), low, high, total),
        _tally(said["last_hour"]),
        said.get("trouble", ""),  # why get: an earlier version did not write it
    )


def blame_text(blame: Blame | None) -> str:
    if blame is None:
        return ""
    place = blame.place
    return json.dumps(
        {
            "stage": blame.stage,
            "now_s": blame.now_s,
            "before_s": blame.before_s,
            "share": blame.share,
            "missing": list(blame.missing),
            "next_step": blame.next_step,
            "per_token": blame.per_token,
            "behind": list(blame.behind),
            "place": place
            and {
                "labels": dict(place.labels),
                "mean_s": place.mean_s,
                "median_s": place.median_s,
                "replicas": place.replicas,
            },
        }
    )


def blame_from(text: str) -> Blame | None:
    if not text:
        return None
    said: dict[str, Any] = json.loads(text)
    place = said.pop("place")
    return Blame(
        **{
            **said,
            "stage": said["stage"] and Stage(said["stage"]),
            "missing": tuple(Stage(stage) for stage in said["missing"]),
            "behind": tuple(said.get("behind", ())),
            "place": place and Place(**{**place, "labels": labels_of(place["labels"])}),
        }
    )


def _tally_list(tally: Tally) -> list[int]:
    return [getattr(tally, name) for name in _TALLY]


def _tally(values: Sequence[int]) -> Tally:
    return Tally(**dict(zip(_TALLY, values, strict=True)))
