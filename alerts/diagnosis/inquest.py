"""The whole question: why a service is slow at an instant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from alerts.change import Change
from alerts.diagnosis.diagnosis import Diagnosis, StageLine
from alerts.diagnosis.gathering import TOO_LATE, Gathered, gather
from alerts.diagnosis.judgement import judge
from alerts.diagnosis.promises import Promised, promised_by
from alerts.diagnosis.windows import Looked, look
from alerts.promise import Definition
from collector.query import Reader, Stages, Window
from domain.errors import InputError
from domain.objective import Severity
from domain.request import Stage

__all__ = ["BUDGET_S", "diagnose", "diagnose_asked", "diagnose_window"]

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


def diagnose_asked(
    reader: Reader,
    asked: str | None,
    at_s: int,
    definitions: Sequence[Definition] = (),
    *,
    events: Callable[[str], Sequence[Change] | None] = lambda _: None,
) -> Diagnosis:
    """Of the service that is named; where none is, of the one that is worst off.

    `events` gives what others reported of a service.
    """
    heard = _heard(reader, asked, at_s)
    until_s = time.monotonic() + BUDGET_S * 2
    found: list[Diagnosis] = []
    for name in heard:
        left_s = until_s - time.monotonic()
        if found and left_s <= 0:
            break
        budget_s = min(BUDGET_S, max(left_s, 0.0))
        one = diagnose(reader, name, at_s, definitions, events=events(name), budget_s=budget_s)
        found.append(one)
    worst = max(found, key=_badness)
    known = {each.service: each.slow for each in found}
    return replace(
        worst, others=tuple((name, known.get(name)) for name in heard if name != worst.service)
    )


def _badness(found: Diagnosis) -> tuple[bool, bool, int]:
    """Slow before well, paged before noted, many causes before few."""
    pages = any(each.severity is Severity.PAGE for each in found.causes)
    return found.slow, pages, len(found.causes)


def _heard(reader: Reader, asked: str | None, at_s: int) -> list[str]:
    """The services that are meant."""
    hour = Window(since_s=max(at_s - _HOUR_S, 0), until_s=max(at_s, 1))
    known = [name for name in reader.label_values("service", hour) if name]
    if asked is None and known:
        return known
    if asked is not None and asked in known:
        return [asked]
    told = ", ".join(known[:_MOST_NAMED]) or "none"
    raise InputError(
        "nothing was heard of any" if asked is None else f"nothing was heard of {asked!r}",
        where="service",
        remedy=f"Services heard of in the hour before: {told}.",
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
        hurried=TOO_LATE in found.signals.absent.values(),
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
