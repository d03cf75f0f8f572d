"""A fleet told step by step, each token on its own: slow, plain, and written apart from what it checks.

Round robin on both sides; a prompt's KV cache waits at its prefill worker until decode has room.
"""

import numpy as np

from review.period import Kind, Worker, period_of

__all__ = ["DECODE", "PREFILL", "asked", "served"]

PREFILL = Kind(role="prefill", gpu="A", engine_version="1")
DECODE = Kind(role="decode", gpu="A", engine_version="1")


def asked(count, per_s, *, seed=0, prompt=900, answer=60):
    """Poisson arrivals of lognormal prompts and answers."""
    dice = np.random.default_rng(seed)
    return {
        "arrival_s": np.cumsum(dice.exponential(1 / per_s, count)),
        "prompt_tokens": np.clip(dice.lognormal(np.log(prompt), 0.7, count), 8, 8000).astype(int),
        "output_tokens": np.clip(dice.lognormal(np.log(answer), 0.8, count), 1, 800).astype(int),
    }


def served(
    wanted,
    prefill,
    decode,
    *,
    prefill_s,
    decode_s,
    transfer_s=0.004,
    slots=128,
    slow=None,
    noise=0.0,
):
    """The period that a fleet makes of it. `prefill_s(tokens)`, `decode_s(batch, kv)`: a step."""
    dice = np.random.default_rng(5)
    count = len(wanted["arrival_s"])
    told = {name: np.zeros(count) for name in ("start", "filled", "joined", "first", "last")}
    where = np.arange(count) % prefill
    for worker in range(prefill):
        own = np.flatnonzero(where == worker)
        _fill(wanted, own, told, lambda n: prefill_s(n) * np.exp(dice.normal(0, noise)))
    order = np.argsort(told["filled"], kind="stable")
    went = np.zeros(count, int)
    went[order] = np.arange(count) % decode
    for worker in range(decode):
        own = order[went[order] == worker]
        factor = (slow or {}).get(worker, 1.0)
        _generate(
            wanted,
            own,
            told,
            lambda b, kv, f=factor: f * decode_s(b, kv),
            transfer_s=transfer_s,
            slots=slots,
        )
    return _period(wanted, told, where, went, prefill=prefill, decode=decode)


def _fill(wanted, own, told, step_s):
    """First come first served, whole prompts, up to 8192 tokens a step."""
    free_s, place = 0.0, 0
    while place < len(own):
        free_s = max(free_s, wanted["arrival_s"][own[place]])
        batch, tokens = [], 0
        while place < len(own) and wanted["arrival_s"][own[place]] <= free_s:
            new = wanted["prompt_tokens"][own[place]]
            if batch and tokens + new > 8192:
                break
            batch.append(own[place])
            tokens += new
            place += 1
        told["start"][batch] = free_s
        free_s += step_s(tokens)
        told["filled"][batch] = free_s


def _generate(wanted, own, told, step_s, *, transfer_s, slots):
    """One step at a time; who has come by then joins the next one."""
    now_s, place, running = 0.0, 0, {}
    while place < len(own) or running:
        if not running:
            now_s = max(now_s, told["filled"][own[place]] + transfer_s)
        while place < len(own) and len(running) < slots:
            request = own[place]
            if told["filled"][request] + transfer_s > now_s:
                break
            told["joined"][request] = now_s
            running[request] = 0
            place += 1
        kv = sum(wanted["prompt_tokens"][r] + done for r, done in running.items())
        now_s += step_s(len(running), kv)
        for request in list(running):
            running[request] += 1
            if running[request] == 1:
                told["first"][request] = now_s
            if running[request] >= wanted["output_tokens"][request]:
                told["last"][request] = now_s
                del running[request]


def _period(wanted, told, where, went, *, prefill, decode):
    at_s = wanted["arrival_s"]
    workers = [Worker(name=f"p{n}", kind=PREFILL) for n in range(prefill)]
    workers += [Worker(name=f"d{n}", kind=DECODE) for n in range(decode)]
    names = ("start_s", "prefilled_s", "joined_s", "first_s", "last_s")
    seconds = {name: column - at_s for name, column in zip(names, told.values(), strict=True)}
    return period_of(
        {**wanted, **seconds, "cached_tokens": np.zeros(len(at_s), int), "prefiller": where,
         "decoder": went + prefill},
        workers,
        since_s=1_790_000_000.0,
        length_s=float(at_s[-1]) + 1.0,
    )  # fmt: skip
