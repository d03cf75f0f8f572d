"""One replay of workers that do both, from curves that were fitted on workers that do one thing.

What a mixed step costs cannot be learnt from a split: a fixed cost as large as prefill's own is
assumed (the value that came nearest in our trials). So the answer is of low confidence, always.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from domain.errors import ConfigError
from review.compiled import INTERPRETED
from review.load import Load
from review.merged_loop import WHOLE, run_merged_loop
from review.period import Kind
from review.pools import ANSWER, asked
from review.replay import Replay
from review.split import Split
from review.split_run import UNLIMITED, columns_of, terms_of
from review.steps import DecodeCurve, Engine, Model, PrefillCurve

__all__ = ["run_merged"]

_BUDGET: Final = 2048
_MIXED: Final = 1.0


def run_merged(load: Load, split: Split, model: Model, *, seed: int) -> Replay:
    """Replays a load through workers that do both."""
    kinds = split.kinds("both")
    curves = [_curves(model, kind) for kind in kinds]
    engines = [_engine(model, kind) for kind in kinds]
    state = np.zeros(len(kinds), WHOLE)
    state["speed"] = 1.0
    state["slots"] = [engine.slots for engine in engines]
    state["kv_tokens"] = [engine.kv_tokens or UNLIMITED for engine in engines]
    state["head"] = state["tail"] = -1
    wanted = asked(
        load.arrival_s, load.new_tokens, load.context_tokens, load.output_tokens, seed=seed
    )
    given = np.zeros(len(load), ANSWER)
    given["next_one"] = -1
    heap = len(kinds), int(state["slots"].max()) + 2
    run_merged_loop(
        wanted,
        given,
        state,
        np.zeros(heap, np.int64),
        np.zeros(heap, np.int32),
        terms_of([((p.base_s, p.token_s, p.attention_s, p.square_s), p.knots) for p, _ in curves]),
        terms_of([((d.base_s, d.sequence_s, d.kv_token_s), d.knots) for _, d in curves]),
        float(engines[0].budget_tokens or _BUDGET),
        _MIXED * curves[0][0].base_s,
        model.prefill_choice.policy,
    )
    return _replay(load, given, state)


def _replay(load: Load, given: Any, state: Any) -> Replay:
    busy = tuple((state["busy_s"] / load.length_s).tolist())
    return Replay(
        **columns_of(given, load),
        prefill_busy=busy,
        prefill_held_max=(0.0,) * len(state),
        decode_busy=busy,
        decode_batch_mean=tuple((state["batch_s"] / np.maximum(state["busy_s"], 1e-9)).tolist()),
        decode_batch=None,
        decode_kv=None,
        tokens=int(state["tokens"].sum()),
        interpreted=INTERPRETED,
    )


def _curves(model: Model, kind: Kind) -> tuple[PrefillCurve, DecodeCurve]:
    """Curves of the same GPU type, whichever role they were fitted in."""
    filling = [curve for each, curve in model.prefill.items() if each.gpu == kind.gpu]
    decoding = [curve for each, curve in model.decode.items() if each.gpu == kind.gpu]
    if not filling or not decoding:
        raise ConfigError(
            f"no request tells how fast {kind.gpu or 'such a GPU'} is in both roles",
            where=f"split, {kind}",
            remedy="Review merged workers of a GPU type that serves prefill and decode.",
        )
    return filling[0], decoding[0]


def _engine(model: Model, kind: Kind) -> Engine:
    """The kind's own, or that of decode workers on the same GPU type, with a step of 2048 tokens."""
    if kind in model.engines:
        return model.engines[kind]
    same = [e for k, e in model.engines.items() if k.gpu == kind.gpu and k.role == "decode"]
    found = same[0] if same else Engine()
    return Engine(kv_tokens=found.kv_tokens, slots=found.slots, budget_tokens=_BUDGET)
