"""Every rule against the signals: what matched is ranked, what could not be judged is named."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from alerts.diagnosis.catalogue import RULES
from alerts.diagnosis.diagnosis import Cause, NotEvaluated
from alerts.diagnosis.roads import ASKED_OF_PEOPLE
from alerts.diagnosis.rule import Confidence, Depth, Finding, Rule, When
from alerts.diagnosis.signals import Baseline, Signal, Signals
from domain.objective import Severity

__all__ = ["FAILED", "MOST_CAUSES", "Judgement", "judge", "judge_one"]

_LOG = logging.getLogger(__name__)

MOST_CAUSES = 3
FAILED = "the rule failed"
"""How what is wrong with a rule itself begins, where others name a signal."""

_SURE = {Confidence.HIGH: 1.0, Confidence.MEDIUM: 0.7, Confidence.LOW: 0.4}
_ELSEWHERE = 0.4
"""A finding at a stage that did not grow is true, and seldom the reason."""
_CONSEQUENCE = 0.4
_LONGEST = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the table says of one set of signals."""

    causes: tuple[Cause, ...]
    contradicted: tuple[Cause, ...]
    savings: tuple[Cause, ...]
    not_evaluated: tuple[NotEvaluated, ...]


_Match = tuple[Rule, Finding]


def judge(signals: Signals, rules: Sequence[Rule] = RULES) -> Judgement:
    """At most three causes; contradicted ones are listed as such and rank nowhere."""
    found = [(rule, judge_one(rule, signals)) for rule in rules]
    matched = [(rule, each) for rule, each in found if isinstance(each, Finding)]
    standing = [one for one in matched if not one[1].contradicted]
    ids = {rule.id for rule, _ in standing}
    cost = [one for one in standing if one[0].when is When.CALM]
    causes = [one for one in standing if one[0].when is not When.CALM]
    causes.sort(key=_rank(signals, ids))
    against = [one for one in matched if one[1].contradicted]
    return Judgement(
        causes=tuple(_cause(*one, signals) for one in causes[:MOST_CAUSES]),
        contradicted=tuple(_cause(*one, signals) for one in against[:MOST_CAUSES]),
        savings=tuple(_cause(*one, signals) for one in cost[:MOST_CAUSES]),
        not_evaluated=tuple(each for _, each in found if isinstance(each, NotEvaluated)),
    )


def judge_one(rule: Rule, signals: Signals) -> Finding | NotEvaluated | None:
    """What it found, that it found nothing, or for want of what it could not be judged."""
    missing = tuple(_missing(rule, signals))
    if missing:
        return NotEvaluated(rule=rule.id, missing=missing)
    if rule.when is When.SLOW and not signals.slow:
        return None
    if rule.when is When.CALM and signals.slow:
        return None
    try:
        return rule.of(signals)
    except Exception as error:  # noqa: BLE001 - why all: it is logged and named, and the others go on
        _LOG.exception("rule %s failed", rule.id)
        why = f"{FAILED} ({type(error).__name__}: {str(error)[:_LONGEST]})"
        return NotEvaluated(rule=rule.id, missing=(why,))


def _missing(rule: Rule, signals: Signals) -> Iterator[str]:
    for signal in rule.needs:
        if not signals.has(signal):
            yield _named(signal, signals)
    if rule.either and not any(signals.has(each) for each in rule.either):
        yield " or ".join(_named(each, signals) for each in rule.either)
    for signal in rule.compares:
        if signals.has(signal) and not signals.had(signal):
            when = "" if signals.baseline is Baseline.NONE else f" ({signals.baseline})"
            yield f"{signal.value} before{when}"
    if rule.at_least:
        requests = signals.get(Signal.REQUESTS)
        if requests is None:
            yield _named(Signal.REQUESTS, signals)
        elif requests < rule.at_least:
            yield f"{requests:.0f} of {rule.at_least} requests"


def _named(signal: Signal, signals: Signals) -> str:
    why = signals.absent.get(signal) or ASKED_OF_PEOPLE.get(signal)
    return f"{signal.value} ({why})" if why else signal.value


def _rank(signals: Signals, ids: set[str]) -> Callable[[_Match], tuple[float, str]]:
    def rank(match: _Match) -> tuple[float, str]:
        rule, finding = match
        score = rule.depth.value * _SURE[finding.confidence]
        stage = finding.stage or rule.stage
        # why roots too: a slow GPU elsewhere is repaired, but it is not what hurts now
        urgent = rule.severity is Severity.PAGE
        if signals.guilty not in (None, stage) and stage is not None and not urgent:
            score *= _ELSEWHERE
        if ids.intersection(rule.yields_to):
            score *= _CONSEQUENCE
        return -score, rule.id

    return rank


def _cause(rule: Rule, finding: Finding, signals: Signals) -> Cause:
    contra = list(finding.contra)
    stage = finding.stage or rule.stage
    elsewhere = signals.guilty is not None and stage not in (None, signals.guilty)
    if elsewhere and rule.depth is not Depth.COST and not finding.contradicted:
        contra.append(f"the stage that grew most is {signals.guilty}")
    return Cause(
        rule=rule.id + finding.variant,
        title=rule.title,
        cause=finding.cause,
        stage=stage,
        place=finding.place,
        confidence=finding.confidence,
        severity=rule.severity,
        evidence=finding.evidence,
        contra=tuple(contra),
        missing=tuple(_named(each, signals) for each in rule.helps if not signals.has(each)),
        next_step=finding.next_step or rule.action,
    )
