"""PromQL that counts what we count, recognised by its shape; whatever else it says is not guessed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from domain.errors import ConfigError
from domain.indicator import AvailabilityIndicator, Indicator, LatencyIndicator, LevelIndicator
from domain.labels import LABEL_NAMES, Labels, labels_of
from domain.metric import GAUGES, LATENCIES, METRICS

__all__ = ["FAMILIES", "by_bad", "by_good", "by_value"]

FAMILIES: Mapping[str, str] = {
    **{METRICS[name].full_name: name for name in LATENCIES},
    "vllm:time_to_first_token_seconds": "ttft",
    "vllm:inter_token_latency_seconds": "itl",
    "vllm:time_per_output_token_seconds": "itl",
    "vllm:request_time_per_output_token_seconds": "tpot",
    "vllm:e2e_request_latency_seconds": "e2e",
    "vllm:request_queue_time_seconds": "queue",
    "vllm:request_prefill_time_seconds": "prefill",
    "vllm:request_decode_time_seconds": "decode",
    "sglang:time_to_first_token_seconds": "ttft",
    "sglang:inter_token_latency_seconds": "itl",
    "sglang:e2e_request_latency_seconds": "e2e",
}
"""Histograms of which a bucket and a count are a latency of ours: our own, and engines'."""

_LONGEST = 4000
_LABELS = {"model_name": "model"}
_FAILED = METRICS["requests_failed"].full_name
_FINISHED = METRICS["requests_finished"].full_name
_WINDOW = re.compile(r"\[\s*(?:\{\{\s*\.?\w+\s*\}\}|\$\w+|\$\{\w+\})\s*\]")


@dataclass(frozen=True, slots=True)
class _Count:
    """Increments of one counter, or of the bucket of a histogram up to `le`."""

    name: str
    where: Labels
    le: str = ""


def by_bad(bad: str, total: str) -> Indicator:
    """Of `total` requests `bad` were bad: `count - bucket` of `count`, or failed of all."""
    minuend, subtrahend = _difference(bad)
    if subtrahend is not None:
        if minuend != _only(total):
            raise _unknown(bad, "it does not take the good ones from the same total")
        return _latency(subtrahend, minuend, bad)
    return _availability(minuend, total, _FAILED, bad)


def by_good(good: str, total: str) -> Indicator:
    """Of `total` requests `good` were good: a bucket of a count, or finished of all."""
    counted = _only(good)
    if counted.le:
        return _latency(counted, _only(total), good)
    return _availability(counted, total, _FINISHED, good)


def by_value(query: str, bound: Fraction, *, at_most: bool) -> tuple[Indicator, Fraction | None]:
    """A gauge of ours within a bound, or a quantile of a histogram and the share it stands for."""
    parsed = _parsed(query)
    if type(parsed).__name__ == "Call" and parsed.func.name == "histogram_quantile":
        share = parsed.args[0]
        if type(parsed.args[1]).__name__ != "AggregateExpr":
            raise _unknown(query, "it takes no sum by (le), so it is a quantile per series")
        counted = _count(_bare(parsed.args[1], query, by=["le"]), query)
        metric = _metric(counted.name.removesuffix("_bucket"), query)
        if type(share).__name__ != "NumberLiteral" or not 0 < share.val < 1 or not at_most:
            raise _unknown(query, "a latency is promised from above, at a share below 1")
        indicator = LatencyIndicator(metric=metric, threshold_s=bound, where=counted.where)
        return indicator, Fraction(repr(share.val))
    # why not a sum: a level is kept at every place, so the worst place decides
    selected = _selector(_bare(parsed, query, op="max" if at_most else "min"), query)
    named = next((name for name in GAUGES if METRICS[name].full_name == selected.name), "")
    if not named:
        raise _unknown(query, f"{selected.name!r} is no gauge of ours")
    most, least = (bound, None) if at_most else (None, bound)
    return LevelIndicator(metric=named, at_most=most, at_least=least, where=selected.where), None


def _latency(bucket: _Count, total: _Count, query: str) -> LatencyIndicator:
    family = bucket.name.removesuffix("_bucket")
    same = total.name == f"{family}_count" or (total.name == bucket.name and _is_all(total.le))
    if not bucket.le or _is_all(bucket.le) or not same:
        raise _unknown(query, "it is no bucket of the histogram that total counts")
    if replace(bucket, name="", le="") != replace(total, name="", le=""):
        raise _unknown(query, "it selects other requests than total")
    metric = _metric(family, query)
    if not re.fullmatch(r"\d+(\.\d+)?", bucket.le):
        raise _unknown(query, f"le={bucket.le!r} is no plain number")
    return LatencyIndicator(metric=metric, threshold_s=Fraction(bucket.le), where=bucket.where)


