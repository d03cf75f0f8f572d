"""How many workers a load needs at least, by formula: where a search begins, and what to compare with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from review.load import Load
from review.period import Kind
from review.scores import Promise
from review.steps import Model

__all__ = ["Sizing", "kv_bytes", "queue_capacity", "size", "workers_for"]

_PEAK_S: Final = 300.0
_KV_FULL: Final = 0.8
_QUEUE: Final = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """`prefill` = ceil(R + sqrt(R)), R the prefill seconds asked per second in the busiest 5 minutes.

    `decode`: the larger of KV tokens over 80 % of a worker's, and sequences over the batch that
    keeps the promise. `queue`: requests that may wait, RPS x generation time x 1.2. `by_slots`:
    Little's law on the slots of a worker. `held_tokens`: KV cache of a request in the middle of its
    answer; `kv_token_bytes`: of a token, where the model's shape is told.
    """

    prefill: int
    decode: int
    prefill_load: float
    decode_sequences: float
    batch_max: int
    queue: int
    peak_per_s: float
    lowest_per_s: float
    generation_s: float | None = None
    by_slots: int | None = None
    held_tokens: float | None = None
    kv_token_bytes: float | None = None


def workers_for(per_s: float, generation_s: float, slots: int) -> int:
    """ceil(RPS x generation time / slots): Little's law on slots."""
    return max(math.ceil(per_s * generation_s / slots - 1e-9), 1)


def queue_capacity(per_s: float, generation_s: float) -> int:
    """RPS x generation time x 1.2: 10/s of 8 s are 96."""
    return math.ceil(per_s * generation_s * _QUEUE - 1e-9)


def kv_bytes(
    *, layers: int, kv_heads: int, head_size: int, bytes_per_value: float, tokens: float
) -> float:
    """2 x layers x heads x size x bytes x tokens: keys and values."""
    return 2 * layers * kv_heads * head_size * bytes_per_value * tokens


def size(
    load: Load,
    model: Model,
    prefill: Kind,
    decode: Kind,
    promise: Promise,
    *,
    kv_token_bytes: float | None = None,
) -> Sizing:
    """The start of the search, for one kind of each role."""
    bins = max(int(load.length_s // _PEAK_S), 1)
    place = np.minimum((load.arrival_s // _PEAK_S).astype(np.int64), bins - 1)
    each_s = model.prefill[prefill].step_s(load.new_tokens, load.context_tokens)
    width_s = min(_PEAK_S, load.length_s)
    busy = np.bincount(place, each_s, bins) / width_s
    asked = float(busy.max())
    curve, engine = model.decode[decode], model.engine(decode)
    steps = load.output_tokens
    held = load.context_tokens + steps / 2
    mean_context = float(np.average(held, weights=steps)) if len(load) else 1.0
    batch = curve.batch_at(promise.tpot_s, mean_context, engine.slots)
    step_s = float(curve.step_s(max(batch, 1), max(batch, 1) * mean_context))
    sequences = np.bincount(place, steps * step_s, bins) / width_s
    kv = np.bincount(place, steps * step_s * held, bins) / width_s
    by_batch = math.ceil(float(sequences.max()) / max(batch, 1))
    by_kv = math.ceil(float(kv.max()) / (_KV_FULL * engine.kv_tokens)) if engine.kv_tokens else 1
    rate = np.bincount(place, minlength=bins) / width_s
    generation_s = float(steps.mean()) * step_s if len(load) else 0.0
    return Sizing(
        prefill=max(math.ceil(asked + math.sqrt(asked)), 1),
        decode=max(by_batch, by_kv, 1),
        prefill_load=asked,
        decode_sequences=float(sequences.max()),
        batch_max=batch,
        queue=queue_capacity(float(rate.max()), generation_s),
        peak_per_s=float(rate.max()),
        lowest_per_s=float(rate.min()),
        generation_s=generation_s,
        by_slots=workers_for(float(rate.max()), generation_s, engine.slots),
        held_tokens=mean_context,
        kv_token_bytes=kv_token_bytes,
    )
