"""Gauges of which the extreme counts: the hottest of many, the slowest of a group."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collector.query import Selection, Window
from collector.reader import StoreReader
from collector.readings import _last, _Step, _Tile
from domain.metric import METRICS, Kind
from tests.collector.storing import NOW_S, gauge_of, metrics, writing

values = st.floats(-1e9, 1e9)
tiles = st.lists(
    st.tuples(values, values, values).map(sorted).map(lambda x: (x[1], x[0], x[2])), min_size=1
)


@given(tiles, st.sampled_from([Kind.MAXIMUM, Kind.MINIMUM]))
def test_an_extreme_of_replicas_lies_within_its_bounds(replicas, kind):
    tile = _Tile()
    for mean, low, high in replicas:
        tile.add(kind, mean, low, high, weight=1.0)
    of = max if kind is Kind.MAXIMUM else min

    assert tile.low <= tile.mean <= tile.high
    assert tile.mean == of(mean for mean, *_ in replicas)


@given(st.lists(values, min_size=1))
def test_the_last_of_an_extreme_is_one_of_the_values(found):
    step = _Step(last={number: (0, value) for number, value in enumerate(found)})

    assert _last(Kind.MAXIMUM, step, {}) == max(found)
    assert _last(Kind.MINIMUM, step, {}) == min(found)


@given(tiles)
def test_a_single_replica_is_itself_whatever_its_kind(replicas):
    mean, low, high = replicas[0]
    for kind in Kind:
        tile = _Tile()
        tile.add(kind, mean, low, high, weight=1.0)

        assert (tile.mean, tile.low, tile.high) == (mean, low, high)


@pytest.mark.parametrize(
    ("metric", "value", "low", "high"),
    [
        ("gpu_temperature", 75.0, 70.0, 80.0),
        ("gpu_sm_clock", 35.0, 30.0, 40.0),
        ("gpu_power", 110.0, 100.0, 120.0),
    ],
)
def test_over_time_it_is_the_mean_of_the_extremes(tmp_path, metric, value, low, high):
    full_name = METRICS[metric].full_name
    told = [("a", 30.0, 40.0), ("b", 70.0, 80.0)]
    with writing(tmp_path) as writer:
        for uuid, *readings in told:
            for turn, reading in enumerate(readings):
                at_s = int(NOW_S - 60) // 10 * 10 + turn
                point = gauge_of(
                    Metric(name=full_name), reading, at_s=at_s, **{"stagewatch.gpu_uuid": uuid}
                )
                writer.metrics(metrics(point))
    reader = StoreReader(tmp_path)
    window = Window(since_s=int(NOW_S) - 120, until_s=int(NOW_S))
    (found,) = reader.numbers(metric, Selection(window=window))
    reader.close()

    (point,) = found.points
    assert (point.value, point.low, point.high) == (value, low, high)
