"""One native histogram of Prometheus as it came over the wire, checked: its numbers can all be true."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any, Final

__all__ = ["CUSTOM_BUCKETS", "STALE", "NativeHistogram", "is_stale", "native_histogram"]

CUSTOM_BUCKETS: Final = -53
"""The schema of buckets at edges of their own, as a classic histogram has them."""

STALE: Final = struct.pack("<Q", 0x7FF0_0000_0000_0002)
"""The bytes of the NaN that ends a series."""

_MOST_BUCKETS: Final = 10_000
_MOST_COUNT: Final = 2**53  # float64 counts integers exactly up to here
_OFFSET_END: Final = 2**31
_GAUGE: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeHistogram:
    """`buckets` are index and count of what is populated, ascending.

    Index i of schema s is (2^((i-1)/2^s), 2^(i/2^s)]; of custom buckets it is the place in `edges`,
    and the one after the last is open. Counts are whole numbers unless a float histogram says else.
    """

    schema: int
    count: float
    sum: float
    zero_threshold: float
    zero_count: float
    buckets: tuple[tuple[int, float], ...]
    negative_count: float
    edges: tuple[float, ...] = ()
    is_gauge: bool = False


def is_stale(value: float) -> bool:
    """Whether this NaN says that the series ended; another NaN is only no number."""
    return math.isnan(value) and struct.pack("<d", value) == STALE


def native_histogram(wire: Any) -> NativeHistogram | None:
    """The histogram of a message; None where it ends its series, ValueError where it cannot be."""
    if is_stale(wire.sum):
        return None
    if not (-4 <= wire.schema <= 8 or wire.schema == CUSTOM_BUCKETS):
        raise ValueError(f"schema {wire.schema} is none that Prometheus knows")
    is_float = wire.WhichOneof("count") == "count_float"
    if (
        (wire.positive_deltas or wire.negative_deltas)
        if is_float
        else (wire.positive_counts or wire.negative_counts)
    ):
        raise ValueError("it counts as whole numbers and as others")
    if is_float:
        positive = _buckets(wire.positive_spans, wire.positive_counts)
        negative = _buckets(wire.negative_spans, wire.negative_counts)
    else:
        positive = _buckets(wire.positive_spans, list(accumulate(wire.positive_deltas)))
        negative = _buckets(wire.negative_spans, list(accumulate(wire.negative_deltas)))
    count = wire.count_float if is_float else wire.count_int
    zero_count = wire.zero_count_float if is_float else wire.zero_count_int
    held = [zero_count, *(n for _, n in (*positive, *negative))]
    _check_counts([count, *held])
    if not is_float:  # why: the rates of histograms round
        _check_total(wire.sum, count, held)
    edges = tuple(wire.custom_values)
    if wire.schema == CUSTOM_BUCKETS:
        _check_custom(edges, positive, negative, zero_count)
    elif edges:
        raise ValueError("it has edges of its own and a schema that has none")
    if not 0 <= wire.zero_threshold < math.inf:
        raise ValueError("its zero bucket has no width that can be")
    return NativeHistogram(
        schema=wire.schema,
        count=count,
        sum=wire.sum,
        zero_threshold=wire.zero_threshold,
        zero_count=zero_count,
        buckets=positive,
        negative_count=sum(n for _, n in negative),
        edges=edges,
        is_gauge=wire.reset_hint == _GAUGE,
    )


def _buckets(spans: Sequence[Any], counts: Sequence[float]) -> tuple[tuple[int, float], ...]:
    """Index and count of every bucket; empty ones are left out."""
    length = sum(span.length for span in spans)  # why first: a span of 2^32 must not be walked
    if length != len(counts):
        raise ValueError(f"its spans are {length} buckets long but it counts {len(counts)}")
    if length > _MOST_BUCKETS:
        raise ValueError(f"it has {length} buckets, more than {_MOST_BUCKETS}")
    return tuple((index, n) for index, n in zip(_indices(spans), counts, strict=True) if n)


def _indices(spans: Sequence[Any]) -> Iterator[int]:
    at = 0
    for number, span in enumerate(spans):
        if number and span.offset < 0:
            raise ValueError("its spans overlap")
        at += span.offset
        if not -_OFFSET_END <= at <= _OFFSET_END - span.length:
            raise ValueError("its spans reach beyond 32 bits")
        yield from range(at, at + span.length)
        at += span.length


def _check_counts(counts: Sequence[float]) -> None:
    if not all(0 <= n <= _MOST_COUNT for n in counts):
        raise ValueError("a bucket holds less than nothing, or more than 2^53")


def _check_total(total: float, count: float, held: Sequence[float]) -> None:
    """Values that are no number are counted and lie in no bucket; then the sum is none either."""
    in_all = math.fsum(held)
    if in_all > count or (in_all < count and not math.isnan(total)):
        raise ValueError(f"its count is {count} but its buckets hold {in_all:g}")


def _check_custom(
    edges: tuple[float, ...],
    positive: tuple[tuple[int, float], ...],
    negative: tuple[tuple[int, float], ...],
    zero_count: float,
) -> None:
    if negative or zero_count:
        raise ValueError("custom buckets have no zero bucket and none below it")
    if len(edges) > _MOST_BUCKETS or not all(map(math.isfinite, edges)):
        raise ValueError("its edges are too many, or no numbers")
    if any(above <= below for below, above in pairwise(edges)):
        raise ValueError("its edges do not ascend")
    if positive and not 0 <= positive[0][0] <= positive[-1][0] <= len(edges):
        raise ValueError("a bucket lies beyond its edges")
