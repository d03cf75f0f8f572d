"""Load as a signal: of the decode pool now and over a week, past the knee or not, and GPUs of a day.

Load is prefill's busy share, and of decode the larger of KV in use and of the batch over the largest
batch whose steps keep the promise on tokens (from a line fitted to calm minutes).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from alerts.diagnosis import readings
from alerts.diagnosis.case import Case
from alerts.diagnosis.signals import Signal
from collector.query import Numbers, Selection, Window
from domain.labels import Labels, value_of

__all__ = ["Minutes", "ask_day", "ask_load", "ask_week", "knee", "largest_batch"]

_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3600, 60
_WEEK_S = 7 * _DAY_S
_ENOUGH_HOURS = 150
_ENOUGH_OF_DAY = 18
_FEWEST_MINUTES = 20
_SPREAD = 1.5
_LOW, _HIGH = 0.34, 0.67

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Minutes:
    """Minutes of replicas that decode: how many ran on one, seconds per token, tokens a second."""

    batch: Floats
    token_s: Floats
    tokens_hz: Floats


def largest_batch(told: Minutes, limit_s: float) -> float | None:
    """The batch whose steps last `limit_s`; None where the minutes do not say how steps grow."""
    if len(told.batch) < _FEWEST_MINUTES or not _spreads(told.batch):
        return None
    slope, base_s = np.polyfit(told.batch, told.token_s, 1)
    if not slope > 0 or not limit_s > base_s:
        return None
    return float((limit_s - base_s) / slope)


def knee(told: Minutes, batch: float) -> float | None:
    """What one more in the batch brings near `batch`, over what the first ones brought.

    None where so large a batch was not seen in calm minutes, or all were of one size.
    """
    if len(told.batch) < _FEWEST_MINUTES or not _spreads(told.batch):
        return None
    if batch > float(told.batch.max()) * _SPREAD:
        return None
    low, high = np.quantile(told.batch, (_LOW, _HIGH))
    few, many = told.batch <= low, told.batch >= high
    first = float(told.tokens_hz[few].mean() / told.batch[few].mean())
    upper = told.batch[many]
    if not first > 0 or not upper.max() > upper.min():
        return None
    slope = float(np.polyfit(upper, told.tokens_hz[many], 1)[0])
    return slope / first


def _spreads(batch: Floats) -> bool:
    low, high = np.quantile(batch, (_LOW, _HIGH))
    return bool(low > 0 and high > _SPREAD * low)


def _decoding(labels: Labels) -> bool:
    return value_of(labels, "role") != "prefill"


def _calm(case: Case, window: Window, step_s: int = _MINUTE_S) -> Minutes:
    """Steps in which one replica told of batch, tokens and gaps alike."""
    asked = Selection(window=window, where=case.where, by=readings.KEYS, step_s=step_s)
    batch = _by_minute(case.reader.numbers("requests_running", asked))
    tokens = _by_minute(case.reader.numbers("generation_tokens", asked))
    gaps = {
        (each.labels, point.since_s): mean_s
        for each in case.reader.latency("tpot", asked)
        for point in each.points
        if (mean_s := point.distribution.mean_s) is not None
    }
    both = [key for key in batch if batch[key] > 0 and key in tokens and key in gaps]
    return Minutes(
        batch=np.array([batch[key] for key in both]),
        token_s=np.array([gaps[key] for key in both]),
        tokens_hz=np.array([tokens[key] / step_s for key in both]),
    )


def _by_minute(told: Sequence[Numbers]) -> dict[tuple[Labels, int], float]:
    return {
        (each.labels, point.since_s): point.value
        for each in told
        if _decoding(each.labels)
        for point in each.points
    }


def ask_load(case: Case) -> None:
    """How loaded prefill and decode are; the curve is that of calm minutes."""
    loads = [case.numbers.get(Signal.PREFILL_LOAD)]
    if Signal.DECODE_KV in case.numbers:
        loads.append(case.numbers[Signal.DECODE_KV])
    elif Signal.KV_USAGE in case.numbers:
        kv = case.levels.get("kv_cache_usage", ())
        loads.append(fmean(each.points[0].value for each in kv))
    if case.looked.before is not None:
        told = _calm(case, case.looked.before)
        loads.append(_batch_load(case, told))
        _knee(case, told)
    else:
        case.absent[Signal.KNEE] = "nothing to compare with"
    known = [each for each in loads if each is not None]
    case.put(Signal.LOAD, max(known, default=None))


def _batch_load(case: Case, told: Minutes) -> float | None:
    limit_s = case.numbers.get(Signal.ITL_PROMISE)
    runs = case.places.get(Signal.RUNNING_BY)
    most = largest_batch(told, limit_s) if limit_s is not None else None
    return fmean(runs.values()) / most if runs and most else None


def _knee(case: Case, told: Minutes) -> None:
    runs = case.places.get(Signal.RUNNING_BY)
    found = knee(told, max(runs.values())) if runs else None
    if found is None:
        case.absent[Signal.KNEE] = "no calm minutes at batches of different size"
    case.put(Signal.KNEE, found)


def ask_week(case: Case) -> None:
    """How loaded the decode pool was in the hour of the week that was fullest."""
    until_s = case.now.until_s // _HOUR_S * _HOUR_S
    window = Window(since_s=max(until_s - _WEEK_S, 0), until_s=max(until_s, 1))
    where = (*case.where, ("role", "decode"))
    asked = Selection(window=window, where=tuple(sorted(where)), step_s=_HOUR_S)
    kv = _hours(case.reader.numbers("kv_cache_usage", asked))
    if not kv:
        case.absent[Signal.LOAD_WEEK] = "no page of a replica with role: decode"
    elif len(kv) < _ENOUGH_HOURS:
        case.absent[Signal.LOAD_WEEK] = f"{len(kv)} of {_ENOUGH_HOURS} hours"
    else:
        case.put(Signal.LOAD_WEEK, max((*kv.values(), *_batch_hours(case, asked))))


def _batch_hours(case: Case, asked: Selection) -> Iterable[float]:
    """The fullest hour by batch, where a promise and the curve say how large one may be."""
    limit_s = case.numbers.get(Signal.ITL_PROMISE)
    hours = _hours(case.reader.numbers("requests_running", asked))
    replicas = len(case.places.get(Signal.RUNNING_BY, {}))
    day = Window(since_s=asked.window.until_s - _DAY_S, until_s=asked.window.until_s)
    most = largest_batch(_calm(case, day, 10 * _MINUTE_S), limit_s) if limit_s is not None else None
    yield max(hours.values(), default=0.0) / (most * replicas) if most and replicas else 0.0


def _hours(told: Sequence[Numbers]) -> Mapping[int, float]:
    return {point.since_s: point.value for each in told for point in each.points}


def ask_day(case: Case) -> None:
    """How much the GPUs of a service worked over a day, hour by hour."""
    until_s = case.now.until_s // _HOUR_S * _HOUR_S
    day = Window(since_s=max(until_s - _DAY_S, 0), until_s=max(until_s, 1))
    told = case.reader.gpus(day, where=case.where, step_s=_HOUR_S)
    hours = [
        fmean(known)
        for moments in zip(*(gpu.moments for gpu in told.gpus), strict=False)
        if (known := [each.work for each in moments if each.work is not None])
    ]
    if not told.gpus:
        case.absent[Signal.COST_USE] = "no GPU is known to serve it"
    elif len(hours) < _ENOUGH_OF_DAY:
        case.absent[Signal.COST_USE] = f"{len(hours)} of {_ENOUGH_OF_DAY} hours"
    else:
        case.put(Signal.COST_USE, fmean(hours))
