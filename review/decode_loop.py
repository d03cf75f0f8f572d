"""A decode worker, run up to an instant: continuous batching, many equal steps in one jump.

Between two joins or leaves a batch does not change: up to 48 steps are taken at once, with the KV
cache of their middle. So a request costs a few jumps, however many tokens it asks for.
"""

from __future__ import annotations

from typing import Any

from review.compiled import compiled, inlined
from review.heap import pop, push
from review.pools import KV_CELLS, NEVER_S, NOISE, Decoders

__all__ = ["decode_until", "kv_at", "step_s", "take"]

_JUMP_STEPS = 48
_STEP_MIN_S = 5e-5


@inlined
def step_s(terms: Any, batch: int, kv: float) -> float:
    """One step of a batch with this much KV cache, on a worker that is as fast as usual."""
    length_s = terms[0] + terms[1] * batch + terms[2] * kv
    for knot in range(3, terms.shape[0] - 1, 2):
        if kv > terms[knot]:
            length_s += terms[knot + 1] * (kv - terms[knot])
    return float(max(length_s, _STEP_MIN_S))


@compiled
def decode_until(
    decoders: Decoders,
    worker: int,
    until_s: float,
    asked: Any,
    answers: Any,
    prefill: Any,
    way: Any,
) -> None:
    """Runs every step that begins before the instant. `prefill`: the state of prefill workers.

    `way`: see `split_loop.run_split`; its last is 1 where decode makes the first token.
    """
    own = decoders.state[worker]
    while own["clock_s"] < until_s:
        if own["head"] >= 0:
            _reserve(decoders, worker, asked, answers, way)
        if own["coming"] > 0:
            _join(decoders, worker, asked, answers, prefill, way)
        if own["batch"] == 0:
            own["clock_s"] = until_s
            if own["coming"] > 0:
                own["clock_s"] = min(until_s, decoders.coming_s[worker, 0])
            continue
        _jump(decoders, worker, until_s, asked, answers)
        if decoders.leave[worker, 0] <= own["steps"]:
            _leave(decoders, worker, asked, answers, way)


@inlined
def kv_at(decoders: Decoders, worker: int, now_s: float) -> float:
    """The KV cache at an instant to which it need not run; -1 where it must, for somebody comes or goes.

    why: a router looks at every worker for each request; to cut all their jumps there would cost most
    of a replay.
    """
    own = decoders.state[worker]
    kv = own["kv"]
    if own["clock_s"] >= now_s:
        return float(kv)
    if own["head"] >= 0 or own["coming"] > 0 or own["fresh"] > 0:
        return -1.0
    if own["batch"] == 0:
        return 0.0
    each_s = step_s(decoders.terms[worker], own["batch"], kv) * own["speed"]
    steps = int((now_s - own["clock_s"]) / each_s) + 1
    if steps >= min(decoders.leave[worker, 0] - own["steps"], _JUMP_STEPS):
        return -1.0
    return float(kv + steps * own["batch"])


@inlined
def take(decoders: Decoders, worker: int, request: int, now_s: float, asked: Any, way: Any) -> bool:
    """Keeps room for a prompt and fetches its KV cache, if there is room; an empty worker has it."""
    own = decoders.state[worker]
    context = asked[request]["context_tokens"]
    free = own["kv_tokens"] - own["kv"] - own["coming_kv"]
    if own["coming"] >= own["slots"] or (context + 1 > free and own["batch"] + own["coming"] > 0):
        return False
    own["coming_kv"] += context + 1
    at_s = now_s + way[0] + way[1] * context + way[2] * own["step_s"]
    coming_s, coming = decoders.coming_s[worker], decoders.coming[worker]
    own["coming"] = push(coming_s, coming, own["coming"], at_s, request)
    return True


@inlined
def _reserve(decoders: Decoders, worker: int, asked: Any, answers: Any, way: Any) -> None:
    """Those in line, in their order."""
    own = decoders.state[worker]
    while own["head"] >= 0:
        request = own["head"]
        if not take(decoders, worker, request, own["clock_s"], asked, way):
            return
        own["head"] = answers[request]["next_one"]
        if own["head"] < 0:
            own["tail"] = -1
        own["queued"] -= 1
        own["queued_tokens"] -= asked[request]["context_tokens"]


