"""Small fleets and loads for the tests of the simulator."""

import numpy as np

from review.load import Load
from review.routing import LEAST_LOADED, ROUND_ROBIN, Choice
from review.split import Split
from review.steps import DecodeCurve, Engine, Handover, Model, PrefillCurve
from tests.review.step_by_step import DECODE, PREFILL

__all__ = ["Handover", "load", "model", "poisson", "split"]


def split(prefill, decode):
    return Split(tuple(sorted([(PREFILL, prefill), (DECODE, decode)])))


def model(**told):
    """Prefill 20 ms and 20 µs a token, decode 10 ms and a little per sequence and KV token."""
    prefill = told.get("prefill") or {
        "base_s": 0.02, "token_s": 2e-5, "attention_s": 1e-9, "square_s": 0.0, "budget_tokens": 8192.0,
    }  # fmt: skip
    decode = told.get("decode") or {"base_s": 0.01, "sequence_s": 5e-5, "kv_token_s": 5e-8}
    policy = LEAST_LOADED if told.get("least_loaded", True) else ROUND_ROBIN
    return Model(
        prefill={PREFILL: PrefillCurve(**prefill)},
        decode={DECODE: DecodeCurve(**decode)},
        engines={
            PREFILL: Engine(kv_tokens=told.get("prefill_kv")),
            DECODE: Engine(kv_tokens=told.get("decode_kv"), slots=told.get("slots", 256)),
        },
        handover=told.get("handover", Handover(base_s=0.004)),
        prefill_choice=Choice(policy=policy),
        decode_choice=Choice(policy=policy),
    )


def load(arrival_s, prompt, output, *, cached=0, length_s=None):
    """Of given arrivals; prompts and answers are numbers or columns."""
    count = len(arrival_s)
    context = np.broadcast_to(np.asarray(prompt, np.int32), count).copy()
    return Load(
        length_s=length_s or float(arrival_s[-1]) + 1.0,
        arrival_s=np.asarray(arrival_s, np.float64),
        new_tokens=np.maximum(context - np.int32(cached), 1).astype(np.int32),
        context_tokens=context,
        output_tokens=np.broadcast_to(np.asarray(output, np.int32), count).copy(),
        served=np.ones(count, bool),
        hit_ratio=None,
    )


def poisson(count, per_s, *, seed=0, prompt=800, output=60, cached=0):
    """Poisson arrivals of lognormal prompts and answers."""
    dice = np.random.default_rng(seed)
    prompts = np.clip(dice.lognormal(np.log(prompt), 0.6, count), 2, 8000)
    outputs = np.clip(dice.lognormal(np.log(output), 0.6, count), 1, 900)
    at_s = np.cumsum(dice.exponential(1 / per_s, count))
    return load(at_s, prompts.astype(int), outputs.astype(int), cached=cached)
