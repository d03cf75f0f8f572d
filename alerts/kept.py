"""One request against a promise: what it was promised, what it got, and whether that counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from domain.indicator import AvailabilityIndicator, GoodputIndicator, LatencyIndicator, Limit
from domain.labels import matches, value_of
from domain.objective import Objective
from domain.request import Leg, Outcome, Request

__all__ = ["Kept", "Verdict", "kept"]

_OF_GAPS = frozenset(("itl", "itl_max", "tpot"))
_OUTSIDE = ("client", "probe")


class Verdict(StrEnum):
    """What one request is to one promise."""

    BROKEN = "broken"
    KEPT = "kept"
    NOT_MEASURED = "not measured"
    NOT_COUNTED = "not counted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """`limit` is None where being answered is all that is promised; `value_s` what it got."""

    verdict: Verdict
    limit: Limit | None = None
    value_s: float | None = None


def kept(request: Request, legs: Sequence[Leg], objective: Objective) -> tuple[Kept, ...]:
    """One for each limit; empty where the promise is about other requests, or about no requests."""
    indicator = objective.indicator
    if not isinstance(indicator, LatencyIndicator | GoodputIndicator | AvailabilityIndicator):
        return ()
    own = (request.labels, *(leg.labels for leg in legs))
    if not any(matches(labels, indicator.where) for labels in own):
        return ()
    if isinstance(indicator, AvailabilityIndicator):
        return (Kept(verdict=_answered(request)),)
    outside = value_of(indicator.where, "source") in _OUTSIDE
    return tuple(_judged(request, limit, outside=outside) for limit in indicator.limits)


def _answered(request: Request) -> Verdict:
    match request.outcome:
        case Outcome.OK:
            return Verdict.KEPT
        case Outcome.FAILED:
            return Verdict.BROKEN
        case _:
            return Verdict.NOT_COUNTED


def _judged(request: Request, limit: Limit, *, outside: bool) -> Kept:
    value_s = _value_s(request, limit.metric, outside=outside)
    verdict = _answered(request)
    if verdict is Verdict.KEPT and value_s is None:
        gapless = limit.metric in _OF_GAPS and request.output_tokens in (0, 1)
        verdict = Verdict.KEPT if gapless else Verdict.NOT_MEASURED
    elif verdict is Verdict.KEPT and value_s is not None and value_s > float(limit.threshold_s):
        verdict = Verdict.BROKEN
    return Kept(verdict=verdict, limit=limit, value_s=value_s)


def _value_s(request: Request, metric: str, *, outside: bool) -> float | None:
    """Of gaps the longest; from outside where that was promised, or where only a client told."""
    name = "itl_max" if metric == "itl" else metric
    own: float | None = getattr(request, f"{name}_s", None)
    clients: float | None = getattr(request, f"client_{name}_s", None)
    return clients if outside or own is None else own
