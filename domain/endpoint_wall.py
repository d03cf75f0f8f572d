"""Walls: calls that end at a time limit before the model, seen as a maximum that stands still."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

__all__ = ["LIMITS", "Limit", "Minute", "Wall", "wall_in", "wall_of"]

_BELOW_S, _ABOVE_S = 0.5, 2.0
_CONSTANT = 0.02
_FAR_BELOW = 0.5
_LEAST = 2
_LEAST_UNNAMED = 3
_SHORTEST_UNNAMED_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """A time limit that AWS sets: whose, how long, and the way out."""

    of: str
    at_s: float
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """One period of a latency: its slowest and its middle call. None: not told."""

    slowest_s: float
    middle_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wall:
    """Calls ended at `at_s` in `minutes` of `of_minutes`; `limit` is None where nobody sets that one."""

    at_s: float
    minutes: int
    of_minutes: int
    errors: int
    middle_s: float | None
    limit: Limit | None


_REST = Limit(
    of="API Gateway's default for REST APIs",
    at_s=29.0,
    remedy="Raise the integration timeout (regional and private APIs only), or stream the answer.",
)
_HTTP = Limit(
    of="API Gateway's most for HTTP APIs",
    at_s=30.0,
    remedy="Use a REST API with response streaming, or answer sooner.",
)
_CONTAINER = Limit(
    of="SageMaker's for an answer that does not stream",
    at_s=60.0,
    remedy="Stream the answer, answer sooner, or use asynchronous inference.",
)
LIMITS: Mapping[str, Limit] = {
    "http_api": _HTTP,
    "rest_api": _REST,
    "sagemaker": _CONTAINER,
    "sagemaker_component": _CONTAINER,
}


_WHERE = {  # latencies in which the wall of a kind stands, and the errors that it makes
    "http_api": (("integration_latency", "gateway_latency"), "server_errors"),
    "rest_api": (("integration_latency", "gateway_latency"), "server_errors"),
    "sagemaker": (("model_latency",), "model_errors"),
    "sagemaker_component": (("model_latency",), "model_errors"),
}


def wall_in(kind: str, told: Mapping[str, Sequence[Mapping[str, float]]]) -> Wall | None:
    """The wall of one endpoint of this kind, from the statistics of its metrics by minute."""
    latencies, failures = _WHERE.get(kind, ((), ""))
    errors = sum(each.get("Sum", 0.0) for each in told.get(failures, ()))
    found = (
        wall_of(_minutes(told.get(name, ())), errors=errors, limit=LIMITS.get(kind))
        for name in latencies
    )
    return next((wall for wall in found if wall is not None), None)


def _minutes(told: Iterable[Mapping[str, float]]) -> list[Minute]:
    """Where no maximum is asked for, the slowest that is known is the 99th percentile."""
    slowest = ((each, each.get("Maximum", each.get("p99"))) for each in told)
    return [
        Minute(slowest_s=value, middle_s=each.get("p50"))
        for each, value in slowest
        if value is not None
    ]


def wall_of(minutes: Iterable[Minute], *, errors: float, limit: Limit | None) -> Wall | None:
    """The wall that calls run into, if errors came and the slowest calls stand still beyond the middle."""
    every = list(minutes)
    if errors <= 0:
        return None
    if limit is not None:
        near = [m for m in every if limit.at_s - _BELOW_S <= m.slowest_s <= limit.at_s + _ABOVE_S]
        if _stands_still(near, _LEAST):
            return _wall(near, every, errors, limit)
    slow = [m for m in every if m.slowest_s >= _SHORTEST_UNNAMED_S]
    if len(slow) == len(every) and _stands_still(slow, _LEAST_UNNAMED):
        return _wall(slow, every, errors, None)
    return None


def _stands_still(minutes: Sequence[Minute], least: int) -> bool:
    if len(minutes) < least:
        return False
    slowest = [each.slowest_s for each in minutes]
    middles = [each.middle_s for each in minutes if each.middle_s is not None]
    still = max(slowest) - min(slowest) < _CONSTANT * min(slowest)
    return still and all(middle < _FAR_BELOW * min(slowest) for middle in middles)


def _wall(
    minutes: Sequence[Minute], every: Sequence[Minute], errors: float, limit: Limit | None
) -> Wall:
    middles = [each.middle_s for each in minutes if each.middle_s is not None]
    return Wall(
        at_s=median(each.slowest_s for each in minutes),
        minutes=len(minutes),
        of_minutes=len(every),
        errors=round(errors),
        middle_s=max(middles) if middles else None,
        limit=limit,
    )
