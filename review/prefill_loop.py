"""A prefill worker's step: first come first served, waiting prompts up to a budget of tokens.

A prompt's KV cache stays here until a decode worker takes it over. Where that does not happen the
worker runs out of room and waits: a full decode pool shows as a wait for *prefill*.
"""

from __future__ import annotations

from typing import Any

from review.compiled import inlined
from review.decode_loop import decode_until
from review.pools import NEVER_S, NOISE, Decoders, Prefillers

__all__ = ["prefill_step"]

_STEP_MIN_S = 2e-4


@inlined
def prefill_step(
    prefillers: Prefillers,
    worker: int,
    now_s: float,
    asked: Any,
    answers: Any,
    decoders: Decoders,
    way: Any,
) -> int:
    """Runs one step and says how many prompts it finished, counted from the head of the line.

    None fits: the worker is blocked, until a decode worker takes something over.
    """
    own, terms = prefillers.state[worker], prefillers.terms[worker]
    request, done, left = own["head"], own["done"], own["budget"]
    first, cost_s, finished, partly = request, terms[0], 0, False
    while request >= 0 and left > 0:
        wanted = asked[request]
        if done == 0.0:
            room = own["kv_tokens"] - wanted["context_tokens"]
            if own["held"] > room and not _made_room(
                prefillers, worker, room, now_s, asked, answers, decoders, way
            ):
                break
            answers[request]["start_s"] = now_s - wanted["arrival_s"]
            own["held"] += wanted["context_tokens"]
        rest = wanted["new_tokens"] - done
        chunk = min(rest, left)
        before = wanted["context_tokens"] - rest
        cost_s += terms[1] * chunk + terms[2] * chunk * (before + 0.5 * chunk)
        left -= chunk
        if chunk < rest:
            done += chunk
            partly = True
            break
        finished += 1
        request = answers[request]["next_one"]
        done = 0.0
    taken = own["budget"] - left
    cost_s += terms[3] * taken * taken
    if taken <= 0.0:
        own["blocked"] = 1
        own["ready_s"] = NEVER_S
        return 0
    own["done"] = done if partly else 0.0
    own["held_max"] = max(own["held_max"], own["held"])
    for knot in range(4, terms.shape[0] - 1, 2):
        if taken > terms[knot]:
            cost_s += terms[knot + 1] * (taken - terms[knot])
    noise = prefillers.noise[worker]
    misfit = noise[asked[first]["noise_dice"] & (NOISE[1] - 1)] * own["speed"]
    cost_s = max(cost_s, _STEP_MIN_S) * misfit
    own["free_s"] = now_s + cost_s
    own["busy_s"] += cost_s
    return finished


@inlined
def _made_room(
    prefillers: Prefillers,
    worker: int,
    room: float,
    now_s: float,
    asked: Any,
    answers: Any,
    decoders: Decoders,
    way: Any,
) -> bool:
    """Whether a prompt fits once all that decode has taken over is counted; an empty worker takes any.

    why only now: decode runs when somebody looks, so `held` may be too much, never too little.
    """
    for decoder in range(decoders.state.shape[0]):
        decode_until(decoders, decoder, now_s, asked, answers, prefillers.state, way)
    held = prefillers.state[worker]["held"]
    return bool(held <= room or held <= 0.0)
