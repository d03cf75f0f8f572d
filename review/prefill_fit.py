"""A prefill curve from requests' own prefill times.

Prompts that began together on a worker were one step. Only clean steps are used: all members end
together and nobody was inside before. Total work must come out right, for it sets capacity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from review.period import Period
from review.regression import bias_over, robust
from review.steps import PrefillCurve
from review.straddlers import rebuilt

__all__ = ["PrefillFit", "fit_prefill"]

Floats = NDArray[np.float64]
Places = NDArray[np.int64]

_TOGETHER_S: Final = 5e-5
_CLEAN_MIN: Final = 200
_CLEAN_SHARE: Final = 0.5
_LONG_MAX: Final = 3000
_NOISE: Final = (np.arange(512) + 0.5) / 512
_KNOTS: Final = (0.1, 0.2, 0.33, 0.5, 0.65, 0.8, 0.9, 0.97)
_SAMPLE_MAX: Final = 40_000
_CURVED: Final = 0.002
_BETTER: Final = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillFit:
    """A curve, and each worker's observed over predicted (a median), by place."""

    curve: PrefillCurve
    ratio: dict[int, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Groups of prompts that were scheduled together."""

    worker: Places
    start_s: Floats
    length_s: Floats
    tokens: Floats
    work: Floats  # tokens x context, as attention sees it
    clean: NDArray[np.bool_]


def fit_prefill(period: Period, budget_tokens: float | None = None) -> PrefillFit:
    """The curve of all requests of the period, whose workers are of one kind."""
    steps = _steps(period, budget_tokens)
    budget = budget_tokens or float(np.quantile(steps.tokens, 0.999))
    clean_share = float(steps.clean.mean())
    if clean_share < _CLEAN_SHARE and (period.prefiller >= 0).any():
        steps = _from_straddlers(period, budget)
    used = steps.length_s > 0
    if int((used & steps.clean).sum()) >= _CLEAN_MIN:
        used &= steps.clean
    columns, knots, sign, found, bias = _best_curve(steps, _sample(used), budget)
    predicted = np.maximum(columns @ found, 1e-9)
    ratio = steps.length_s / predicted
    noise = np.clip(np.quantile(ratio[used], _NOISE), 0.3, 8.0)
    noise *= float(steps.length_s[used].sum() / predicted[used].sum()) / float(noise.mean())
    curve = PrefillCurve(
        base_s=float(found[0]),
        token_s=float(found[1]),
        attention_s=float(found[2]),
        square_s=float(found[3]),
        budget_tokens=budget,
        knots=tuple(
            (knot, sign * float(slope))
            for knot, slope in zip(knots, found[4:], strict=True)
            if slope > 0
        ),
        noise=tuple(noise.tolist()),
        requests=len(period),
        clean_share=clean_share,
        bias=bias,
    )
    workers = np.unique(steps.worker[used])
    return PrefillFit(
        curve=curve,
        ratio={int(w): float(np.median(ratio[used & (steps.worker == w)])) for w in workers},
    )


def _from_straddlers(period: Period, budget: float) -> _Steps:
    """A worker under load: steps rebuilt with the prompts that straddle them."""
    worker, length_s, tokens, work = rebuilt(period, budget)
    return _Steps(
        worker=worker.astype(np.int64),
        start_s=np.zeros(len(worker)),
        length_s=length_s,
        tokens=tokens,
        work=work,
        clean=np.ones(len(worker), bool),
    )


def _sample(used: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Every so manieth of the steps: 40 000 decide a curve of a dozen terms."""
    every = -(-int(used.sum()) // _SAMPLE_MAX)
    return used & (np.cumsum(used) % every == 0) if every > 1 else used


def _best_curve(
    steps: _Steps, used: NDArray[np.bool_], budget: float
) -> tuple[Floats, tuple[float, ...], int, Floats, float]:
    """Straight, or bent up or down at knots where that removes a quarter of a visible misfit."""
    tokens = np.minimum(steps.tokens[used], budget)
    quantiles = {float(np.quantile(tokens, q)) for q in _KNOTS}
    knots = tuple(sorted(each for each in quantiles if each < 0.98 * budget)) or (budget / 2,)
    whole = np.ceil(steps.tokens / budget)
    rest = steps.tokens - (whole - 1) * budget
    square = (whole - 1) * budget**2 + rest**2
    straight = np.column_stack([whole, steps.tokens, steps.work, square])
    bends = [(whole - 1) * max(budget - knot, 0) + np.maximum(rest - knot, 0) for knot in knots]
    best: tuple[Floats, tuple[float, ...], int, Floats, float]
    best = (straight, (), 0, *_fitted(straight, steps, used))
    for sign in (1, -1):
        columns = np.column_stack([straight, *(sign * bend for bend in bends)])
        found, bias = _fitted(columns, steps, used)
        if best[4] > _CURVED and bias < _BETTER * best[4] and _rises(found, sign):
            best = (columns, knots, sign, found, bias)
    return best


def _rises(found: Floats, sign: int) -> bool:
    """More tokens never take less time."""
    return sign > 0 or float(found[1] - found[4:].sum()) >= 0


def _fitted(columns: Floats, steps: _Steps, used: NDArray[np.bool_]) -> tuple[Floats, float]:
    found, rest = robust(columns[used], steps.length_s[used])
    return found, bias_over(steps.tokens[used], rest)


def _steps(period: Period, budget_tokens: float | None) -> _Steps:
    """Requests by worker and start, in that order. Of an unknown worker each is a step of its own."""
    start_s = period.arrival_s + period.start_s
    end_s = period.arrival_s + period.prefilled_s
    worker = period.prefiller.astype(np.int64)
    new = np.maximum(period.prompt_tokens - np.maximum(period.cached_tokens, 0), 1).astype(float)
    before = np.maximum(period.prompt_tokens - new, 0)
    order = np.lexsort((start_s, worker))
    apart = (np.diff(worker[order]) != 0) | (np.abs(np.diff(start_s[order])) > _TOGETHER_S)
    apart |= worker[order][1:] < 0
    group = np.zeros(len(order), np.int64)
    group[order] = np.concatenate(([0], np.cumsum(apart)))
    count = int(group.max()) + 1
    first_s = np.full(count, np.inf)
    np.minimum.at(first_s, group, start_s)
    ends_s, soonest_s = np.zeros(count), np.full(count, np.inf)
    np.maximum.at(ends_s, group, end_s)
    np.minimum.at(soonest_s, group, end_s)
    of = np.zeros(count, np.int64)
    of[group] = worker
    tokens = np.bincount(group, new, count).astype(np.float64)
    work = np.bincount(group, new * (before + new / 2), count).astype(np.float64)
    alone = _alone(of, first_s, ends_s)
    if budget_tokens:
        _add_riders(
            period, of, first_s, ends_s, tokens=tokens, work=work, budget_tokens=budget_tokens
        )
    return _Steps(
        worker=of,
        start_s=first_s,
        length_s=ends_s - first_s,
        tokens=tokens,
        work=work,
        clean=alone & (ends_s - soonest_s < _TOGETHER_S),
    )


def _alone(worker: Places, first_s: Floats, ends_s: Floats) -> NDArray[np.bool_]:
    """Groups that began when nobody was in prefill on their worker any more."""
    alone = np.ones(len(worker), bool)
    for each in np.unique(worker[worker >= 0]):
        own = np.flatnonzero(worker == each)
        before_s = np.maximum.accumulate(ends_s[own])[:-1]
        alone[own[1:]] = before_s <= first_s[own[1:]] + _TOGETHER_S
    return alone


def _add_riders(
    period: Period,
    worker: Places,
    first_s: Floats,
    ends_s: Floats,
    *,
    tokens: Floats,
    work: Floats,
    budget_tokens: float,
) -> None:
    """Prompts longer than a step take others along in their later chunks: their work counts too."""
    long = np.flatnonzero((tokens > budget_tokens) & (worker >= 0))[:_LONG_MAX]
    start_s = period.arrival_s + period.start_s
    end_s = period.arrival_s + period.prefilled_s
    new = np.maximum(period.prompt_tokens - np.maximum(period.cached_tokens, 0), 1).astype(float)
    for each in np.unique(worker[long]):
        own = np.flatnonzero(period.prefiller == each)
        own = own[np.argsort(start_s[own], kind="stable")]
        for group in long[worker[long] == each]:
            inside = first_s[group] + _TOGETHER_S, ends_s[group] - _TOGETHER_S
            low, high = np.searchsorted(start_s[own], inside)
            riders = own[low:high]
            riders = riders[end_s[riders] <= ends_s[group] + _TOGETHER_S]
            before = period.prompt_tokens[riders] - new[riders]
            tokens[group] += new[riders].sum()
            work[group] += (new[riders] * (before + new[riders] / 2)).sum()