def _availability(counted: _Count, total: str, name: str, query: str) -> AvailabilityIndicator:
    parts = _sum(_parsed(total), total)
    names = {part.name for part in parts}
    if counted.name != name or names != {_FINISHED, _FAILED} or counted not in parts:
        raise _unknown(query, f"only {name} of {_FINISHED} + {_FAILED} is availability")
    if len({part.where for part in parts}) > 1:
        raise _unknown(total, "its parts select different requests")
    return AvailabilityIndicator(where=counted.where)


def _difference(query: str) -> tuple[_Count, _Count | None]:
    parsed = _bare(_parsed(query), query)
    if type(parsed).__name__ == "BinaryExpr" and str(parsed.op) == "-":
        _no_matching(parsed, query)
        return _count(parsed.lhs, query), _count(parsed.rhs, query)
    return _count(parsed, query), None


def _sum(parsed: Any, query: str) -> list[_Count]:
    bare = _bare(parsed, query)
    if type(bare).__name__ == "BinaryExpr" and str(bare.op) == "+":
        _no_matching(bare, query)
        return [*_sum(bare.lhs, query), *_sum(bare.rhs, query)]
    return [_count(bare, query)]


def _only(query: str) -> _Count:
    return _count(_parsed(query), query)


def _count(parsed: Any, query: str) -> _Count:
    """`sum(rate(name{…}[…]))`, with or without the sum, or the counter itself."""
    call = _bare(parsed, query)
    if type(call).__name__ == "VectorSelector":
        return _selector(call, query)
    if type(call).__name__ != "Call" or call.func.name not in ("rate", "increase"):
        raise _unknown(query, "only sums of rates or increases are recognised")
    ranged = call.args[0]
    if type(ranged).__name__ != "MatrixSelector":
        raise _unknown(query, "a subquery is none of ours")
    return _selector(ranged.vector_selector, query)


def _bare(parsed: Any, query: str, *, op: str = "sum", by: Sequence[str] = ()) -> Any:
    """Without brackets and without the aggregation over everything, or by what is named."""
    kind = type(parsed).__name__
    if kind == "ParenExpr":
        return _bare(parsed.expr, query, op=op, by=by)
    if kind == "AggregateExpr":
        modifier = parsed.modifier
        kept = [] if modifier is None else [str(modifier.type), *modifier.labels]
        if str(parsed.op) != op or kept[1:] != list(by) or "Without" in "".join(kept[:1]):
            raise _unknown(query, f"{parsed.op} is not what is counted here, or by which labels")
        return _bare(parsed.expr, query, op=op)
    return parsed


def _selector(parsed: Any, query: str) -> _Count:
    if type(parsed).__name__ != "VectorSelector" or not parsed.name:
        raise _unknown(query, "it selects no metric by its name")
    if parsed.offset is not None or parsed.at is not None:
        raise _unknown(query, "offset and @ look at another time")
    if parsed.matchers.or_matchers:
        raise _unknown(query, "or between matchers is no selector of ours")
    le, pairs = "", []
    for matcher in parsed.matchers.matchers:
        if str(matcher.op) not in ("MatchOp.Equal", "="):
            raise _unknown(query, f"{matcher.name} is not compared with =")
        name = _LABELS.get(matcher.name, matcher.name)
        if name == "le":
            le = matcher.value
        elif name in LABEL_NAMES:
            pairs.append((name, matcher.value))
        else:
            raise _unknown(query, f"{matcher.name!r} is no label of ours")
    return _Count(parsed.name, labels_of(pairs), le)


def _no_matching(parsed: Any, query: str) -> None:
    if parsed.modifier is not None and getattr(parsed.modifier, "matching", None) is not None:
        raise _unknown(query, "on and ignoring match series in a way of their own")


def _parsed(query: str) -> Any:
    from promql_parser import parse  # noqa: PLC0415 - only an import needs it

    if len(query) > _LONGEST:
        raise _unknown(query, f"it is {len(query)} characters long")
    try:
        return parse(_WINDOW.sub("[5m]", query))
    except ValueError as error:
        raise _unknown(query, f"it is no PromQL: {' '.join(str(error).split())[:120]}") from error


def _metric(family: str, query: str) -> str:
    if family not in FAMILIES:
        raise _unknown(query, f"{family!r} is no histogram we know")
    return FAMILIES[family]


def _is_all(le: str) -> bool:
    return le in ("+Inf", "Inf", "inf")


def _unknown(query: str, why: str) -> ConfigError:
    short = " ".join(query.split())
    return ConfigError(
        f"{short[:100] + ('…' if len(short) > 100 else '')!r} is not recognised: {why}",
        where="query",
        remedy="Write this objective by hand; docs/write-an-objective.md says how.",
    )
