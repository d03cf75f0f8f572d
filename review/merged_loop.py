"""Workers that do both: chunked prefill rides along with decode steps in one batch."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from review.compiled import compiled, inlined
from review.decode_loop import step_s
from review.heap import pop, push
from review.pools import NEVER_S
from review.routing import ROUND_ROBIN

__all__ = ["WHOLE", "run_merged_loop"]

_JUMP_STEPS = 48

WHOLE: Final = np.dtype(
    [
        ("speed", np.float64),
        ("kv_tokens", np.float64),
        ("clock_s", np.float64),
        ("kv", np.float64),
        ("kept", np.float64),  # for prompts that are being filled
        ("done", np.float64),
        ("load", np.float64),
        ("busy_s", np.float64),
        ("batch_s", np.float64),
        ("tokens", np.int64),
        ("slots", np.int64),
        ("steps", np.int64),
        ("batch", np.int64),
        ("leaving", np.int64),
        ("filled", np.int64),  # prompts that this step finishes
        ("head", np.int64),
        ("tail", np.int64),
    ]
)


@compiled
def run_merged_loop(
    asked: Any,
    answers: Any,
    state: Any,
    leave: Any,
    who: Any,
    prefill_terms: Any,
    decode_terms: Any,
    budget: float,
    mixed_s: float,
    policy: int,
) -> None:
    """Fills the answers. `mixed_s`: what a step costs more when it holds any prompt."""
    for request in range(asked.shape[0] + 1):
        now_s = asked[request]["arrival_s"] if request < asked.shape[0] else NEVER_S
        for worker in range(state.shape[0]):
            own = state[worker]
            while own["clock_s"] < now_s and (own["batch"] > 0 or own["head"] >= 0):
                fill_s = _fill(own, asked, answers, prefill_terms[worker], budget)
                if fill_s > 0.0:
                    fill_s += mixed_s
                _advance(own, leave[worker], now_s, fill_s, decode_terms[worker])
                _end(own, leave[worker], who[worker], asked, answers)
                _begin(own, leave[worker], who[worker], asked, answers)
            own["clock_s"] = max(own["clock_s"], now_s)
        if request < asked.shape[0]:
            worker = request % state.shape[0] if policy == ROUND_ROBIN else _least(state)
            _stand_in_line(request, state[worker], asked, answers)
            answers[request]["prefiller"] = worker
            answers[request]["decoder"] = worker


@inlined
def _least(state: Any) -> int:
    place = 0
    for worker in range(1, state.shape[0]):
        if state[worker]["load"] < state[place]["load"]:
            place = worker
    return place


@inlined
def _stand_in_line(request: int, own: Any, asked: Any, answers: Any) -> None:
    own["load"] += asked[request]["context_tokens"]
    if own["tail"] >= 0:
        answers[own["tail"]]["next_one"] = request
    else:
        own["head"] = request
    own["tail"] = request


@inlined
def _fill(own: Any, asked: Any, answers: Any, terms: Any, budget: float) -> float:
    """The prompts of this step, as far as tokens, slots and KV cache go: what they cost."""
    left = budget - own["batch"]
    request, done, cost_s = own["head"], own["done"], 0.0
    own["filled"] = 0
    while request >= 0 and left > 0 and own["batch"] + own["filled"] < own["slots"]:
        wanted = asked[request]
        if done == 0.0:
            busy = own["batch"] > 0 or own["filled"] > 0
            need = own["kv"] + own["kept"] + wanted["context_tokens"] + 1
            if need > own["kv_tokens"] and busy:
                break
            answers[request]["start_s"] = own["clock_s"] - wanted["arrival_s"]
            own["kept"] += wanted["context_tokens"]
        rest = wanted["new_tokens"] - done
        chunk = min(rest, left)
        before = wanted["context_tokens"] - rest
        cost_s += terms[1] * chunk + terms[2] * chunk * (before + 0.5 * chunk)
        cost_s += terms[3] * chunk * chunk
        for knot in range(4, terms.shape[0] - 1, 2):
            if chunk > terms[knot]:
                cost_s += terms[knot + 1] * (chunk - terms[knot])
        left -= chunk
        if chunk < rest:
            own["done"] = done + chunk
            return float(max(cost_s, 1e-9))
        own["filled"] += 1
        request = answers[request]["next_one"]
        done = 0.0
    own["done"] = 0.0 if own["filled"] > 0 else own["done"]
    return float(cost_s)


@inlined
def _advance(own: Any, leave: Any, until_s: float, fill_s: float, terms: Any) -> None:
    batch, kv, steps = own["batch"], own["kv"], 1
    if fill_s == 0.0:
        steps = min(leave[0] - own["steps"], _JUMP_STEPS)
        if until_s < NEVER_S:
            now_s = step_s(terms, batch, kv) * own["speed"]
            steps = min(steps, int((until_s - own["clock_s"]) / now_s) + 1)
    middle = kv + 0.5 * batch * (steps - 1)
    length_s = steps * (step_s(terms, batch, middle) + fill_s) * own["speed"]
    own["clock_s"] += length_s
    own["steps"] += steps
    own["kv"] = kv + batch * steps
    own["busy_s"] += length_s
    own["batch_s"] += length_s * batch
    own["tokens"] += batch * steps


@inlined
def _end(own: Any, leave: Any, who: Any, asked: Any, answers: Any) -> None:
    while own["leaving"] > 0 and leave[0] <= own["steps"]:
        request = who[0]
        own["leaving"] = pop(leave, who, own["leaving"])
        wanted = asked[request]
        answers[request]["last_s"] = own["clock_s"] - wanted["arrival_s"]
        own["batch"] -= 1
        own["kv"] = max(own["kv"] - wanted["context_tokens"] - wanted["output_tokens"] + 1, 0.0)
        own["load"] -= wanted["context_tokens"]


@inlined
def _begin(own: Any, leave: Any, who: Any, asked: Any, answers: Any) -> None:
    """Prompts that are filled have their first token, and go on to decode."""
    for _ in range(own["filled"]):
        request = own["head"]
        answer, wanted = answers[request], asked[request]
        own["head"] = answer["next_one"]
        if own["head"] < 0:
            own["tail"] = -1
        since_s = own["clock_s"] - wanted["arrival_s"]
        answer["prefilled_s"] = answer["joined_s"] = answer["first_s"] = since_s
        own["kept"] -= wanted["context_tokens"]
        own["tokens"] += 1
        if wanted["output_tokens"] <= 1:
            answer["last_s"] = since_s
            own["load"] -= wanted["context_tokens"]
            continue
        own["batch"] += 1
        own["kv"] += wanted["context_tokens"]
        at = own["steps"] + wanted["output_tokens"] - 1
        own["leaving"] = push(leave, who, own["leaving"], at, request)
    own["filled"] = 0
