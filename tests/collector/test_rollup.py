"""Four tiers hold the same data: exactly, and only what changed is added up again."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector import words
from collector.rollup import QUIET_S, due, finer, roll
from collector.schema import TIERS_S
from collector.store import open_store
from collector.tiles import DirtyWindows, Growth, Pair, Tiles
from domain.distribution import exact
from domain.grid import CELLS, cells_of
from tests.collector.storing import (
    NOW_S,
    distribution,
    gauge_of,
    metrics,
    rows,
    span,
    traces,
    writing,
)

HOUR = int(NOW_S) // 3600 * 3600
CROWDS = {1: 1}


def spans_at(first, values_s, at_s):
    return traces(
        *(
            span(first + k, end_s=at, gen_ai__latency__e2e=float(value))
            for k, (value, at) in enumerate(zip(values_s, at_s, strict=True))
        )
    )


def test_every_tier_is_the_distribution_of_all_values_whatever_the_order(tmp_path):
    rng = np.random.default_rng(3)
    values_s, at_s = rng.lognormal(0, 1, 600), HOUR - rng.uniform(0, 7200, 600)
    order = list(range(600))
    random.Random(4).shuffle(order)  # noqa: S311 - any order will do
    with writing(tmp_path) as writer:
        for at in range(0, 600, 40):
            some = order[at : at + 40]
            writer.traces(spans_at(at + 1, values_s[some], at_s[some]))
        writer.settle()

    true = exact(values_s)
    for tier in TIERS_S:
        found = distribution(tmp_path, "e2e", tier)
        assert (found.low == true.low).all()
        assert found.sum_s == pytest.approx(true.sum_s, abs=1e-6)


def test_late_data_rolls_its_own_minute_hour_and_day_again_and_nothing_else(tmp_path):
    with writing(tmp_path) as writer:
        writer.traces(spans_at(1, [1.0, 1.0], [HOUR - 600, HOUR - 4000]))
        writer.settle()
    for tier in (60, 3600):  # a mark on every coarse tile that a second rolling would wipe out
        _mark(tmp_path, tier)

    with writing(tmp_path) as writer:
        writer.traces(spans_at(10, [2.0] * 30, [HOUR - 595] * 30))
        writer.settle()
        late = writer.counts()["late_spans_total"]

    rolled = {tier: _unmarked(tmp_path, tier) for tier in (60, 3600)}
    assert rolled == {60: [HOUR - 600], 3600: [HOUR - 3600]}
    assert late == 30
    assert distribution(tmp_path, "e2e", 86_400).n == 32


def _mark(path, tier):
    store = open_store(path)
    with store.engine.begin() as connection:
        connection.exec_driver_sql(f"UPDATE histogram_{tier} SET failed = 99")  # noqa: S608
    store.close()


def _unmarked(path, tier):
    found = rows(path, f"SELECT at_s FROM histogram_{tier} WHERE failed != 99 AND metric = 5")  # noqa: S608
    return [at_s for (at_s,) in found]


def test_what_is_not_yet_rolled_is_marked_in_the_same_transaction(tmp_path):
    store, dirty = open_store(tmp_path), DirtyWindows()
    with store.engine.begin() as connection:
        tiles = Tiles()
        at_ns = np.array([HOUR * 10**9])
        tiles.add_values(5, at_ns, np.array([1]), np.array([1.0]))
        dirty.mark(connection, tiles.flush(connection, {}, Growth(), CROWDS), at_s=1.0)
    store.close()

    assert sorted(rows(tmp_path, "SELECT * FROM dirty")) == [
        (60, 5, HOUR),
        (3600, 5, HOUR),
        (86_400, 5, HOUR // 86_400 * 86_400),
    ]


def test_a_window_is_rolled_when_it_fell_quiet():
    dirty = DirtyWindows()
    dirty.touched_at_s = {(60, 5, HOUR): 100.0, (3600, 5, HOUR): 100.0, (60, 5, HOUR + 60): 101.5}

    assert due(dirty, now_s=100.0 + QUIET_S[60]) == [(60, 5, HOUR)]
    assert due(dirty, now_s=100.0 + QUIET_S[3600])[-1] == (3600, 5, HOUR)


def test_rolling_an_hour_rolls_its_dirty_minutes_first(tmp_path):
    store, dirty = open_store(tmp_path), DirtyWindows()
    with store.engine.begin() as connection:
        tiles = Tiles()
        at_ns = (HOUR + np.arange(0, 3000, 100)) * 10**9
        tiles.add_values(5, at_ns, np.full(30, 1), np.full(30, 0.5))
        dirty.mark(connection, tiles.flush(connection, {}, Growth(), CROWDS), at_s=0.0)
        roll(connection, dirty, [(3600, 5, HOUR)], CROWDS)
    store.close()

    assert rows(tmp_path, "SELECT n FROM histogram_3600") == [(30,)]
    assert [tier for tier, _, _ in rows(tmp_path, "SELECT * FROM dirty")] == [86_400]


def test_a_day_of_a_gauge_remembers_its_extremes_and_its_last(tmp_path):
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

    metric = Metric(name="stagewatch_requests_waiting")
    readings = [(HOUR - 5000, 4.0), (HOUR - 100, 1.0), (HOUR - 3000, 9.0), (HOUR - 2990, 0.0)]
    for at_s, value in readings:
        gauge_of(metric, value, at_s=at_s)
    with writing(tmp_path) as writer:
        writer.metrics(metrics(metric))
        writer.settle()

    for tier in TIERS_S[2:]:
        found = rows(
            tmp_path,
            f"SELECT sum(n), sum(sum), min(low), max(high) FROM number_{tier} WHERE metric = 203",  # noqa: S608
        )
        assert found == [(4, 14.0, 0.0, 9.0)]
    assert rows(tmp_path, "SELECT last FROM number_86400") == [(1.0,)]


def test_a_sum_that_was_not_believed_stays_unknown_in_every_tier(tmp_path):
    store, dirty = open_store(tmp_path), DirtyWindows()
    side = words.encode(np.bincount([100], minlength=CELLS))
    with store.engine.begin() as connection:
        for sum_ns in (5, None, 7):
            tiles = Tiles()
            tiles.add_pair(5, HOUR * 10**9, 1, Pair(n=1, sum_ns=sum_ns, low=side, high=side))
            dirty.mark(connection, tiles.flush(connection, {}, Growth(), CROWDS), at_s=0.0)
        roll(connection, dirty, sorted(dirty.touched_at_s), CROWDS)
    store.close()

    for tier in TIERS_S:
        assert rows(tmp_path, f"SELECT n, sum_ns FROM histogram_{tier}") == [(3, None)]  # noqa: S608


def test_a_count_that_does_not_fit_a_word_survives(tmp_path):
    store = open_store(tmp_path)
    values = np.full(2_500_000, 0.5)
    with store.engine.begin() as connection:
        for _ in range(2):
            tiles = Tiles()
            tiles.add_values(
                5, np.full(len(values), HOUR * 10**9), np.ones(len(values), int), values
            )
            tiles.flush(connection, {}, Growth(), CROWDS)
    store.close()

    ((n, blob),) = rows(tmp_path, "SELECT n, exact FROM histogram_10")
    assert n == 5_000_000
    assert words.decode([blob])[cells_of(np.array([0.5]))[0]] == 5_000_000
    assert len(words.compact(blob)) == 4 * 5


@given(st.lists(st.lists(st.floats(1e-6, 1e4), max_size=8), min_size=1, max_size=20))
def test_adding_blobs_by_joining_them_is_adding_histograms(parts):
    blobs = [words.encode(exact(np.array(part)).low) for part in parts]
    everything = exact(np.array([value for part in parts for value in part]))

    assert (words.decode([words.compact(b"".join(blobs))]) == everything.low).all()


def test_the_tiers_follow_each_other():
    assert [finer(tier) for tier in TIERS_S[1:]] == [10, 60, 3600]
