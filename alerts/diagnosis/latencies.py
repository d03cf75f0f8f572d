"""Latencies as signals: stages and quantiles now and before, engines that stood, and where it is worst."""

from __future__ import annotations

from alerts.blame import blame
from alerts.diagnosis import readings
from alerts.diagnosis.case import Case
from alerts.diagnosis.derived import suspicious
from alerts.diagnosis.facts import Stood
from alerts.diagnosis.places import token_seconds, worst_places
from alerts.diagnosis.promises import TOKEN_METRICS
from alerts.diagnosis.signals import Signal
from collector.query import Selection, Stages, Window
from domain.condition import ConditionKind, next_step, sentence
from domain.labels import value_of
from domain.request import Stage

__all__ = ["ask_conditions", "ask_latencies", "ask_stages", "ask_tokens"]

_QUARTER_S = 900
_MINUTE_S = 60


def ask_stages(case: Case) -> None:
    """Where the time goes: of all, of each replica, and before."""
    case.stages = _whole(case, case.now)
    if case.looked.before is not None:
        case.stages_before = _whole(case, case.looked.before)
    case.replicas = case.reader.stages(case.selection(readings.KEYS))
    roles = {value_of(each.labels, "role") for each in case.replicas}
    if roles:
        case.put(Signal.POOL_SHAPE, float(bool(roles & {"prefill", "decode"})))
    if case.replicas and not case.failed:
        case.aborted = ()
    if case.looked.broken:
        case.guilty = _guilty(case)
    case.worst = worst_places(case.replicas)


def _whole(case: Case, window: Window) -> Stages | None:
    asked = Selection(window=window, where=case.where)
    return next(iter(case.reader.stages(asked)), None)


def _guilty(case: Case) -> Stage | None:
    """The stage that grew most of those the worst broken promise is about."""
    metric = case.looked.broken[0].metric
    if metric in TOKEN_METRICS:
        return Stage.DECODE
    found = blame(metric, case.stages, case.stages_before)
    return found.stage if found.share is not None else None


def ask_latencies(case: Case) -> None:
    """Quantiles against what was promised of them, and counters as rates."""
    for stages, window, into in (
        (case.stages, case.now, case.numbers),
        (case.stages_before, case.looked.before, case.before),
    ):
        if stages is not None and window is not None:
            into.update(readings.stage_numbers(stages))
            into.update(readings.latencies_of(case.reader, case.where, window, case.promised))
            into.update(readings.counts_of(case.reader, case.where, window))
    if case.numbers.get(Signal.PREEMPTIONS):
        case.put(Signal.PREEMPTED_MINUTES, _preempted_minutes(case))
    if case.stages is not None and Signal.RATE not in case.numbers:
        finished = case.stages.flow.finished
        seconds = case.now.until_s - case.now.since_s
        case.put(Signal.RATE, finished / seconds if finished else None)


def _preempted_minutes(case: Case) -> float:
    """How many minutes in a row saw requests thrown out, at most."""
    longest = run = 0
    for each in case.reader.numbers("preemptions", case.selection(step_s=_MINUTE_S)):
        for point in each.points:
            run = run + 1 if point.value > 0 else 0
            longest = max(longest, run)
    return float(longest)


def ask_conditions(case: Case) -> None:
    """Engines that stand still or do not answer, and those that did until just now."""
    found = case.reader.conditions(
        case.now.until_s,
        where=case.where,
        kinds=(ConditionKind.STALLED, ConditionKind.DOWN),
        over_within_s=_QUARTER_S,
    )
    case.stood = [
        Stood(
            place=value_of(each.labels, "replica") or value_of(each.labels, "service"),
            sentence=sentence(each, at_s=case.now.until_s),
            next_step=next_step(each),
            down=each.kind is ConditionKind.DOWN,
            over=each.over,
            role=value_of(each.labels, "role"),
        )
        for each in found
    ]


def ask_tokens(case: Case) -> None:
    """Whether a replica takes longer per token than its like; where none does, nobody is slow."""
    tokens = {
        each.labels: mean_s
        for each in case.reader.latency("tpot", case.selection(readings.KEYS))
        for point in each.points[:1]
        if (mean_s := point.distribution.mean_s) is not None
    }
    case.suspect = suspicious(tokens)
    if case.suspect is False:
        case.speeds = ()
    if place := token_seconds(tokens):
        case.worst[Stage.DECODE] = place
