"""Whether the GPUs of an engine compute anything: the evidence for and against a wedged engine."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median

from collector.gpu_tiles import heard, newest, uuids
from collector.query import Window
from collector.schema import TIERS_S
from collector.snapshot import Snapshot
from domain.condition import FRESH_S
from domain.labels import value_of
from domain.metric import METRICS
from domain.wedge import GpuSign, Wedge, wedge

__all__ = ["Progress", "gpus_of", "progress", "resting_w", "wedge_of"]

Place = tuple[str, str]
"""Service and replica."""

_NS = 1_000_000_000
_LOOKBACK_S = 900
_RESTED_S = 86_400
_SIGNS = ("gpu_power", "gpu_tensor_active", "gpu_dram_bandwidth")


@dataclass(frozen=True, slots=True)
class Progress:
    """How many requests an engine runs, and for how long it has made no token of any kind."""

    running: float | None = None
    flat_s: float | None = None


def wedge_of(snapshot: Snapshot, gpus: Collection[str], told: Progress, *, at_s: int) -> Wedge:
    """The verdict; the GPUs are asked only where requests run and no token comes."""
    found = wedge(requests_running=told.running, flat_s=told.flat_s, gpus=())
    if not found.evidence:
        return found
    signs = _signs(snapshot, gpus, at_s)
    return wedge(requests_running=told.running, flat_s=told.flat_s, gpus=signs)


def gpus_of(snapshot: Snapshot, at_s: int) -> dict[Place, tuple[str, ...]]:
    """The GPUs of each replica, as told in the last quarter of an hour."""
    by_id = snapshot.labels.by_id
    found: defaultdict[Place, set[str]] = defaultdict(set)
    for number in heard(snapshot, "gpu_serves", _before(at_s, _LOOKBACK_S)):
        own = by_id[number]
        found[value_of(own, "service"), value_of(own, "replica")].add(value_of(own, "gpu_uuid"))
    return {place: tuple(sorted(own)) for place, own in found.items()}


def progress(snapshot: Snapshot, at_s: int) -> dict[Place, Progress]:
    """By replica, from what its engine's page says of requests and tokens."""
    by_id = snapshot.labels.by_id
    running: defaultdict[Place, float] = defaultdict(float)
    fresh = newest(snapshot, ("requests_running",), _before(at_s, FRESH_S))["requests_running"]
    for number, level in fresh.items():
        own = by_id[number]
        running[value_of(own, "service"), value_of(own, "replica")] += level.value
    still = _still(snapshot, at_s)
    return {
        place: Progress(running=running.get(place), flat_s=still.get(place))
        for place in {*running, *still}
    }


def _still(snapshot: Snapshot, at_s: int) -> dict[Place, float]:
    """For how long neither prompt nor output tokens grew; at least, where they never did."""
    by_id = snapshot.labels.by_id
    moved: defaultdict[Place, dict[str, tuple[int, int]]] = defaultdict(dict)
    numbers = {METRICS[name].number: name for name in ("prompt_tokens", "generation_tokens")}
    sql = (
        f"SELECT metric, series_id, min(at_s), max(last_at_ns) / {_NS}, max(iif(sum > 0,"  # noqa: S608
        f" iif(last > 0, last_at_ns / {_NS}, at_s + {TIERS_S[0]}), NULL))"
        f" FROM number_{TIERS_S[0]} WHERE metric IN (SELECT value FROM json_each(?))"
        " AND at_s >= ? AND at_s < ? GROUP BY metric, series_id"
    )
    window = _before(at_s, _LOOKBACK_S)
    for metric, number, first_s, last_s, moved_s in snapshot.rows(
        sql, (json.dumps(list(numbers)), window.since_s, window.until_s)
    ):
        own = by_id[number]
        place = value_of(own, "service"), value_of(own, "replica")
        name = "prompt" if value_of(own, "role") == "prefill" else numbers[metric]
        heard_s, ended_s = moved[place].get(name, (0, 0))
        since_s = first_s if moved_s is None else moved_s
        moved[place][name] = max(heard_s, last_s), max(ended_s, since_s)
    return {
        place: float(max(heard for heard, _ in told.values()) - max(e for _, e in told.values()))
        for place, told in moved.items()
        if _tells(told, at_s)
    }


def _tells(told: Mapping[str, tuple[int, int]], at_s: int) -> bool:
    """Output tokens are counted, or prompts where nothing else is made; and lately.

    why: an engine that counts prompts alone would stand still through every long answer.
    """
    telling = "generation_tokens" in told or "prompt" in told
    return telling and at_s - max(heard_s for heard_s, _ in told.values()) <= FRESH_S


def _signs(snapshot: Snapshot, gpus: Collection[str], at_s: int) -> list[GpuSign]:
    by_id = snapshot.labels.by_id
    parents = {
        value_of(by_id[number], "gpu_uuid"): value_of(by_id[number], "gpu_parent")
        for number in heard(snapshot, "gpu_info", _before(at_s, _LOOKBACK_S))
    }
    now: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for name, levels in newest(snapshot, _SIGNS, _before(at_s, FRESH_S)).items():
        for number, level in sorted(levels.items(), key=lambda each: each[1].at_s):
            now[value_of(by_id[number], "gpu_uuid")][name] = level.value
    boards = {uuid: parents.get(uuid) or uuid for uuid in gpus}
    rest_w = resting_w(snapshot, set(boards.values()), _before(at_s, _RESTED_S))
    return [
        GpuSign(
            power_w=now[board].get("gpu_power"),
            idle_power_w=rest_w.get(board),
            tensor_active=now[uuid].get("gpu_tensor_active"),
            dram_bandwidth=now[uuid].get("gpu_dram_bandwidth"),
            shared=board != uuid,
        )
        for uuid, board in boards.items()
    ]


def resting_w(snapshot: Snapshot, boards: Collection[str], window: Window) -> dict[str, float]:
    """What each GPU draws in minutes of a window without any kernel; absent where it had none.

    Utilisation proves no work, but 0 proves that there was none. why not a table by model: with an
    engine's weights loaded a GPU at rest draws more than an empty one.
    """
    of, wanted = uuids(snapshot), frozenset(boards)
    series = [number for number, uuid in of.items() if uuid in wanted]
    sql = (
        "SELECT p.series_id, p.sum / p.n FROM number_60 AS b CROSS JOIN number_60 AS p"
        " ON p.metric = ? AND p.at_s = b.at_s AND p.series_id = b.series_id"
        " WHERE b.metric = ? AND b.at_s >= ? AND b.at_s < ? AND b.high = 0"
        " AND b.series_id IN (SELECT value FROM json_each(?))"
    )
    numbers = METRICS["gpu_power"].number, METRICS["gpu_busy"].number
    found: defaultdict[str, list[float]] = defaultdict(list)
    for number, power_w in snapshot.rows(
        sql, (*numbers, window.since_s, window.until_s, json.dumps(series))
    ):
        found[of[number]].append(power_w)
    return {uuid: median(told) for uuid, told in found.items()}


def _before(at_s: int, length_s: int) -> Window:
    return Window(since_s=at_s - length_s, until_s=at_s + 1)
