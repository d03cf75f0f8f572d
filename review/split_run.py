"""One replay of a split: the loops' arrays filled from a model, and their result read off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domain.errors import ConfigError
from review.compiled import INTERPRETED
from review.load import Load
from review.period import Kind
from review.pools import (
    ANSWER,
    KV_CELLS,
    NOISE,
    Decoders,
    Prefillers,
    asked,
    decoders,
    prefillers,
)
from review.replay import Replay
from review.split import Split
from review.split_loop import run_split
from review.steps import DecodeCurve, Knots, Model

__all__ = ["UNLIMITED", "columns_of", "decoders_of", "quantile_of", "run_split_of", "terms_of"]

Floats = NDArray[np.float64]

UNLIMITED: Final = 1e15
_OVERFULL: Final = 1.25  # answers grow beyond what was kept for them
_TOLD: Final = (
    *("start_s", "prefilled_s", "joined_s", "first_s", "last_s"),
    *("prefiller", "decoder"),
)


def run_split_of(
    load: Load, split: Split, model: Model, *, names: Sequence[str], seed: int, progress: Any
) -> Replay:
    """Replays a load through prefill and decode workers."""
    wanted = asked(
        load.arrival_s, load.new_tokens, load.context_tokens, load.output_tokens, seed=seed
    )
    given = np.zeros(len(load), ANSWER)
    given["next_one"] = -1
    filling = _prefillers(split, model, names)
    longest = int((load.context_tokens + load.output_tokens).max(initial=1)) + 1
    decoding = decoders_of(split.kinds("decode"), model, names[split.of("prefill") :], longest)
    way = model.handover
    run_split(
        wanted,
        given,
        filling,
        decoding,
        np.array([way.base_s, way.token_s, way.steps, float(way.by_decode)]),
        np.array([model.prefill_choice.policy, model.decode_choice.policy, 0, 0]),
        np.empty(len(load) + 1),
        np.empty(len(load) + 1, np.int32),
        np.zeros(1, np.int64) if progress is None else progress,
    )
    del wanted  # 160 MB of a week, before as much is read off
    return _replay(load, given, filling=filling, decoding=decoding, model=model)


def _replay(
    load: Load, given: Any, *, filling: Prefillers, decoding: Decoders, model: Model
) -> Replay:
    span_s, state = max(load.length_s, 1e-9), decoding.state
    return Replay(
        **columns_of(given, load),
        prefill_busy=tuple((filling.state["busy_s"] / span_s).tolist()),
        prefill_held_max=tuple(filling.state["held_max"].tolist()),
        decode_busy=tuple((state["busy_s"] / span_s).tolist()),
        decode_batch_mean=tuple((state["batch_s"] / np.maximum(state["busy_s"], 1e-9)).tolist()),
        decode_batch=quantile_of(decoding.batch_seen, 0.99),
        decode_kv=(quantile_of(decoding.kv_seen, 0.99) + 0.5) * float(state["kv_cell"][0]),
        tokens=int(state["tokens"].sum()) + (0 if model.handover.by_decode else len(load)),
        interpreted=INTERPRETED,
    )


def columns_of(given: Any, load: Load) -> dict[str, Any]:
    """What became of the requests, column by column, and the time per token after the first."""
    told = {name: np.ascontiguousarray(given[name]) for name in _TOLD}
    gaps = (load.output_tokens - 1).astype(np.float32)
    gaps[gaps < 1] = np.nan
    return {**told, "tpot_s": (told["last_s"] - told["first_s"]) / gaps}


def quantile_of(seen: Floats, q: float) -> float:
    """The cell under which a share lies; 0 where nothing was seen."""
    whole = np.cumsum(seen)
    return float(np.searchsorted(whole, q * whole[-1])) if whole[-1] > 0 else 0.0


def terms_of(rows: Sequence[tuple[tuple[float, ...], Knots]]) -> Floats:
    """Curves as rows of one table: terms, then knots; unused knots lie out of reach."""
    own, most = len(rows[0][0]), max(len(knots) for _, knots in rows)
    table = np.zeros((len(rows), own + 2 * most))
    table[:, own::2] = UNLIMITED
    for row, (terms, knots) in enumerate(rows):
        table[row, :own] = terms
        for place, knot in enumerate(knots):
            table[row, own + 2 * place : own + 2 + 2 * place] = knot
    return table


def _prefillers(split: Split, model: Model, names: Sequence[str]) -> Prefillers:
    kinds = split.kinds("prefill")
    curves = [model.prefill.get(kind) for kind in kinds]
    known = [_known(curve, kind) for curve, kind in zip(curves, kinds, strict=True)]
    rows = [
        ((each.base_s, each.token_s, each.attention_s, each.square_s), each.knots) for each in known
    ]
    noise = np.array([np.resize(each.noise, NOISE[1]) for each in known])
    return prefillers(
        terms_of(rows),
        noise,
        _speeds(kinds, model, names),
        np.array([each.budget_tokens for each in known], np.float64),
        np.array([model.engine(kind).kv_tokens or UNLIMITED for kind in kinds], np.float64),
    )


def decoders_of(kinds: list[Kind], model: Model, names: Sequence[str], longest: int) -> Decoders:
    """Idle decode workers of these kinds. `longest`: tokens of a request to its end."""
    engines = [model.engine(kind) for kind in kinds]
    kv_most = max(min(e.kv_tokens or UNLIMITED, e.slots * longest) for e in engines)
    curves = [_curve(model, kind) for kind in kinds]
    rows = [((each.base_s, each.sequence_s, each.kv_token_s), each.knots) for each in curves]
    return decoders(
        terms_of(rows),
        _speeds(kinds, model, names),
        np.array([each.slots for each in engines], np.int64),
        np.array([each.kv_tokens or UNLIMITED for each in engines], np.float64),
        kv_cell=_OVERFULL * kv_most / KV_CELLS,
        **_scatter(curves),
    )


def _scatter(curves: Sequence[DecodeCurve]) -> dict[str, Floats]:
    """By worker and length of the answer; lengths that a curve does not tell apart are out of reach."""
    most = max(len(curve.noise_from) for curve in curves)
    wide = NOISE[0]
    lengths = np.full((len(curves), most), UNLIMITED)
    noise = np.ones((len(curves), most, wide))
    for place, curve in enumerate(curves):
        lengths[place, : len(curve.noise_from)] = curve.noise_from
        for row, each in enumerate(curve.noise):
            noise[place, row] = np.resize(each, wide)
    return {"noise_from": lengths, "noise": noise}


def _curve(model: Model, kind: Kind) -> DecodeCurve:
    curve = model.decode.get(kind)
    if curve is None:
        raise _unknown(kind)
    return curve


def _known(curve: Any, kind: Kind) -> Any:
    if curve is None:
        raise _unknown(kind)
    return curve


def _unknown(kind: Kind) -> ConfigError:
    return ConfigError(
        "no request of the period tells how fast such a worker is",
        where=f"split, {kind}",
        remedy="Review splits of kinds that served the period.",
    )


def _speeds(kinds: list[Kind], model: Model, names: Sequence[str]) -> Floats:
    """Of workers that exist their own, of new ones the usual."""
    known = [model.speed.get(name, 1.0) for name in names[: len(kinds)]]
    return np.array(known + [1.0] * (len(kinds) - len(known)))
