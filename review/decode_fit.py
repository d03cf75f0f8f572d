"""A decode curve from requests' own decode times.

Who was in a batch, and with how much KV cache, follows from when each request joined and left; each
request's mean step is set against its own mean batch and KV cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from review.period import Period
from review.regression import bias_over, non_negative, robust
from review.steps import DecodeCurve, Handover

__all__ = ["DecodeFit", "fit_decode", "fit_handover"]

Floats = NDArray[np.float64]

_STEPS_MIN: Final = 7
_SAMPLE_MAX: Final = 40_000
_NOISE: Final = (np.arange(256) + 0.5) / 256
_KNOTS: Final = (0.25, 0.5, 0.75, 0.93)
_CURVED: Final = 0.004
_BETTER: Final = 0.75
_SLOW: Final = 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeFit:
    """A curve, and each worker's observed over predicted (a median), by place."""

    curve: DecodeCurve
    ratio: dict[int, float]


def fit_decode(period: Period, *, seed: int = 0) -> DecodeFit:
    """The curve of all requests of the period, whose workers are of one kind."""
    batch, kv = _company(period)
    used = np.flatnonzero((period.output_tokens > _STEPS_MIN) & (batch > 0))
    if len(used) > _SAMPLE_MAX:
        used = np.random.default_rng(seed).choice(used, _SAMPLE_MAX, replace=False)
    step_s = period.tpot_s[used]
    used, step_s = used[step_s > 0], step_s[step_s > 0]
    knots, sign, found, bias = _best_curve(batch[used], kv[used], step_s)
    columns = _columns(batch[used], kv[used], knots, sign)
    ratio = step_s / np.maximum(columns @ found, 1e-9)
    worker = period.decoder[used]
    by_worker = {int(w): float(np.median(ratio[worker == w])) for w in np.unique(worker)}
    usual = float(np.median(list(by_worker.values())))
    factor = np.array([_kept(by_worker[int(w)], usual) for w in worker])
    tokens = period.output_tokens[used].astype(np.float64)
    edges, noise = _noise(tokens, ratio / factor)
    curve = DecodeCurve(
        base_s=float(found[0]),
        sequence_s=float(found[1]),
        kv_token_s=float(found[2]),
        knots=tuple((knot, sign * float(s)) for knot, s in zip(knots, found[3:], strict=True)),
        noise_from=edges,
        noise=noise,
        requests=len(used),
        bias=bias,
        batch_max=float(np.quantile(batch[used], 0.999)),
        kv_max=float(np.quantile(kv[used], 0.999)),
    )
    return DecodeFit(curve=curve, ratio=by_worker)


def fit_handover(period: Period) -> Handover:
    """Prefill's end to decode's line, less the part of a step that is waited for anyway.

    why not the slowest twentieth: those stood in line at a full decode pool, which is replayed.
    """
    joined = bool(np.isfinite(period.joined_s).mean() > 0.5)
    reached_s = period.joined_s if joined else period.first_s
    step_s = period.tpot_s
    gap_s = np.maximum(reached_s - period.prefilled_s, 0.0)
    used = np.isfinite(gap_s) & np.isfinite(step_s)
    by_decode = bool(np.median((period.first_s - period.prefilled_s)[used]) > 1e-6)
    if joined:
        by_decode = bool(np.mean(period.first_s[used] > period.joined_s[used] + 1e-9) > 0.5)
    natural = 0.5 if joined else 1.5
    if not by_decode and not joined:
        return Handover(by_decode=False)
    used &= gap_s <= np.quantile(gap_s[used], 0.95)
    columns = np.column_stack([np.ones(int(used.sum())), period.prompt_tokens[used], step_s[used]])
    rest_s = gap_s[used] - natural * step_s[used]
    found = non_negative(columns, rest_s, np.ones(len(columns)))
    return Handover(
        base_s=float(found[0]),
        token_s=float(found[1]),
        steps=float(found[2]),
        by_decode=by_decode,
    )


def _kept(ratio: float, usual: float) -> float:
    """Workers as fast as usual are alike: small differences are noise."""
    return ratio if abs(ratio / usual - 1) > _SLOW else usual


