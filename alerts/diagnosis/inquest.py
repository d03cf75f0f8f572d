"""The whole question: why a service is slow at an instant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alerts.change import Change
from alerts.diagnosis.diagnosis import Diagnosis, StageLine
from alerts.diagnosis.gathering import Gathered, gather
from alerts.diagnosis.judgement import judge
from alerts.diagnosis.promises import Promised, promised_by
from alerts.diagnosis.windows import Looked, look
from alerts.promise import Definition
from collector.query import Reader, Stages, Window
from domain.errors import InputError
from domain.request import Stage

__all__ = ["BUDGET_S", "diagnose", "diagnose_window", "service_of"]

_HOUR_S = 3600
_MOST_NAMED = 20

BUDGET_S = 2.0
"""No further question is begun after so long."""


def diagnose(
    reader: Reader,
    service: str,
    at_s: int,
    definitions: Iterable[Definition] = (),
    *,
    events: Sequence[Change] | None = None,
    budget_s: float = BUDGET_S,
) -> Diagnosis:
    """Of the minutes up to `at_s`, against the same hour last week or the calm before."""
    promised = promised_by(definitions, service)
    looked = look(reader, service, promised, at_s)
    return diagnose_window(
        reader, service, looked, promised, at_s=at_s, events=events, budget_s=budget_s
    )


def service_of(reader: Reader, asked: str | None, at_s: int) -> str:
    """The service that is meant; nobody needs to name the only one."""
    hour = Window(since_s=max(at_s - _HOUR_S, 0), until_s=max(at_s, 1))
    known = [name for name in reader.label_values("service", hour) if name]
    if asked is None and len(known) == 1:
        return known[0]
    if asked in known and asked is not None:
        return asked
    heard = ", ".join(known[:_MOST_NAMED]) or "none"
    raise InputError(
        "names no service" if asked is None else f"nothing was heard of {asked!r}",
        where="service",
        remedy=f"Services heard of in the hour before: {heard}.",
    )


def diagnose_window(
    reader: Reader,
    service: str,
    looked: Looked,
    promised: Sequence[Promised],
    *,
    at_s: int,
    events: Sequence[Change] | None = None,
    budget_s: float = BUDGET_S,
) -> Diagnosis:
    """The same of a window that is known already."""
    found = gather(reader, service, looked, promised, events=events, budget_s=budget_s)
    judged = judge(found.signals)
    return Diagnosis(
        at_s=at_s,
        service=service,
        since_s=looked.now.since_s,
        until_s=looked.now.until_s,
        slow=found.signals.slow,
        baseline=looked.baseline,
        stages=_lines(found),
        causes=judged.causes,
        contradicted=judged.contradicted if found.signals.slow else (),
        savings=judged.savings,
        not_evaluated=judged.not_evaluated,
    )


def _lines(found: Gathered) -> tuple[StageLine, ...]:
    now, before = _means_s(found.now), _means_s(found.before)
    grown = {s: mean_s - before[s] for s, mean_s in now.items() if s in before}
    total_s = sum(max(each, 0.0) for each in grown.values())
    missing = {} if found.now is None else dict(found.now.reasons)
    return tuple(
        StageLine(
            stage=stage,
            mean_s=now.get(stage),
            before_s=before.get(stage),
            share_of_growth=max(grown[stage], 0.0) / total_s
            if stage in grown and total_s
            else None,
            reason=str(missing.get(stage, "")),
        )
        for stage in Stage
        if stage in now or stage in missing
    )


def _means_s(stages: Stages | None) -> dict[Stage, float]:
    parts = () if stages is None else stages.stages
    return {each.stage: each.mean_s for each in parts if each.mean_s is not None}
