"""A diagnosis from the JSON in which it was given out: what an alert keeps of its first minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from alerts.diagnosis.diagnosis import Cause, Diagnosis, NotEvaluated, StageLine
from alerts.diagnosis.rule import Confidence
from alerts.diagnosis.signals import Baseline
from domain.objective import Severity
from domain.request import Stage

__all__ = ["diagnosis_from"]


def diagnosis_from(said: Mapping[str, Any]) -> Diagnosis:
    """The inverse of `diagnosis_json`."""
    return Diagnosis(
        at_s=_instant_s(said["at"]),
        service=said["service"],
        since_s=_instant_s(said["from"]),
        until_s=_instant_s(said["to"]),
        slow=said["slow"],
        baseline=Baseline(said["baseline"] or ""),
        stages=tuple(
            StageLine(
                stage=Stage(each["stage"]),
                mean_s=each["mean_s"],
                before_s=each["before_s"],
                share_of_growth=each["share_of_growth"],
                reason=each["missing_because"] or "",
            )
            for each in said["stages"]
        ),
        causes=_causes(said["causes"]),
        contradicted=_causes(said["contradicted"]),
        savings=_causes(said["savings"]),
        not_evaluated=tuple(
            NotEvaluated(rule=each["rule"], missing=tuple(each["missing"]))
            for each in said["not_evaluated"]
        ),
        trouble=said["trouble"] or "",
        hurried=said.get("hurried", False),
    )


def _causes(said: Sequence[Mapping[str, Any]]) -> tuple[Cause, ...]:
    return tuple(
        Cause(
            rule=each["rule"],
            title=each["title"],
            cause=each["cause"],
            stage=None if each["stage"] is None else Stage(each["stage"]),
            place=each["place"] or "",
            confidence=Confidence(each["confidence"]),
            severity=Severity(each["severity"]),
            evidence=tuple(each["evidence"]),
            contra=tuple(each["contra"]),
            missing=tuple(each["missing"]),
            next_step=each["next"],
        )
        for each in said
    )


def _instant_s(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())
