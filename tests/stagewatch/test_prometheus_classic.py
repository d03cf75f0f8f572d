"""Native histograms as classic buckets: nothing is counted elsewhere than where it lay."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.native_histogram import CUSTOM_BUCKETS, NativeHistogram, native_histogram
from collector.remote_write_messages import TimeSeries
from domain.buckets import from_buckets, layout
from stagewatch.prometheus.classic import classic
from tests.collector.prometheus_wire import native, series_1

durations = st.lists(st.floats(1e-4, 3000), min_size=1, max_size=60)


def told(values, schema, *, zero=0):
    """What a client library would count: the bucket above each value, by its own arithmetic."""
    counts = {}
    for value in values:
        index = math.ceil(math.log2(value) * 2.0**schema)
        while 2.0 ** ((index - 1) / 2.0**schema) >= value:
            index -= 1
        while 2.0 ** (index / 2.0**schema) < value:
            index += 1
        counts[index] = counts.get(index, 0) + 1
    return NativeHistogram(
        schema=schema,
        count=len(values) + zero,
        sum=math.fsum(values),
        zero_threshold=1e-9,
        zero_count=zero,
        buckets=tuple(sorted(counts.items())),
        negative_count=0,
    )


def buckets(samples):
    return [(float(le), value) for ending, le, value in samples if ending == "_bucket"]


@given(durations, st.integers(-4, 8), st.integers(0, 3))
def test_every_edge_counts_what_lies_below_it(values, schema, zero):
    samples, _ = classic(told(values, schema, zero=zero), None)

    found = buckets(samples)
    slack = 1 + 1e-12
    for edge, below in found[:-1]:
        assert sum(v <= edge / slack for v in values) + zero <= below
        assert below <= sum(v <= edge * slack for v in values) + zero
    assert found[-1] == (math.inf, len(values) + zero)
    assert ("_count", None, len(values) + zero) in samples
    assert ("_sum", None, math.fsum(values)) in samples


@given(durations, st.integers(0, 8))
def test_the_pair_holds_every_value_between_its_sides(values, schema):
    samples, _ = classic(told(values, schema), None)
    found = buckets(samples)
    counts = np.diff([0, *(n for _, n in found)]).astype(np.int64)

    pair = from_buckets(layout(tuple(e for e, _ in found)), counts, math.fsum(values)).distribution

    for q in (0.1, 0.5, 0.99):
        true_s = sorted(values)[max(math.ceil(q * len(values)), 1) - 1]
        found_at = pair.quantile(q)
        assert found_at.low_s <= true_s <= found_at.high_s


@given(durations, durations, st.integers(-4, 6))
def test_the_layout_of_a_series_only_ever_grows(first, second, schema):
    before, window = classic(told(first, schema), None)
    after, _ = classic(told(second, schema), window)

    assert {edge for edge, _ in buckets(before)} <= {edge for edge, _ in buckets(after)}


def test_custom_buckets_are_the_classic_ones():
    histogram = NativeHistogram(
        schema=CUSTOM_BUCKETS,
        count=6,
        sum=4.5,
        zero_threshold=0,
        zero_count=0,
        buckets=((0, 1), (2, 3), (3, 2)),
        negative_count=0,
        edges=(0.1, 0.5, 1.0),
    )

    samples, _ = classic(histogram, None)

    assert buckets(samples) == [(0.1, 1), (0.5, 1), (1.0, 4), (math.inf, 6)]


@pytest.mark.parametrize(
    "changed",
    [
        {"is_gauge": True},
        {"negative_count": 1},
        {"buckets": ((0, 1.5),)},
        {"schema": CUSTOM_BUCKETS, "edges": (-1.0, 1.0), "zero_count": 0},
    ],
)
def test_what_counts_no_durations_is_refused(changed):
    fine = {
        "schema": 3,
        "count": 1,
        "sum": 1.0,
        "zero_threshold": 0.0,
        "zero_count": 0,
        "buckets": ((0, 1),),
        "negative_count": 0,
    }

    assert classic(NativeHistogram(**fine), None) is not None
    assert classic(NativeHistogram(**{**fine, **changed}), None) is None


def test_values_that_are_no_numbers_lie_in_no_bucket_and_leave_no_sum():
    (wire,) = TimeSeries.FromString(
        series_1(
            (("__name__", "x"),),
            histograms=[native(1, count=5, total=math.nan, positive=[(0, 2)], deltas=[1, 2])],
        )
    ).histograms

    samples, _ = classic(native_histogram(wire), None)

    assert buckets(samples)[-1] == (math.inf, 4)
    assert not [ending for ending, _, _ in samples if ending == "_sum"]


@given(
    st.integers(-4, 8),
    st.lists(
        st.tuples(st.integers(0, 40), st.lists(st.integers(0, 9), min_size=1, max_size=5)),
        max_size=5,
    ),
    st.integers(-50, 50),
)
def test_the_wire_says_what_was_counted(schema, runs, first):
    spans, plain, at, expected = [], [], 0, []
    for place, (gap, counts) in enumerate(runs):
        offset = first if place == 0 else gap
        spans.append((offset, len(counts)))
        at += offset
        expected += [(at + i, n) for i, n in enumerate(counts) if n]
        at += len(counts)
        plain += counts
    deltas = [now - before for before, now in zip([0, *plain], plain, strict=False)]
    body = native(7, count=sum(plain), total=1.0, schema=schema, positive=spans, deltas=deltas)
    (wire,) = TimeSeries.FromString(series_1((("__name__", "x"),), histograms=[body])).histograms

    assert native_histogram(wire).buckets == tuple(expected)
