"""What the simulator's loops read and write: records by request and by worker. Times in seconds."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

__all__ = [
    "ANSWER",
    "ASKED",
    "KV_CELLS",
    "NEVER_S",
    "NOISE",
    "Decoders",
    "Prefillers",
    "asked",
    "decoders",
    "prefillers",
]

NEVER_S: Final = 1e18
KV_CELLS: Final = 4096
NOISE: Final = 256, 512  # values of scatter by worker, of decode and prefill: powers of two

ASKED: Final = np.dtype(
    [
        ("arrival_s", np.float64),
        ("new_tokens", np.int32),  # of the prompt, not found in the prefix cache
        ("context_tokens", np.int32),  # of the whole prompt
        ("output_tokens", np.int32),
        ("prefill_dice", np.uint32),  # which worker, where the router throws dice
        ("decode_dice", np.uint32),
        ("noise_dice", np.uint32),  # how far a step is off its curve
    ]
)
"""What a user asks for, and the dice thrown for it: the same for every split."""

ANSWER: Final = np.dtype(
    [
        ("start_s", np.float32),
        ("prefilled_s", np.float32),
        ("joined_s", np.float32),
        ("first_s", np.float32),
        ("last_s", np.float32),
        ("next_one", np.int32),  # who waits behind it for the same worker
        ("prefiller", np.int16),
        ("decoder", np.int16),
    ]
)
"""What becomes of it, in seconds since its arrival. Half the size is a third of the time."""

_PREFILLER: Final = np.dtype(
    [
        ("speed", np.float64),
        ("budget", np.float64),
        ("kv_tokens", np.float64),
        ("free_s", np.float64),  # when its step ends
        ("ready_s", np.float64),  # when it begins the next one
        ("done", np.float64),  # tokens of the first prompt in line that are filled already
        ("waiting", np.float64),  # tokens in line
        ("inside", np.float64),  # tokens in its step
        ("held", np.float64),  # KV tokens of prompts that no decode worker has taken over yet
        ("held_max", np.float64),
        ("busy_s", np.float64),
        ("head", np.int64),
        ("tail", np.int64),
        ("blocked", np.int64),
    ]
)

_DECODER: Final = np.dtype(
    [
        ("speed", np.float64),
        ("kv_tokens", np.float64),
        ("clock_s", np.float64),  # up to here it has run
        ("kv", np.float64),
        ("kv_cell", np.float64),
        ("coming_kv", np.float64),  # kept free for prompts whose KV cache is on the way
        ("queued_tokens", np.float64),
        ("busy_s", np.float64),
        ("batch_s", np.float64),  # sequences, integrated over time
        ("step_s", np.float64),  # its last one
        ("tokens", np.int64),
        ("slots", np.int64),
        ("steps", np.int64),
        ("batch", np.int64),
        ("leaving", np.int64),  # size of its heap
        ("coming", np.int64),  # size of the heap of prompts on the way
        ("fresh", np.int64),  # how many wait for the end of their first step
        ("queued", np.int64),
        ("head", np.int64),
        ("tail", np.int64),
    ]
)


class Prefillers(NamedTuple):
    """Prefill workers. `terms`: seconds per step, n tokens, n x context, n², then knots."""

    state: Any
    terms: Any
    noise: Any


class Decoders(NamedTuple):
    """Decode workers. `terms`: seconds per step, sequence, KV token, then knots (at, slope).

    A sequence leaves at a step that is known when it joins: `leave` and `who` are a heap per worker;
    `coming_s` and `coming` another, of prompts whose KV cache is on the way.
    `batch_seen`, `kv_seen`: tokens by the batch and the KV cache that they were generated in.
    `noise`: by worker and length of the answer, how far its steps are off the curve.
    """

    state: Any
    terms: Any
    leave: Any
    who: Any
    coming_s: Any
    coming: Any
    fresh: Any
    batch_seen: Any
    kv_seen: Any
    noise_from: Any
    noise: Any


def asked(
    arrival_s: Any, new_tokens: Any, context_tokens: Any, output_tokens: Any, *, seed: int
) -> Any:
    """Requests with their dice."""
    found = np.empty(len(arrival_s), ASKED)
    dice = np.random.default_rng(seed)
    found["arrival_s"], found["new_tokens"] = arrival_s, new_tokens
    found["context_tokens"], found["output_tokens"] = context_tokens, output_tokens
    for name in ("prefill_dice", "decode_dice", "noise_dice"):
        found[name] = dice.integers(0, 1 << 32, len(found), np.uint32)
    return found


def prefillers(terms: Any, noise: Any, speed: Any, budget: Any, kv_tokens: Any) -> Prefillers:
    """Idle prefill workers, one per row."""
    state = np.zeros(len(terms), _PREFILLER)
    state["speed"], state["budget"], state["kv_tokens"] = speed, budget, kv_tokens
    state["ready_s"] = NEVER_S
    state["head"] = state["tail"] = -1
    return Prefillers(state, terms, noise)


def decoders(
    terms: Any,
    speed: Any,
    slots: Any,
    kv_tokens: Any,
    *,
    kv_cell: float,
    noise_from: Any,
    noise: Any,
) -> Decoders:
    """Idle decode workers, one per row. `kv_cell`: KV tokens that `kv_seen` does not tell apart."""
    shape = len(terms), int(max(slots)) + 1
    state = np.zeros(len(terms), _DECODER)
    state["speed"], state["slots"], state["kv_tokens"] = speed, slots, kv_tokens
    state["head"] = state["tail"] = -1
    leave, coming_s = np.zeros(shape, np.int64), np.zeros(shape)
    who, coming, fresh = (np.zeros(shape, np.int32) for _ in range(3))
    seen = np.zeros(shape[1]), np.zeros(KV_CELLS)
    state["kv_cell"] = kv_cell
    heaps = leave, who, coming_s, coming
    return Decoders(state, terms, *heaps, fresh, *seen, noise_from, noise)