def _company(period: Period) -> tuple[Floats, Floats]:
    """Each request's batch and KV cache, averaged from its first token to its last."""
    batch, kv = np.zeros(len(period)), np.zeros(len(period))
    begun_s = period.arrival_s + np.where(
        np.isfinite(period.joined_s), period.joined_s, period.first_s - np.nan_to_num(period.tpot_s)
    )
    first_s, last_s = period.arrival_s + period.first_s, period.arrival_s + period.last_s
    fine = (last_s > begun_s) & (period.output_tokens > 1)
    for worker in np.unique(period.decoder[period.decoder >= 0]):
        own = np.flatnonzero((period.decoder == worker) & fine)
        if len(own) < 5:
            continue
        tokens = period.output_tokens[own].astype(np.float64)
        context = period.prompt_tokens[own].astype(np.float64)
        mean = _mean_over(begun_s[own], last_s[own], first_s[own], context, tokens)
        batch[own], kv[own] = mean
    return batch, kv


def _mean_over(
    begun_s: Floats, last_s: Floats, first_s: Floats, context: Floats, tokens: Floats
) -> tuple[Floats, Floats]:
    """Integrals of batch and KV cache of one worker, read off at each request's ends.

    A request brings its context, grows by a token a step, and takes both away.
    """
    at_s = np.concatenate((begun_s, last_s))
    order = np.argsort(at_s, kind="stable")
    at_s = at_s[order]
    growth = tokens / (last_s - begun_s)
    ones = np.ones(len(tokens))
    batch = np.cumsum(np.concatenate((ones, -ones))[order])
    rate = np.cumsum(np.concatenate((growth, -growth))[order])
    gap_s = np.diff(at_s, append=at_s[-1])
    jumps = np.cumsum(np.concatenate((context, -(context + tokens)))[order])
    kv = jumps + np.concatenate(([0.0], np.cumsum(rate[:-1] * gap_s[:-1])))
    whole_batch = np.concatenate(([0.0], np.cumsum(batch * gap_s)))
    whole_kv = np.concatenate(([0.0], np.cumsum(kv * gap_s + 0.5 * rate * gap_s**2)))
    ends_s = np.concatenate((at_s, [at_s[-1] + 1.0]))
    length_s = np.maximum(last_s - first_s, 1e-9)

    def mean(whole: Floats) -> Floats:
        high, low = np.interp(last_s, ends_s, whole), np.interp(first_s, ends_s, whole)
        return np.asarray((high - low) / length_s, np.float64)

    return mean(whole_batch), mean(whole_kv)


def _best_curve(
    batch: Floats, kv: Floats, step_s: Floats
) -> tuple[tuple[float, ...], int, Floats, float]:
    """Straight, or bent all up or all down at four knots where that removes a visible misfit."""
    found, rest = robust(_columns(batch, kv, (), 1), step_s)
    best: tuple[tuple[float, ...], int, Floats, float] = ((), 1, found, bias_over(kv, rest))
    straight = best[3]
    knots = tuple(float(np.quantile(kv, q)) for q in _KNOTS)
    for sign in (1, -1):
        found, rest = robust(_columns(batch, kv, knots, sign), step_s)
        bias = bias_over(kv, rest)
        if straight > _CURVED and bias < min(_BETTER * straight, best[3]):
            best = (knots, sign, _rising(found, sign), bias)
    return best


def _rising(found: Floats, sign: int) -> Floats:
    """More KV cache never takes less time, also beyond what was seen."""
    slope = float(found[2] + sign * found[3:].sum())
    if slope < 0:
        found = found.copy()
        found[-1] += slope  # why: sign is -1 here, so the last bend gets weaker
    return found


def _columns(batch: Floats, kv: Floats, knots: tuple[float, ...], sign: int) -> Floats:
    bends = [sign * np.maximum(kv - knot, 0) for knot in knots]
    return np.column_stack([np.ones(len(batch)), batch, kv, *bends])


def _noise(
    tokens: Floats, ratio: Floats
) -> tuple[tuple[float, ...], tuple[tuple[float, ...], ...]]:
    """Quantiles by output length: short answers average fewer steps, so they scatter more."""
    edges = np.unique(np.quantile(tokens, [0, 0.25, 0.5, 0.75, 0.9]))
    place = np.clip(np.searchsorted(edges, tokens, side="right") - 1, 0, len(edges) - 1)
    noise = [np.quantile(ratio[place == each], _NOISE) for each in range(len(edges))]
    return tuple(edges.tolist()), tuple(tuple(each.tolist()) for each in noise)
