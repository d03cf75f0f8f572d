"""GPUs as signals: who was held down and when, who computes, whose memory is full, who fails."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import fmean

from alerts.diagnosis.samples import STEP_S
from alerts.diagnosis.signals import Places, Signal
from collector.query import Reader, Selection, Window
from domain.gpu import Gpu, Gpus
from domain.labels import Labels, value_of
from domain.throttle import HARMFUL

__all__ = ["Cards", "cards_of"]

_GPU_STEP_S = 30
_CLOCK_STEP_S = 60
_P95 = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Cards:
    """The GPUs of a service. `held` is by GPU, cause and step; `serves` names a GPU's replica."""

    numbers: Mapping[Signal, float]
    places: Mapping[Signal, Places]
    held: Mapping[str, Mapping[str, Mapping[int, float]]]
    serves: Mapping[str, str]


def cards_of(reader: Reader, where: Labels, window: Window, before: Window | None = None) -> Cards:
    """Empty where no GPU is known to serve it. `before`: when clocks were as they usually are."""
    # why the grid: moments of a GPU begin on it, and requests are laid beside them
    aligned = Window(
        since_s=window.since_s // _GPU_STEP_S * _GPU_STEP_S,
        until_s=-(-window.until_s // _GPU_STEP_S) * _GPU_STEP_S,
    )
    told = reader.gpus(aligned, where=where, step_s=_GPU_STEP_S)
    serves = {
        gpu.uuid: name
        for gpu in told.gpus
        for labels in gpu.serves
        if (name := value_of(labels, "replica"))
    }
    held = {gpu.uuid: steps for gpu in told.gpus if (steps := _held(gpu, aligned))}
    places = _places(told, serves)
    if before is not None and told.gpus and (clocks := _clocks(reader, told, aligned, before)):
        places[Signal.CLOCK_SHARE] = clocks
    return Cards(numbers=_numbers(told), places=places, held=held, serves=serves)


def _clocks(reader: Reader, told: Gpus, now: Window, before: Window) -> dict[str, float]:
    """The mean SM clock of each over its own P95 of before."""
    uuids = {gpu.uuid for gpu in told.gpus}
    usual = _by_gpu(reader, uuids, before)
    mean = {uuid: fmean(told) for uuid, told in _by_gpu(reader, uuids, now).items()}
    return {
        uuid: hz / high
        for uuid, hz in mean.items()
        if uuid in usual and (high := sorted(usual[uuid])[int(_P95 * (len(usual[uuid]) - 1))]) > 0
    }


def _by_gpu(reader: Reader, uuids: Collection[str], window: Window) -> dict[str, list[float]]:
    asked = Selection(window=window, by=("gpu_uuid",), step_s=_CLOCK_STEP_S)
    return {
        uuid: [point.value for point in each.points]
        for each in reader.numbers("gpu_sm_clock", asked)
        if (uuid := value_of(each.labels, "gpu_uuid")) in uuids and each.points
    }


def _numbers(told: Gpus) -> dict[Signal, float]:
    found: dict[Signal, float] = {}
    active = _active(told)
    busy = _mean(told, "gpu_busy")
    if active is not None:
        found[Signal.GPU_ACTIVE] = active
    if busy is not None:
        found[Signal.GPU_BUSY] = busy
    return found


def _active(told: Gpus) -> float | None:
    """The mean over the whole window; None where a GPU does not tell its activity."""
    if any("gpu_sm_active" not in gpu.now for gpu in told.gpus):
        return None
    works = [each.work for gpu in told.gpus for each in gpu.moments if each.work is not None]
    return fmean(works) if works else None


def _mean(told: Gpus, name: str) -> float | None:
    values = [gpu.now[name] for gpu in told.gpus if name in gpu.now]
    return sum(values) / len(values) if values else None


def _places(told: Gpus, serves: Mapping[str, str]) -> dict[Signal, Places]:
    """A signal that no GPU tells is absent."""
    throttled = {
        gpu.uuid: max((gpu.shares.get(cause, 0.0) for cause in HARMFUL), default=0.0)
        for gpu in told.gpus
        if gpu.held_s is not None
    }
    memory = {
        gpu.uuid: gpu.now["gpu_memory_used"] / gpu.now["gpu_memory_total"]
        for gpu in told.gpus
        if gpu.now.get("gpu_memory_total") and "gpu_memory_used" in gpu.now
    }
    xids = {
        f"{gpu.uuid} XID {xid}": float(count)
        for gpu in told.gpus
        for xid, count in gpu.xids.items()
    }
    busy = {gpu.uuid: gpu.now["gpu_busy"] for gpu in told.gpus if "gpu_busy" in gpu.now}
    found: dict[Signal, Places] = {
        Signal.THROTTLED: throttled,
        Signal.MEMORY_SHARE: memory,
    }
    known = {signal: places for signal, places in found.items() if places}
    if serves:
        known[Signal.XIDS] = xids
    return known | ({Signal.GPU_BUSY: busy} if busy else {})


def _held(gpu: Gpu, window: Window) -> dict[str, dict[int, float]]:
    """By harmful cause, the share of each step, as often as requests have steps."""
    found: dict[str, dict[int, float]] = {}
    for place, moment in enumerate(gpu.moments):
        begin_s = window.since_s + place * _GPU_STEP_S
        for cause, part in moment.held.items():
            if cause in HARMFUL and part > 0:
                steps = found.setdefault(cause, {})
                steps |= {begin_s + offset: part for offset in range(0, _GPU_STEP_S, STEP_S)}
    return found
