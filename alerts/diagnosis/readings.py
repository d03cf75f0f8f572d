"""Latencies, levels and counts of one window, as the numbers and places that rules look at."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.diagnosis.promises import TOKEN_METRICS, Promised
from alerts.diagnosis.signals import Signal
from collector.query import Numbers, Reader, Selection, Stages, Window
from domain.distribution import Distribution, add_all
from domain.labels import Labels, value_of
from domain.request import Stage

__all__ = [
    "KEYS",
    "Told",
    "by_replica",
    "counts_of",
    "latencies_of",
    "levels_of",
    "of_clients",
    "stage_numbers",
]

KEYS = ("pool", "replica", "role")

Told = dict[Signal, float]


def stage_numbers(stages: Stages) -> Told:
    """What the breakdown says of a service."""
    found: Told = {Signal.REQUESTS: float(stages.e2e.n)}
    _quantile(found, Signal.TTFT_P50, stages.ttft, 0.5)
    _quantile(found, Signal.TTFT_P99, stages.ttft, 0.99)
    _quantile(found, Signal.E2E_P50, stages.e2e, 0.5)
    _put(found, Signal.TTFT_MEAN, stages.ttft.mean_s)
    parts = {each.stage: each for each in stages.stages}
    for stage, signal, rank in (
        (Stage.NETWORK, Signal.NETWORK_P50, 0.5),
        (Stage.QUEUE, Signal.QUEUE_P95, 0.95),
        (Stage.QUEUE, Signal.QUEUE_P99, 0.99),
        (Stage.PREFILL, Signal.PREFILL_P95, 0.95),
        (Stage.KV_TRANSFER, Signal.HANDOVER_P50, 0.5),
    ):
        if stage in parts:
            _quantile(found, signal, parts[stage].distribution, rank)
    served = [parts[s].mean_s for s in (Stage.PREFILL, Stage.DECODE) if s in parts]
    known = [each for each in served if each is not None]
    if len(known) == 2:
        found[Signal.SERVED_MEAN] = found[Signal.SERVICE_TIME] = sum(known)
    if parts:
        found[Signal.STAGE_SECONDS] = float(len(parts))
    return found


def latencies_of(
    reader: Reader, where: Labels, window: Window, promised: Sequence[Promised]
) -> Told:
    """First tokens and tokens against what was promised of them, each at its own rank."""
    found: Told = {}
    for metric, signal, limit in (
        ("ttft", Signal.TTFT_P99, Signal.TTFT_PROMISE),
        ("token", Signal.ITL_P99, Signal.ITL_PROMISE),
    ):
        ours = [
            each
            for each in promised
            if (each.metric in TOKEN_METRICS if metric == "token" else each.metric == metric)
        ]
        for promise in sorted(ours, key=lambda each: (each.of_clients, each.threshold_s))[:1]:
            told = _whole(reader, promise.metric, promise.where, window)
            _quantile(found, signal, told, promise.rank)
            found[limit] = promise.threshold_s
    _quantile(found, Signal.ENGINE_TTFT, _whole(reader, "ttft", where, window), 0.5)
    for metric in ("itl", "tpot"):
        told = _whole(reader, metric, where, window)
        if told.n:
            _quantile(found, Signal.ENGINE_ITL, told, 0.5)
            if Signal.ITL_P99 not in found:
                _quantile(found, Signal.ITL_P99, told, 0.99)
            break
    return found


def of_clients(reader: Reader, where: Labels, window: Window) -> tuple[Told, dict[str, float]]:
    """What clients saw, and by region how much longer they waited than the servers say."""
    found: Told = {}
    own = (*where, ("source", "client"))
    _put(found, Signal.CLIENT_E2E_MEAN, _whole(reader, "e2e", own, window).mean_s)
    _quantile(found, Signal.CLIENT_TTFT, _whole(reader, "ttft", own, window), 0.5)
    for metric in ("itl", "tpot"):
        if (told := _whole(reader, metric, own, window)).n:
            _quantile(found, Signal.CLIENT_ITL, told, 0.5)
            break
    asked = Selection(window=window, where=own, by=("region",))
    waits = {
        value_of(each.labels, "region"): middle
        for each in reader.latency("ttft", asked)
        if (middle := _middle(add_all(point.distribution for point in each.points))) is not None
    }
    server_s = _middle(_servers(reader, where, window))
    if waits and server_s is not None:
        return found, {region: max(wait - server_s, 0.0) for region, wait in waits.items()}
    return found, {}


def _servers(reader: Reader, where: Labels, window: Window) -> Distribution:
    # why without a source: spans come before clients where both are there
    return _whole(reader, "ttft", where, window)


def levels_of(reader: Reader, where: Labels, window: Window) -> dict[str, Sequence[Numbers]]:
    """Gauges by replica, in one step; a metric that nobody told is absent."""
    asked = Selection(window=window, where=where, by=KEYS)
    names = ("requests_running", "requests_waiting", "kv_cache_usage")
    told = {name: reader.numbers(name, asked) for name in names}
    return {name: found for name, found in told.items() if found}


def counts_of(reader: Reader, where: Labels, window: Window) -> Told:
    """Counters of a window as rates and shares."""
    length_s = window.until_s - window.since_s
    asked = Selection(window=window, where=where)
    names = (
        "preemptions",
        "prefix_cache_hits",
        "prefix_cache_queries",
        "prompt_tokens",
        "generation_tokens",
        "kv_transfers_failed",
        "requests_finished",
    )
    told = {
        name: value for name in names if (value := _sum(reader.numbers(name, asked))) is not None
    }
    found: Told = {}
    _put(found, Signal.PREEMPTIONS, told.get("preemptions"))
    _put(found, Signal.TRANSFERS_FAILED, told.get("kv_transfers_failed"))
    queries = told.get("prefix_cache_queries", 0.0)
    if "prefix_cache_hits" in told and queries > 0:
        found[Signal.PREFIX_HITS] = told["prefix_cache_hits"] / queries
    if "prompt_tokens" in told:
        found[Signal.PROMPT_TOKENS] = told["prompt_tokens"] / length_s
    finished = told.get("requests_finished", 0.0)
    if finished > 0:
        found[Signal.RATE] = finished / length_s
        if "generation_tokens" in told:
            found[Signal.OUTPUT_MEAN] = told["generation_tokens"] / finished
    return found


def by_replica(levels: Sequence[Numbers], *, last: bool = False) -> dict[str, float]:
    """Mean over the window, or what was last said, by replica."""
    return {
        name: sum(p.last for p in each.points[-1:]) if last else each.points[0].value
        for each in levels
        if each.points and (name := value_of(each.labels, "replica"))
    }


def _sum(told: Sequence[Numbers]) -> float | None:
    return sum(point.value for each in told for point in each.points) if told else None


def _whole(reader: Reader, metric: str, where: Labels, window: Window) -> Distribution:
    told = reader.latency(metric, Selection(window=window, where=where))
    return add_all(point.distribution for each in told for point in each.points)


def _middle(told: Distribution) -> float | None:
    return _at(told, 0.5)


def _quantile(found: Told, signal: Signal, told: Distribution, rank: float) -> None:
    _put(found, signal, _at(told, rank))


def _at(told: Distribution, rank: float) -> float | None:
    """Of an interval its surest end: nothing is accused for what is only possible."""
    got = told.quantile(round(rank, 9))
    if got is None:
        return None
    return got.value_s if got.value_s is not None else got.low_s


def _put(found: Told, signal: Signal, value: float | None) -> None:
    if value is not None:
        found[signal] = value
