"""How loaded a pool is, defined so that it can be trusted: a busy GPU says nothing of decode.

Prefill load is busy seconds over seconds. Decode load is the larger of KV tokens over capacity and
sequences over the largest batch that keeps the promise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from review.period import Period
from review.replay import Replay
from review.scores import Promise
from review.split import Split
from review.steps import Model

__all__ = ["Loads", "WorkerLoad", "loads_of", "worker_loads"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loads:
    """Of a split, from 0 to 1 and beyond. None for decode where no curve or capacity tells."""

    prefill: float
    decode: float | None
    prefill_worst: float

    def by_role(self) -> dict[str, float]:
        found = {"prefill": self.prefill}
        if self.decode is not None:
            found["decode"] = self.decode
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLoad:
    """One worker as observed: requests, its P99 wait in line, and how fast it is."""

    name: str
    role: str
    requests: int
    wait_p99_s: float | None
    speed: float


def loads_of(
    replay: Replay, split: Split, model: Model, promise: Promise, context_tokens: float
) -> Loads:
    """Of a replay."""
    return Loads(
        prefill=float(np.mean(replay.prefill_busy)),
        decode=_decode(replay, split, model, promise, context_tokens),
        prefill_worst=float(np.max(replay.prefill_busy)),
    )


def _decode(
    replay: Replay, split: Split, model: Model, promise: Promise, context_tokens: float
) -> float | None:
    kinds = split.kinds("decode")
    if not kinds or replay.decode_batch is None or replay.decode_kv is None:
        return None
    curve, engine = model.decode[kinds[0]], model.engine(kinds[0])
    batch = curve.batch_at(promise.tpot_s, context_tokens, engine.slots)
    by_batch = replay.decode_batch / batch if batch else float("inf")
    by_kv = replay.decode_kv / engine.kv_tokens if engine.kv_tokens else 0.0
    return float(min(max(by_batch, by_kv), 1e6))


def worker_loads(period: Period, model: Model) -> tuple[WorkerLoad, ...]:
    """Each worker that served, as observed."""
    found = []
    for place, worker in enumerate(period.workers):
        own = (period.prefiller == place) | (period.decoder == place)
        if not own.any():
            continue
        wait_s = period.start_s[own & (period.prefiller == place)]
        known = wait_s[np.isfinite(wait_s)]
        found.append(
            WorkerLoad(
                name=worker.name,
                role=worker.kind.role,
                requests=int(own.sum()),
                wait_p99_s=float(np.quantile(known, 0.99)) if len(known) else None,
                speed=model.speed.get(worker.name, 1.0),
            )
        )
    return tuple(found)
