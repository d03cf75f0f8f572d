"""What the weekly review is asked, from a configuration: promise, prices, engines, open causes."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.definition import Definition, gather
from alerts.diagnosis.inquest import diagnose
from collector.query import Reader, Window
from domain.errors import InputError
from domain.indicator import LatencyIndicator
from domain.labels import value_of
from review.money import Price
from review.period import Kind, Period
from review.scores import Promise
from review.steps import Engine
from review.weekly import Question
from stagewatch.config import Config

__all__ = ["open_causes", "price_of", "promise_of", "question_of", "service_in"]

_FIRST_RULES = frozenset({"C1", "C2", "E6", "E10"})
"""Throttled and slow workers, failed transfers, uneven lines: what mending costs nothing."""


def question_of(
    config: Config,
    period: Period,
    *,
    service: str,
    at_s: float,
    prices: Sequence[Price] = (),
    causes: Sequence[str] = (),
) -> Question:
    """All but last week's advice. `prices` of the command line go before the file's."""
    settings = config.review
    return Question(
        at_s=at_s,
        promise=promise_of(config, service),
        service=service,
        rails=settings.rails,
        prices=tuple(prices) or tuple(each.price for each in config.prices),
        engines=_engines(config, period),
        open_causes=tuple(causes),
        kv_token_bytes=None if settings.kv_cache is None else settings.kv_cache.token_bytes,
        start_s=settings.start_s,
        drain_configured_s=settings.drain_s,
    )


def promise_of(config: Config, service: str) -> Promise:
    """As set; else the strictest objectives on TTFT and TPOT that hold for the service."""
    if config.review.promise is not None:
        return config.review.promise.promise
    found: dict[str, list[Definition]] = {"ttft": [], "tpot": []}
    for each in gather(config.objectives):
        indicator = each.objective.indicator
        own = value_of(indicator.where, "service")
        if isinstance(indicator, LatencyIndicator) and own in ("", service):
            found.get(indicator.metric, []).append(each)
    missing = [name for name, each in found.items() if not each]
    if missing:
        raise InputError(
            f"nobody promises {' and '.join(missing)} to {service or 'this service'}",
            where="review",
            remedy="Set review.promise {ttft_s, tpot_s, target}, or give --ttft and --tpot.",
        )
    chosen = [min(each, key=_threshold_s) for each in found.values()]
    return Promise(
        ttft_s=_threshold_s(chosen[0]),
        tpot_s=_threshold_s(chosen[1]),
        target=min(float(each.objective.target) for each in chosen),
    )


def _threshold_s(definition: Definition) -> float:
    indicator = definition.objective.indicator
    return float(indicator.threshold_s) if isinstance(indicator, LatencyIndicator) else 0.0


def _engines(config: Config, period: Period) -> tuple[tuple[Kind, Engine], ...]:
    """Of each kind of worker that is there; one that does both holds what decode holds."""
    settings = config.review
    kinds = sorted({worker.kind for worker in period.workers})
    return tuple(
        (kind, (settings.prefill if kind.role == "prefill" else settings.decode).engine)
        for kind in kinds
    )


def open_causes(reader: Reader, config: Config, service: str, at_s: int) -> list[str]:
    """What a diagnosis at the end of the period says must be mended first."""
    found = diagnose(reader, service, at_s, gather(config.objectives))
    return [f"{each.cause} ({each.rule})" for each in found.causes if each.rule in _FIRST_RULES]


def price_of(text: str) -> Price:
    """As on the command line: `2.10`, or `H100=2.10`; of a worker and an hour."""
    gpu, _, amount = text.rpartition("=")
    try:
        return Price(per_hour=float(amount), gpu=gpu.strip(), source="--gpu-price")
    except ValueError:
        raise InputError(
            f"{text!r} is no price",
            where="--gpu-price",
            remedy="Give that of one worker for one hour: 2.10, or H100=2.10.",
        ) from None


def service_in(reader: Reader, asked: str | None, window: Window) -> str:
    """The service that is meant; nobody needs to name the only one of the period."""
    known = sorted(name for name in reader.label_values("service", window) if name)
    if asked is not None and asked in known:
        return asked
    if asked is None and len(known) == 1:
        return known[0]
    raise InputError(
        "several services, or none: which?" if asked is None else f"{asked!r} is not in the period",
        where="--service",
        remedy=f"In the period: {', '.join(known[:20]) or 'none'}.",
    )
