"""How many GPUs SageMaker's endpoints have, as points beside the utilisation that sums over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from domain.endpoint import EndpointKey, EndpointPoint
from domain.endpoint_instance import ACCELERATORS, ACCELERATORS_NAMESPACE, accelerators_of
from exporters.cloudwatch.asked import Asked
from exporters.cloudwatch.failure import CallError

__all__ = ["counted"]

_PERIOD_S = 3600
_TypesOf = Callable[[str], dict[str, str]]


def counted(
    asked: Sequence[Asked], types_of: _TypesOf | None, now_s: float
) -> tuple[list[EndpointPoint], list[str]]:
    """One point per variant whose utilisation is a sum over GPUs, and what is not known of others.

    What the configuration says of an endpoint stands; else its instance type is asked for.
    """
    points: list[EndpointPoint] = []
    notes: list[str] = []
    for variant in _variants(asked):
        gpus = variant.gpus
        if gpus is None and types_of is not None:
            gpus, unknown = _looked_up(variant, types_of)
            notes += [unknown] if unknown else []
        if gpus is not None:
            points.append(_point(variant, gpus, now_s))
    return points, notes


def _variants(asked: Sequence[Asked]) -> Iterator[Asked]:
    """Every endpoint with instances once."""
    seen = set()
    for each in asked:
        if each.metric.per_accelerator and each.endpoint not in seen:
            seen.add(each.endpoint)
            yield each


def _looked_up(variant: Asked, types_of: _TypesOf) -> tuple[int | None, str]:
    """The number, or why it is not known; an endpoint without instances has none to be known."""
    dimensions = dict(variant.key.dimensions)
    way_out = "set `gpus` of the endpoint, or its GPU utilisation stays a sum"
    try:
        kind = types_of(dimensions["EndpointName"]).get(dimensions["VariantName"])
    except CallError as failure:
        return None, f"how many GPUs {variant.service} has is not known ({failure}): {way_out}"
    if kind is None:
        return None, ""
    gpus = accelerators_of(kind)
    unknown = f"how many GPUs {kind} of {variant.service} has is not known: {way_out}"
    return gpus, unknown if gpus is None else ""


def _point(variant: Asked, gpus: int, now_s: float) -> EndpointPoint:
    key = variant.key
    return EndpointPoint(
        key=EndpointKey(
            account=key.account,
            region=key.region,
            namespace=ACCELERATORS_NAMESPACE,
            name=ACCELERATORS,
            dimensions=key.dimensions,
            period_s=_PERIOD_S,
        ),
        service=variant.service,
        start_s=int(now_s // _PERIOD_S) * _PERIOD_S,
        fetched_at_s=now_s,
        settled_at_s=now_s,
        statistics={"Last": float(gpus)},
    )
