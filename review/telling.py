"""What a period and a model say of themselves, as the review keeps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from review.period import Period
from review.review_value import Curves, Traffic
from review.scores import Day, Promise, Score, days_of, good_of, score_of
from review.steps import Model

__all__ = ["Observed", "curves_of", "observed_of", "traffic_of"]

_POINTS: Final = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What users had, by the promise. Cancelled requests count in neither; failed ones are bad."""

    score: Score
    days: tuple[Day, ...]


def observed_of(period: Period, promise: Promise) -> Observed:
    """Of all requests but those whose users hung up."""
    counted, tpot_s = period.outcome != 2, period.tpot_s
    good = (good_of(period.first_s, tpot_s, promise) & (period.outcome == 0))[counted]
    days = max(int(np.ceil(period.length_s / 86_400)), 1)
    return Observed(
        score=score_of(period.first_s[counted], tpot_s[counted], period.start_s[counted], good),
        days=days_of(good, period.days[counted], days),
    )


def traffic_of(period: Period) -> Traffic:
    """What was asked, and what became of it."""
    hours = np.bincount((period.arrival_s // 3600).astype(np.int64), minlength=1)
    told = (period.cached_tokens >= 0) & (period.prompt_tokens > 0)
    prompts, outputs = period.prompt_tokens, period.output_tokens
    hit = float(period.cached_tokens[told].sum() / prompts[told].sum()) if told.any() else None
    return Traffic(
        requests=len(period),
        served=int(period.served.sum()),
        failed=int((period.outcome == 1).sum()),
        cancelled=int((period.outcome == 2).sum()),
        demand_per_s=len(period) / period.length_s,
        peak_hour=int(hours.max()),
        prompt_p50_tokens=_quantile(prompts, 0.5),
        prompt_p99_tokens=_quantile(prompts, 0.99),
        output_p50_tokens=_quantile(outputs, 0.5),
        output_p99_tokens=_quantile(outputs, 0.99),
        hit_ratio=hit,
        drawn=int(((prompts < 1) | (outputs < 1)).sum()),
        left_out=tuple(sorted(period.left_out.items())),
    )


def curves_of(model: Model) -> tuple[Curves, ...]:
    """Each kind's curve as points, up to a third beyond what was seen."""
    found = []
    for kind, curve in sorted(model.prefill.items()):
        tokens = np.linspace(1, curve.budget_tokens, _POINTS)
        step_s = curve.step_s(tokens, tokens)
        found.append(
            Curves(
                kind=kind,
                points=_points(tokens, step_s),
                seen_max=curve.budget_tokens,
                bias=curve.bias,
                requests=curve.requests,
            )
        )
    for kind, decode in sorted(model.decode.items()):
        kv = np.linspace(0, max(decode.kv_max, 1.0) * 4 / 3, _POINTS)
        batch = np.maximum(kv / max(decode.kv_max, 1.0) * decode.batch_max, 1)
        found.append(
            Curves(
                kind=kind,
                points=_points(kv, decode.step_s(batch, kv)),
                seen_max=decode.kv_max,
                bias=decode.bias,
                requests=decode.requests,
            )
        )
    return tuple(found)


def _points(
    places: NDArray[np.float64], step_s: NDArray[np.float64]
) -> tuple[tuple[float, float], ...]:
    return tuple((float(x), float(y)) for x, y in zip(places, step_s, strict=True))


def _quantile(column: NDArray[np.int32], q: float) -> float | None:
    known = column[column > 0]
    return float(np.quantile(known, q)) if len(known) else None