@inlined
def _join(
    decoders: Decoders, worker: int, asked: Any, answers: Any, prefill: Any, way: Any
) -> None:
    """Those whose KV cache has come; their prefill workers have that much free again."""
    own = decoders.state[worker]
    now_s = own["clock_s"]
    coming_s, coming = decoders.coming_s[worker], decoders.coming[worker]
    while own["coming"] > 0 and coming_s[0] <= now_s and own["batch"] < own["slots"]:
        request = coming[0]
        own["coming"] = pop(coming_s, coming, own["coming"])
        context = asked[request]["context_tokens"]
        own["coming_kv"] -= context + 1
        since_s = now_s - asked[request]["arrival_s"]
        answers[request]["joined_s"] = since_s
        _release(prefill, answers[request]["prefiller"], context, now_s)
        by = int(way[3])
        steps = asked[request]["output_tokens"] - 1 + by
        if steps <= 0:
            answers[request]["last_s"] = since_s
            continue
        own["batch"] += 1
        own["kv"] += context + 1
        leave, who = decoders.leave[worker], decoders.who[worker]
        own["leaving"] = push(leave, who, own["leaving"], own["steps"] + steps, request)
        if by > 0:
            decoders.fresh[worker, own["fresh"]] = request
            own["fresh"] += 1


@inlined
def _release(prefill: Any, worker: int, context: int, now_s: float) -> None:
    """A prompt's KV cache has been taken over; a worker that was out of it may go on."""
    own = prefill[worker]
    own["held"] -= context
    if own["blocked"] > 0:
        own["blocked"] = 0
        own["ready_s"] = max(own["free_s"], now_s)


@inlined
def _jump(decoders: Decoders, worker: int, until_s: float, asked: Any, answers: Any) -> None:
    """Steps until somebody leaves, may join, or has the first token.

    why not `until_s` while somebody stands in line: nobody gets room before one leaves.
    """
    own, terms = decoders.state[worker], decoders.terms[worker]
    batch, kv = own["batch"], own["kv"]
    steps = min(decoders.leave[worker, 0] - own["steps"], _JUMP_STEPS)
    if own["fresh"] > 0:
        steps = 1
    elif steps > 1:
        end_s = until_s if own["head"] < 0 else NEVER_S
        if own["coming"] > 0 and batch < own["slots"]:
            end_s = min(end_s, decoders.coming_s[worker, 0])
        if end_s < NEVER_S:
            now_s = step_s(terms, batch, kv) * own["speed"]
            steps = min(steps, int(max(end_s - own["clock_s"], 0.0) / now_s) + 1)
    middle = kv + 0.5 * batch * (steps - 1)
    own["step_s"] = step_s(terms, batch, middle) * own["speed"]
    length_s = steps * own["step_s"]
    own["clock_s"] += length_s
    own["steps"] += steps
    own["kv"] = kv + batch * steps
    own["busy_s"] += length_s
    own["batch_s"] += length_s * batch
    own["tokens"] += batch * steps
    decoders.batch_seen[batch] += batch * steps
    cell = min(int(middle / own["kv_cell"]), KV_CELLS - 1)
    decoders.kv_seen[cell] += batch * steps
    for place in range(own["fresh"]):
        request = decoders.fresh[worker, place]
        answers[request]["first_s"] = own["clock_s"] - asked[request]["arrival_s"]
    own["fresh"] = 0


@inlined
def _leave(decoders: Decoders, worker: int, asked: Any, answers: Any, way: Any) -> None:
    """Those with their last token are gone, with their KV cache; their steps scatter by length."""
    own, lengths, noise = (
        decoders.state[worker],
        decoders.noise_from[worker],
        decoders.noise[worker],
    )
    leave, who = decoders.leave[worker], decoders.who[worker]
    while own["leaving"] > 0 and leave[0] <= own["steps"]:
        request = who[0]
        own["leaving"] = pop(leave, who, own["leaving"])
        answer, wanted = answers[request], asked[request]
        row = 0
        while row + 1 < lengths.shape[0] and lengths[row + 1] <= wanted["output_tokens"]:
            row += 1
        misfit = noise[row, (wanted["noise_dice"] >> 12) & (NOISE[0] - 1)]
        took_s = own["clock_s"] - wanted["arrival_s"] - answer["first_s"]
        answer["last_s"] = answer["first_s"] + took_s * misfit
        own["batch"] -= 1
        taken = wanted["context_tokens"] + wanted["output_tokens"] + way[3]
        own["kv"] = max(own["kv"] - taken, 0.0)
