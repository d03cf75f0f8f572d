"""A split of prefill and decode workers, event by event, on the arrivals as they were.

Four things happen, in order of time: a request arrives, a prefill worker begins a step, a prompt
reaches its decode worker, and, while a prefill worker is out of KV cache, a decode worker's batch
changes. Otherwise decode runs only when somebody looks: that is where the speed comes from.
"""

from __future__ import annotations

from typing import Any

from review.compiled import compiled, inlined
from review.decode_loop import decode_until, take
from review.heap import pop, push
from review.pools import NEVER_S, Decoders, Prefillers
from review.prefill_loop import prefill_step
from review.worker_choice import decoder_for, prefiller_for

__all__ = ["run_split"]

_PROGRESS = 65_536


@compiled
def run_split(
    asked: Any,
    answers: Any,
    prefillers: Prefillers,
    decoders: Decoders,
    way: Any,
    routing: Any,
    done_s: Any,
    moving: Any,
    progress: Any,
) -> None:
    """Fills the answers. `progress[0]` counts arrivals, for whoever looks from another thread.

    `way`, from prefill to decode: seconds, seconds per token of context, steps of decode, and 1
    where decode makes the first token. `done_s`, `moving`: room for a heap of prompts that a step
    will have finished.
    """
    arrived, under_way = 0, 0
    count = asked.shape[0]
    while True:
        arrival_s = asked[arrived]["arrival_s"] if arrived < count else NEVER_S
        worker = _soonest(prefillers.state)
        ready_s = prefillers.state[worker]["ready_s"]
        moved_s = done_s[0] if under_way > 0 else NEVER_S
        now_s = min(arrival_s, ready_s, moved_s)
        if _any_blocked(prefillers.state) and _free_before(
            now_s, asked, answers, prefillers, decoders, way
        ):
            continue
        if now_s >= NEVER_S:
            break
        if now_s == arrival_s:
            _arrive(arrived, asked, answers, prefillers, routing)
            arrived += 1
            if arrived % _PROGRESS == 0:
                progress[0] = arrived
        elif now_s == ready_s:
            finished = prefill_step(prefillers, worker, now_s, asked, answers, decoders, way)
            under_way = _finish(
                finished, worker, asked, answers, prefillers, way, done_s, moving, under_way
            )
        else:
            request = moving[0]
            under_way = pop(done_s, moving, under_way)
            _reach(request, now_s, asked, answers, prefillers, decoders, way, routing)
    for decoder in range(decoders.state.shape[0]):
        decode_until(decoders, decoder, NEVER_S, asked, answers, prefillers.state, way)
    progress[0] = count


@inlined
def _soonest(state: Any) -> int:
    place = 0
    for other in range(1, state.shape[0]):
        if state[other]["ready_s"] < state[place]["ready_s"]:
            place = other
    return place


@inlined
def _any_blocked(state: Any) -> bool:
    for place in range(state.shape[0]):  # noqa: SIM110 - numba compiles no generators
        if state[place]["blocked"] > 0:
            return True
    return False


@inlined
def _free_before(
    now_s: float, asked: Any, answers: Any, prefillers: Prefillers, decoders: Decoders, way: Any
) -> bool:
    """Lets the decode worker that next changes, of those that somebody is on the way to, do so."""
    place, least_s = -1, now_s
    for worker in range(decoders.state.shape[0]):
        own = decoders.state[worker]
        if (own["head"] >= 0 or own["coming"] > 0) and own["clock_s"] < least_s:
            place, least_s = worker, own["clock_s"]
    if place < 0:
        return False
    own = decoders.state[place]
    if own["batch"] == 0 and own["coming"] > 0:
        least_s = max(least_s, decoders.coming_s[place, 0])
    until_s = least_s + 1e-9 + 1e-12 * least_s
    decode_until(decoders, place, until_s, asked, answers, prefillers.state, way)
    return True


@inlined
def _arrive(request: int, asked: Any, answers: Any, prefillers: Prefillers, routing: Any) -> None:
    worker = prefiller_for(request, asked, prefillers.state, routing)
    own = prefillers.state[worker]
    answers[request]["prefiller"] = worker
    own["waiting"] += asked[request]["new_tokens"]
    if own["tail"] >= 0:
        answers[own["tail"]]["next_one"] = request
    else:
        own["head"] = request
        own["ready_s"] = max(own["free_s"], asked[request]["arrival_s"])
    own["tail"] = request


@inlined
def _finish(
    finished: int,
    worker: int,
    asked: Any,
    answers: Any,
    prefillers: Prefillers,
    way: Any,
    done_s: Any,
    moving: Any,
    under_way: int,
) -> int:
    """Whom a step finishes goes on to decode when it ends."""
    own = prefillers.state[worker]
    if own["blocked"] > 0:
        return under_way
    own["inside"] = 0.0
    for _ in range(finished):
        request = own["head"]
        answer, wanted = answers[request], asked[request]
        tokens = wanted["new_tokens"]
        own["head"] = answer["next_one"]
        answer["next_one"] = -1
        own["waiting"] -= tokens
        own["inside"] += tokens
        answer["prefilled_s"] = own["free_s"] - wanted["arrival_s"]
        if way[3] == 0.0:
            answer["first_s"] = answer["prefilled_s"]
        under_way = push(done_s, moving, under_way, own["free_s"], request)
    own["ready_s"] = own["free_s"]
    if own["head"] < 0:
        own["tail"] = -1
        own["ready_s"] = NEVER_S
    return under_way


@inlined
def _reach(
    request: int,
    now_s: float,
    asked: Any,
    answers: Any,
    prefillers: Prefillers,
    decoders: Decoders,
    way: Any,
    routing: Any,
) -> None:
    """A decode worker is chosen: it takes the prompt, or lets it stand in line."""
    worker = decoder_for(request, now_s, asked, answers, prefillers, decoders, way, routing)
    decode_until(decoders, worker, now_s, asked, answers, prefillers.state, way)
    own = decoders.state[worker]
    answers[request]["decoder"] = worker
    if own["head"] < 0 and take(decoders, worker, request, now_s, asked, way):
        return
    if own["tail"] >= 0:
        answers[own["tail"]]["next_one"] = request
    else:
        own["head"] = request
    own["tail"] = request
    own["queued"] += 1
    own["queued_tokens"] += asked[request]["context_tokens"]
