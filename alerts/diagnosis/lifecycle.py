"""Replicas that begin, end or run out of memory as signals: seen in telemetry, or reported as events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from alerts.change import Change
from alerts.diagnosis.case import Case
from alerts.diagnosis.derived import arrived
from alerts.diagnosis.facts import Aborted, Arrived, Restarted
from alerts.diagnosis.requests import aborted
from alerts.diagnosis.signals import Signal
from collector.query import Freshness, Window
from domain.labels import value_of

__all__ = ["ENDS", "OUT_OF_MEMORY", "STARTS", "ask_ages", "ask_ends", "ask_memory"]

STARTS = ("scale-out", "scale out", "start")
ENDS = ("sigterm", "scale-in", "scale-down", "scale in", "scale down", "shutdown", "drain")
OUT_OF_MEMORY = ("oom", "out of memory", "out-of-memory")
"""Kinds of events (`POST /api/v1/events`) that are understood; `labels.replica` says whose."""

_WARM_S = 300
_HOUR_S = 3600
_DRAIN_S = 60.0
_GONE_S = 30
_LATEST_START_S = 1800


def ask_ages(case: Case) -> None:
    """New replicas, and their first tokens against the others'."""
    until_s = case.now.until_s
    told = _mine(case, Window(since_s=until_s - _HOUR_S, until_s=until_s))
    begun = {
        value_of(each.labels, "replica"): each.since_s
        for fresh in told
        for each in fresh.replicas
        if each.since_s is not None and value_of(each.labels, "replica")
    }
    if not begun:
        return
    # why: of a service that is new as a whole nobody can say who is cold
    whole_is_new = until_s - min(begun.values()) <= _WARM_S
    ages = {
        name: float(_WARM_S + 1 if whole_is_new else until_s - since_s)
        for name, since_s in begun.items()
    }
    case.places[Signal.AGES] = ages
    waits = {
        value_of(each.labels, "replica"): each.ttft.mean_s
        for each in case.replicas
        if each.ttft.mean_s is not None
    }
    if len(waits) > 1:
        case.arrived = [_ready(each, begun, case.events or ()) for each in arrived(ages, waits)]
    if any(each.kind in STARTS for each in case.events or ()):
        case.put(Signal.STARTED_LATE, 1.0)


def _ready(each: Arrived, begun: dict[str, int], events: Iterable[Change]) -> Arrived:
    """With how long after it was asked for it first told of itself."""
    asked = [
        event.at_s
        for event in events
        if event.kind in STARTS
        and value_of(event.labels, "replica") == each.place
        and 0 <= begun[each.place] - event.at_s <= _LATEST_START_S
    ]
    return replace(each, ready_s=float(begun[each.place] - max(asked))) if asked else each


def ask_ends(case: Case) -> None:
    """Workers that were told to end, or fell silent while others went on; and what failed with them."""
    if not case.failed and case.replicas:
        case.restarted = []  # why: whoever ended, no answer was lost
        return
    ends = dict(_vanished(case)) | dict(_reported(case))
    if not ends and case.events is None and not case.levels:
        case.absent[Signal.ENDED] = "no event and no page says so"
        return
    failures = aborted(case.legs()) if ends else []
    case.restarted = [_ended(name, at_s, failures) for name, at_s in sorted(ends.items())]


def _reported(case: Case) -> Iterator[tuple[str, int]]:
    for each in case.events or ():
        if each.kind in ENDS and case.now.since_s - _DRAIN_S <= each.at_s < case.now.until_s:
            yield (
                value_of(each.labels, "replica") or value_of(each.labels, "pool") or "a worker",
                (each.at_s),
            )


def _vanished(case: Case) -> Iterator[tuple[str, int]]:
    """By their pages: a worker that sends only spans may just have nothing to do."""
    down = {each.place for each in case.stood or ()}
    for fresh in _mine(case, case.now):
        for each in fresh.replicas:
            name = value_of(each.labels, "replica")
            silent_s = (fresh.newest_at_s or 0) - each.last_seen_at_s
            if name and name not in down and each.up is not None and silent_s > _GONE_S:
                yield name, each.last_seen_at_s


def _ended(name: str, at_s: int, failures: Sequence[Aborted]) -> Restarted:
    after = sorted(each.at_s - at_s for each in failures if 0 <= each.at_s - at_s <= _DRAIN_S)
    return Restarted(place=name, failures=len(after), first_after_s=after[0] if after else 0.0)


def ask_memory(case: Case) -> None:
    """Whether the host pages, or something was killed for want of memory."""
    killed = [
        each
        for each in case.events or ()
        if each.kind in OUT_OF_MEMORY and case.now.since_s <= each.at_s < case.now.until_s
    ]
    kills = case.reader.numbers("host_memory_kills", case.selection())
    counted = [sum(point.value for each in kills for point in each.points)] if kills else []
    told = [*counted, *([float(len(killed))] if killed else [])]
    if told:
        case.put(Signal.PAGED, max(case.numbers.get(Signal.PAGED, 0.0), *told))


def _mine(case: Case, window: Window) -> list[Freshness]:
    told = case.reader.freshness(window, service=case.service)
    return [each for each in told if each.service == case.service]
