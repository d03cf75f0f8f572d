"""A fleet's model, fitted from the stage times of a period's own requests.

Each kind of worker has its own curve: residuals of two GPU types or engine versions are never pooled.
Requests of workers younger than the warm-up are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from domain.errors import InputError
from review.decode_fit import DecodeFit, fit_decode, fit_handover
from review.period import Kind, Period
from review.prefill_fit import fit_prefill
from review.routing import LEAST_LOADED, Choice, decode_choice, prefill_choice
from review.steps import DecodeCurve, Engine, Handover, Model, PrefillCurve

__all__ = ["WARM_UP_S", "calibrate", "warm"]

WARM_UP_S: Final = 300.0
_SLOW: Final = 0.04
_TRACED_MIN: Final = 50
_CHOICES_MAX: Final = 100_000
_FITTED_MAX: Final = 1_000_000
_TURNS: Final = (1, 5, 7, 11, 13, 17, 19, 23, 29)  # none shares a factor with the hours of a day


def calibrate(
    period: Period,
    engines: Mapping[Kind, Engine] | None = None,
    *,
    warm_up_s: float = WARM_UP_S,
    seed: int = 0,
) -> Model:
    """The model of all kinds that served the period; too few traced requests are an error."""
    told = dict(engines or {})
    traced = period.part(period.traced & warm(period, warm_up_s) & _hours(period))
    if len(traced) < _TRACED_MIN:
        raise InputError(
            f"{len(traced)} requests tell their stages, {_TRACED_MIN} are needed for any curve",
            where="calibration",
            remedy="Send spans that tell when prefill began and ended, and the first and last token.",
        )
    notes: list[str] = []
    prefill, speed = _prefill(traced, told, notes)
    decode, slower = _decode(traced, notes, seed)
    handover = fit_handover(traced) if decode else Handover(by_decode=False)
    return Model(
        prefill=prefill,
        decode=decode,
        engines=told,
        handover=handover,
        prefill_choice=_prefill_choice(traced, notes),
        decode_choice=_decode_choice(traced),
        speed={**speed, **slower},
        notes=tuple(notes),
    )


def warm(period: Period, warm_up_s: float = WARM_UP_S) -> NDArray[np.bool_]:
    """Requests none of whose workers had just started.

    A worker that does not tell when it started, and is first heard of later than anybody, is taken
    to have started then.
    """
    fine = np.ones(len(period), bool)
    at_s = period.since_s + period.arrival_s
    for place, worker in enumerate(period.workers):
        own = (period.prefiller == place) | (period.decoder == place)
        if not own.any():
            continue
        since_s = worker.since_s
        if since_s is None and period.arrival_s[own].min() > 2 * warm_up_s:
            since_s = float(at_s[own].min())
        if since_s is not None:
            fine &= ~(own & (at_s < since_s + warm_up_s))
    return fine


def _hours(period: Period) -> NDArray[np.bool_]:
    """Whole hours, enough for curves: the busiest of each day, and others so that every hour has its turn.

    why whole: who shared a batch is told by who else was there.
    """
    if len(period) <= _FITTED_MAX:
        return np.ones(len(period), bool)
    hour = (period.arrival_s // 3600).astype(np.int32)
    counts = np.bincount(hour)
    every = next(n for n in _TURNS if n * _FITTED_MAX >= len(period) or n == _TURNS[-1])
    kept = np.arange(len(counts)) % every == 0
    for day in range(0, len(counts), 24):
        kept[day + int(counts[day : day + 24].argmax())] = True
    return np.asarray(kept[hour], np.bool_)


def _of_kind(period: Period, kind: Kind, column: str) -> Period:
    places = [n for n, worker in enumerate(period.workers) if worker.kind == kind]
    return period.part(np.isin(getattr(period, column), places))


def _kinds(period: Period, column: str) -> list[Kind]:
    places = np.unique(getattr(period, column))
    return sorted({period.workers[int(place)].kind for place in places if place >= 0})


def _prefill(
    traced: Period, engines: Mapping[Kind, Engine], notes: list[str]
) -> tuple[dict[Kind, PrefillCurve], dict[str, float]]:
    curves: dict[Kind, PrefillCurve] = {}
    speed: dict[str, float] = {}
    kinds = _kinds(traced, "prefiller")
    if not kinds:
        notes.append("prefill workers are not told: each prompt is taken for a step of its own")
        known = {each.kind for each in traced.workers if each.kind.role == "prefill"}
        kind = known.pop() if len(known) == 1 else Kind(role="prefill")
        budget = engines.get(kind, Engine()).budget_tokens
        return {kind: fit_prefill(traced, budget).curve}, {}
    for kind in kinds:
        budget = engines.get(kind, Engine()).budget_tokens
        if budget is None:
            notes.append(f"{kind}: the token budget of a step is not told: taken from the largest")
        fit = fit_prefill(_of_kind(traced, kind, "prefiller"), budget)
        curves[kind] = fit.curve
        speed |= {
            traced.workers[place].name: ratio
            for place, ratio in fit.ratio.items()
            if abs(ratio - 1) > _SLOW
        }
    return curves, speed


def _decode(
    traced: Period, notes: list[str], seed: int
) -> tuple[dict[Kind, DecodeCurve], dict[str, float]]:
    curves: dict[Kind, DecodeCurve] = {}
    speed: dict[str, float] = {}
    for kind in _kinds(traced, "decoder"):
        own = _of_kind(traced, kind, "decoder")
        if int((own.output_tokens > 7).sum()) < _TRACED_MIN:
            notes.append(f"{kind}: too few answers of more than 7 tokens for a decode curve")
            continue
        fit = fit_decode(own, seed=seed)
        usual = float(np.median(list(fit.ratio.values())))
        curves[kind] = _times(fit, usual)
        speed |= {
            traced.workers[place].name: ratio / usual
            for place, ratio in fit.ratio.items()
            if abs(ratio / usual - 1) > _SLOW
        }
    return curves, speed


def _times(fit: DecodeFit, factor: float) -> DecodeCurve:
    """The curve of a worker that is as fast as usual."""
    curve = fit.curve
    return replace(
        curve,
        base_s=curve.base_s * factor,
        sequence_s=curve.sequence_s * factor,
        kv_token_s=curve.kv_token_s * factor,
        knots=tuple((knot, slope * factor) for knot, slope in curve.knots),
    )


def _numbered(column: NDArray[np.int16]) -> tuple[NDArray[np.int64], int]:
    found, places = np.unique(column, return_inverse=True)
    return places.astype(np.int64), len(found)


def _prefill_choice(traced: Period, notes: list[str]) -> Choice:
    known = traced.part(traced.prefiller >= 0)
    known = known.part(slice(0, _CHOICES_MAX))
    if not len(known):
        notes.append("prefill's routing is not told: least loaded is assumed")
        return Choice(policy=LEAST_LOADED)
    worker, workers = _numbered(known.prefiller)
    new = np.maximum(known.prompt_tokens - np.maximum(known.cached_tokens, 0), 1)
    at_s = known.arrival_s
    ends_s = at_s + known.start_s, at_s + known.prefilled_s
    return prefill_choice(at_s, *ends_s, worker, tokens=new.astype(np.float64), workers=workers)


def _decode_choice(traced: Period) -> Choice:
    known = traced.part(traced.decoder >= 0)
    known = known.part(slice(0, _CHOICES_MAX))
    if not len(known):
        return Choice(policy=LEAST_LOADED)
    worker, workers = _numbered(known.decoder)
    at_s = known.arrival_s
    orders = {"prefilled": at_s + known.prefilled_s, "arrived": at_s}
    if np.isfinite(known.joined_s).all():
        orders["joined"] = at_s + known.joined_s
    tokens = known.prompt_tokens + known.output_tokens / 2
    return decode_choice(orders, at_s + known.last_s, worker, tokens, workers)
