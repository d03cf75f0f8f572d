"""OTel's exponential histograms come in and go out without losing a count."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View

from domain.distribution import add_all, exact
from domain.exponential import from_exponential, scale_error, to_sparse
from domain.grid import CELLS, EDGES_S, OTEL_OFFSET, OVER, RELATIVE_ERROR, SCALE
from tests.strategies import VLLM_QUEUE_S, cut, samples, scrape

QUANTILES = (0.5, 0.9, 0.99, 1.0)
shares = st.lists(st.floats(0, 1), max_size=3)


def at_scale(values_s, scale):
    """The exponential histogram of this scale, as any OTel sender would make it."""
    positive = values_s[values_s > 0]
    index = np.ceil(np.log2(positive) * 2.0**scale).astype(np.int64) - 1
    held, counts = np.unique(index, return_counts=True)
    offset = int(held[0]) if len(held) else 0
    dense = {int(i) - offset: int(c) for i, c in zip(held, counts, strict=True)}
    return {
        "scale": scale,
        "zero_count": int((values_s == 0).sum()),
        "offset": offset,
        "counts": [dense.get(i, 0) for i in range(max(dense, default=-1) + 1)],
        "sum_s": float(values_s.sum()),
    }


def truth(values_s, q):
    return np.sort(values_s)[max(math.ceil(q * len(values_s)), 1) - 1]


few = st.lists(st.floats(1e-3, 60), min_size=1, max_size=20).map(np.array)


@given(samples, st.integers(6, 10), shares)
def test_any_quantile_is_within_the_stated_error_after_downscaling_and_merging(values_s, scale, at):
    parts = [from_exponential(**at_scale(part, scale)) for part in cut(values_s, at)]
    merged = add_all(parts)

    assert merged.exact
    assert merged.n == len(values_s)
    for q in QUANTILES:
        exactly = truth(values_s, q)
        assert abs(merged.quantile(q).value_s - exactly) <= RELATIVE_ERROR * exactly


@given(st.floats(1e-3, 60), st.integers(11, 20))
def test_the_finest_scales_fold_as_exactly(value_s, scale):
    found = from_exponential(**at_scale(np.array([value_s]), scale)).quantile(0.5)

    assert abs(found.value_s - value_s) <= RELATIVE_ERROR * value_s


@given(samples, st.integers(-10, 5), shares)
def test_coarser_scales_become_pairs_that_hold_the_truth(values_s, scale, at):
    merged = add_all(from_exponential(**at_scale(part, scale)) for part in cut(values_s, at))

    assert merged.n == merged.high.sum() == len(values_s)
    for q in QUANTILES:
        found = merged.quantile(q)
        assert found.low_s <= truth(values_s, q) <= found.high_s
    below = np.searchsorted(np.sort(values_s), EDGES_S, side="right")
    assert (merged.high.cumsum()[:OVER] <= below).all()
    assert (merged.low.cumsum()[:OVER] >= below).all()


@given(few, st.integers(0, 5))
def test_a_coarser_scale_is_no_wider_than_its_bucket_and_a_cell_each_way(values_s, scale):
    found = from_exponential(**at_scale(values_s, scale)).quantile(0.5)

    assert found.high_s / found.low_s <= 2 ** (2.0**-scale + 2 / 64) * (1 + 1e-9)


@given(samples)
def test_what_we_send_comes_back_cell_for_cell(values_s):
    sent = exact(values_s)
    wire = to_sparse(sent.low)

    back = from_exponential(
        scale=SCALE,
        zero_count=wire.zero_count,
        offset=wire.offset,
        counts=wire.counts,
        sum_s=sent.sum_s,
    )

    assert back.exact
    assert (back.low == sent.low).all()
    assert back.sum_s == sent.sum_s


@given(samples)
def test_both_sides_of_a_pair_come_back_cell_for_cell(values_s):
    pair = scrape(values_s, VLLM_QUEUE_S).distribution

    for side in (pair.low, pair.high):
        wire = to_sparse(side)
        back = from_exponential(
            scale=SCALE,
            zero_count=wire.zero_count,
            offset=wire.offset,
            counts=wire.counts,
            sum_s=None,
        )
        assert (back.low == side).all()


@pytest.mark.parametrize("cell", [0, 1, OTEL_OFFSET, OVER - 1, OVER])
def test_every_end_of_the_grid_survives_the_wire(cell):
    side = np.zeros(CELLS, np.int64)
    side[cell] = 3

    wire = to_sparse(side)
    back = from_exponential(
        scale=6, zero_count=wire.zero_count, offset=wire.offset, counts=wire.counts, sum_s=None
    )

    assert (back.low == side).all()


def test_an_empty_side_is_an_empty_histogram():
    wire = to_sparse(np.zeros(CELLS, np.int64))

    assert (wire.zero_count, wire.offset, tuple(wire.counts)) == (0, 0, ())


def test_what_the_opentelemetry_sdk_records_is_what_we_would_have():
    values_s = np.random.default_rng(3).lognormal(-2, 1.5, 500)
    reader = InMemoryMetricReader()
    view = View(
        instrument_name="*",
        aggregation=ExponentialBucketHistogramAggregation(max_size=1280, max_scale=SCALE),
    )
    provider = MeterProvider(metric_readers=[reader], views=[view], shutdown_on_exit=False)
    recorder = provider.get_meter("test").create_histogram("ttft", unit="s")
    for value_s in values_s:
        recorder.record(float(value_s))
    metrics = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    point = metrics[0].data.data_points[0]
    provider.shutdown()

    read = from_exponential(
        scale=point.scale,
        zero_count=point.zero_count,
        offset=point.positive.offset,
        counts=point.positive.bucket_counts,
        sum_s=point.sum,
    )

    assert point.scale == SCALE
    assert (read.low == exact(values_s).low).all()
    assert read.mean_s == pytest.approx(values_s.mean())


def test_what_lies_beyond_the_grid_goes_to_its_ends():
    found = from_exponential(scale=0, zero_count=0, offset=-100, counts=[1] * 200, sum_s=None)

    assert found.n == 200
    assert found.low[0] == 100 - 30
    assert found.high[OVER] == 100 - 17


HOSTILE = {
    "scale too fine": {"scale": 21},
    "scale too coarse": {"scale": -11},
    "negative count": {"counts": [1, -1]},
    "negative zero count": {"zero_count": -1},
    "a count that overflows": {"counts": [2**64 - 1]},
    "counts that overflow together": {"counts": [2**52, 2**52], "zero_count": 1},
    "offset too large": {"offset": 2**31},
    "offset too small": {"offset": -(2**31) - 1},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_no_histogram_has_is_refused(what):
    fair = {"scale": 6, "zero_count": 0, "offset": 0, "counts": [1], "sum_s": 1.0}

    with pytest.raises(ValueError, match=r"scale|count|offset"):
        from_exponential(**{**fair, **HOSTILE[what]})


@pytest.mark.parametrize("offset", [2**31 - 1, -(2**31)])
@pytest.mark.parametrize("scale", [-10, 0, 6, 20])
def test_the_farthest_offsets_keep_their_counts(scale, offset):
    found = from_exponential(scale=scale, zero_count=1, offset=offset, counts=[2, 3], sum_s=None)

    assert found.n == found.high.sum() == 6


@pytest.mark.parametrize("sum_s", [math.nan, math.inf, -math.inf, -1.0])
def test_a_sum_that_no_durations_have_is_not_known(sum_s):
    found = from_exponential(scale=6, zero_count=0, offset=0, counts=[1], sum_s=sum_s)

    assert found.n == 1
    assert found.mean_s is None


@pytest.mark.parametrize(("scale", "percent"), [(6, 0.542), (5, 1.083), (3, 4.33), (0, 33.4)])
def test_the_error_of_a_scale(scale, percent):
    assert scale_error(scale) * 100 == pytest.approx(percent, rel=2e-3)
