"""Which worker a router gives a request to. `routing`: policy of prefill, of decode, turns taken."""

from __future__ import annotations

from typing import Any

from review.compiled import inlined
from review.decode_loop import decode_until, kv_at
from review.pools import Decoders, Prefillers
from review.routing import (
    LEAST_LOADED,
    LEAST_WAITING,
    RANDOM,
    ROUND_ROBIN,
    TWO_CHOICES,
    TWO_WAITING,
)

__all__ = ["decoder_for", "prefiller_for"]


@inlined
def prefiller_for(request: int, asked: Any, state: Any, routing: Any) -> int:
    """By turn, by dice, or by the tokens that wait (and, for most policies, those inside)."""
    count = state.shape[0]
    policy = routing[0]
    if policy == ROUND_ROBIN:
        routing[2] += 1
        return int((routing[2] - 1) % count)
    dice = int(asked[request]["prefill_dice"])
    one, other = ((dice & 0xFFFF) * count) >> 16, ((dice >> 16) * count) >> 16
    if policy == RANDOM:
        return int(one)
    now_s = asked[request]["arrival_s"]
    inside = policy != LEAST_WAITING and policy != TWO_WAITING  # noqa: PLR1714 - numba is faster so
    two = policy == TWO_CHOICES or policy == TWO_WAITING  # noqa: PLR1714
    best, least = one, 1e300
    for worker in range(count):
        if two and worker != one and worker != other:  # noqa: PLR1714
            continue
        load = state[worker]["waiting"]
        if inside and state[worker]["free_s"] > now_s:
            load += state[worker]["inside"]
        if load < least or (load == least and worker == one):
            best, least = worker, load
    return int(best)


@inlined
def decoder_for(
    request: int,
    now_s: float,
    asked: Any,
    answers: Any,
    prefillers: Prefillers,
    decoders: Decoders,
    way: Any,
    routing: Any,
) -> int:
    """By turn, by dice, or by KV tokens or requests, those in line included."""
    count = decoders.state.shape[0]
    policy = routing[1]
    dice = int(asked[request]["decode_dice"])
    one, other = ((dice & 0xFFFF) * count) >> 16, ((dice >> 16) * count) >> 16
    if policy == ROUND_ROBIN:
        one = int(routing[3] % count)
        routing[3] += 1
    only_one = policy == ROUND_ROBIN or policy == RANDOM  # noqa: PLR1714
    two = policy == TWO_CHOICES or policy == TWO_WAITING  # noqa: PLR1714
    best, least = one, 1e300
    for worker in range(count):
        if (only_one and worker != one) or (two and worker != one and worker != other):  # noqa: PLR1714
            continue
        kv = kv_at(decoders, worker, now_s)
        own = decoders.state[worker]
        if kv < 0.0:
            decode_until(decoders, worker, now_s, asked, answers, prefillers.state, way)
            kv = own["kv"]
        load = kv + own["coming_kv"] + own["queued_tokens"]
        if policy != LEAST_LOADED:
            load = 1.0 * (own["batch"] + own["coming"] + own["queued"])
        if load < least or (load == least and worker == one):
            best, least = worker, load
    return int(best)
