"""What engines' pages say as signals: batches, queues, caches, slots, CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from alerts.diagnosis import readings
from alerts.diagnosis.case import Case
from alerts.diagnosis.derived import arrivals, of_one_pool, prefill_load, typical
from alerts.diagnosis.samples import STEP_S
from alerts.diagnosis.signals import Signal
from collector.query import Numbers
from domain.labels import value_of

__all__ = ["ask_batches", "ask_configuration", "ask_cpu", "ask_levels"]

_FEWEST_STEPS = 6
_TWO_MINUTES_S = 120
_BULK = frozenset(("batch", "bulk", "offline"))
_CHAT_ON_CHAT, _BULK_ON_CHAT, _CHAT_ON_BULK = 0.0, 1.0, 2.0


def ask_levels(case: Case) -> None:
    """Running, waiting and KV by replica; arrivals from what ended and what is still inside."""
    case.levels = levels = readings.levels_of(case.reader, case.where, case.now)
    running, waiting = levels.get("requests_running", ()), levels.get("requests_waiting", ())
    _flight(case, running, waiting)
    if kv := levels.get("kv_cache_usage"):
        usage = _fullest(case)
        case.places[Signal.KV_USAGE] = usage
        case.put(Signal.KV_USAGE, max(usage.values()))
        _halves(case, kv, running)
    case.put(Signal.PREFILL_LOAD, prefill_load(case.replicas))
    case.put(Signal.ARRIVALS, arrivals(case.stages, running, waiting, case.now))
    if case.looked.before is None:
        return
    then = readings.levels_of(case.reader, case.where, case.looked.before)
    ran, waited = then.get("requests_running", ()), then.get("requests_waiting", ())
    case.put_before(Signal.ARRIVALS, arrivals(case.stages_before, ran, waited, case.looked.before))
    if serving := _serving(ran):
        case.put_before(Signal.RUNNING_P50, typical(readings.by_replica(serving)))
    if waited:
        case.put_before(Signal.WAITING, sum(readings.by_replica(waited).values()))


def _fullest(case: Case) -> dict[str, float]:
    """Of each replica the fullest two minutes: a moment at 99 % is what a cache is for."""
    asked = case.selection(("replica",), step_s=_TWO_MINUTES_S)
    return {
        value_of(each.labels, "replica"): max(point.value for point in each.points)
        for each in case.reader.numbers("kv_cache_usage", asked)
    }


def _serving(levels: Sequence[Numbers]) -> list[Numbers]:
    """Those that answer: a replica that only fills holds nobody's stream."""
    return [each for each in levels if value_of(each.labels, "role") != "prefill"]


def _flight(case: Case, running: Sequence[Numbers], waiting: Sequence[Numbers]) -> None:
    if waits := readings.by_replica(waiting):
        case.put(Signal.WAITING, sum(waits.values()))
        case.places[Signal.WAITING_BY] = of_one_pool(waiting, waits)
    runs = readings.by_replica(_serving(running))
    if runs:
        case.places[Signal.RUNNING_BY] = runs
        case.put(Signal.INSTANCES, float(len(runs)))
        case.put(Signal.RUNNING_P50, typical(runs))
        case.put(Signal.IN_FLIGHT, sum(runs.values()))
        _streams(case, sum(runs.values()) + case.numbers.get(Signal.WAITING, 0.0))


def _streams(case: Case, inside: float) -> None:
    """What engines hold, where each that answers also tells: else most would be missed."""
    answers = {value_of(each.labels, "replica") for each in case.replicas if each.e2e.n}
    silent = answers - {
        value_of(each.labels, "replica") for each in case.levels.get("requests_running", ())
    }
    if silent:
        case.absent[Signal.STREAMS] = f"no page of {', '.join(sorted(silent)[:3])}"
    else:
        case.put(Signal.STREAMS, inside)


def _halves(case: Case, kv: Sequence[Numbers], running: Sequence[Numbers]) -> None:
    """Of a split service: how full decode is, and blocks that prefill keeps for nobody."""
    ran = readings.by_replica(running)
    decode = [each.points[0].value for each in kv if value_of(each.labels, "role") == "decode"]
    if decode:
        case.put(Signal.DECODE_KV, fmean(decode))
    prefill = {
        value_of(each.labels, "replica"): each.points[0].low
        for each in kv
        if value_of(each.labels, "role") == "prefill"
    }
    if prefill:
        case.places[Signal.STRANDED_KV] = {
            name: held for name, held in prefill.items() if ran.get(name) == 0
        }


def ask_batches(case: Case) -> None:
    """How many ran on each replica in each step, and whether all together were steady."""
    serving = {
        value_of(each.labels, "replica")
        for each in _serving(case.levels.get("requests_running", ()))
    }
    told = case.reader.numbers("requests_running", case.selection(("replica",), step_s=STEP_S))
    case.batches = {
        value_of(each.labels, "replica"): {
            point.since_s // STEP_S * STEP_S: point.value for point in each.points
        }
        for each in told
    }
    together = _together({name: case.batches.get(name, {}) for name in serving})
    if len(together) < _FEWEST_STEPS:
        case.absent[Signal.IN_FLIGHT_SPREAD] = f"{len(together)} of {_FEWEST_STEPS} readings"
    elif (mean := fmean(together)) > 0:
        case.put(Signal.IN_FLIGHT_SPREAD, pstdev(together) / mean)


def _together(batches: Mapping[str, Mapping[int, float]]) -> list[float]:
    """The sum over all in each step in which all told."""
    if not batches:
        return []
    steps = set.intersection(*(set(each) for each in batches.values()))
    return [sum(each[step] for each in batches.values()) for step in sorted(steps)]


def ask_configuration(case: Case) -> None:
    """What the operator says of the engines: slots, and for whom they were tuned."""
    slots = [value for value in case.gauge("request_slots").values() if value > 0]
    if slots:
        case.put(Signal.SLOTS, fmean(slots))
    profiles = set(case.gauge("batch_profile").values())
    if profiles:
        case.put(Signal.PROFILE, _misfit(case, bulk=1.0 in profiles))
    swapped = case.gauge("requests_swapped")
    if swapped:
        case.put(Signal.PAGED, max(swapped.values()))


def _misfit(case: Case, *, bulk: bool) -> float | None:
    """How traffic and profile go together; None where nobody says what the traffic is for."""
    asked = case.selection(("use_case",))
    named = {value_of(each.labels, "use_case"): each.e2e.n for each in case.reader.stages(asked)}
    known = {name: count for name, count in named.items() if name}
    if not known:
        case.absent[Signal.PROFILE] = "no request says its use_case"
        return None
    of_bulk = sum(count for name, count in known.items() if name in _BULK)
    is_bulk = of_bulk * 2 > sum(known.values())
    if is_bulk == bulk:
        return _CHAT_ON_CHAT
    return _BULK_ON_CHAT if is_bulk else _CHAT_ON_BULK


def ask_cpu(case: Case) -> None:
    """The busiest API server's share of one core."""
    window_s = case.now.until_s - case.now.since_s
    used = {
        value_of(each.labels, "replica"): sum(point.value for point in each.points) / window_s
        for each in case.reader.numbers("process_cpu", case.selection(("replica",)))
    }
    if used:
        case.places[Signal.CPU_CORE] = used
        case.put(Signal.CPU_CORE, max(used.values()))
