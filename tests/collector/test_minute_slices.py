"""Minutes that are promised themselves: of a throughput, of a level, without a condition."""

import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.query import Window
from collector.store import file_of
from domain.condition import ConditionKind
from domain.indicator import ConditionIndicator, LevelIndicator, ThroughputIndicator
from domain.slice import SliceState
from tests.alerts.engines import START_S, sidecar

GOOD, BAD = SliceState.GOOD, SliceState.BAD
QUIET, UNSEEN = SliceState.NO_TRAFFIC, SliceState.NOT_OBSERVED
TOKENS = ThroughputIndicator(metric="generation_tokens", at_least_per_s=Fraction(10))
WAITING = LevelIndicator(metric="requests_waiting", at_most=Fraction(5))
STALLED = ConditionIndicator(kinds=(ConditionKind.STALLED,))


@pytest.fixture
def told(tmp_path):
    with sidecar(tmp_path / "data") as found:
        yield found


def states(told, indicator, minutes):
    window = Window(since_s=START_S, until_s=START_S + 60 * minutes)
    return [each.state for each in told.reader.slices(indicator, window)]


def test_a_throughput_is_that_of_all_replicas_together(told):
    for replica in ("a", "b"):
        told.push(START_S + 30, replica=replica, up=1, requests_running=1, generation_tokens=300)
        told.push(START_S + 90, replica=replica, up=1, requests_running=1, generation_tokens=299)

    assert states(told, TOKENS, 2) == [GOOD, BAD]


def test_a_throughput_of_one_replica_is_asked_for_by_its_name(told):
    told.push(START_S + 30, replica="a", up=1, generation_tokens=600)
    told.push(START_S + 30, replica="b", up=1, generation_tokens=599)

    def of(replica):
        return ThroughputIndicator(
            metric="generation_tokens",
            at_least_per_s=Fraction(10),
            where=(("replica", replica),),
        )

    assert (states(told, of("a"), 1), states(told, of("b"), 1)) == ([GOOD], [BAD])


def test_a_night_without_requests_breaks_no_throughput(told):
    told.push(START_S + 30, up=1, requests_running=1, generation_tokens=900)
    told.push(START_S + 90, up=1, requests_running=0, requests_waiting=0, generation_tokens=0)
    told.push(START_S + 150, up=1, requests_running=0)

    assert states(told, TOKENS, 4) == [GOOD, QUIET, QUIET, UNSEEN]


def test_an_engine_that_makes_nothing_of_its_requests_is_slow_and_not_idle(told):
    """A counter that stands still is not pushed; the requests that run are."""
    told.push(START_S + 30, up=1, requests_running=3, generation_tokens=900)
    told.push(START_S + 90, up=1, requests_running=3)
    told.push(START_S + 150, up=1, requests_running=0, requests_waiting=7)

    assert states(told, TOKENS, 3) == [GOOD, BAD, BAD]


def test_a_counter_that_nobody_ever_told_is_not_observed(told):
    told.push(START_S + 30, up=1, requests_running=3)

    assert states(told, TOKENS, 1) == [UNSEEN]


def test_a_sidecar_that_does_not_answer_tells_no_throughput(told):
    told.push(START_S + 30, up=1, requests_running=3, generation_tokens=900)
    told.push(START_S + 90, up=0, reason="refused")

    assert states(told, TOKENS, 2) == [GOOD, UNSEEN]


def test_exactly_the_floor_is_enough(told):
    told.push(START_S + 30, up=1, generation_tokens=600)

    assert states(told, TOKENS, 1) == [GOOD]


def test_a_level_holds_while_every_reading_of_every_replica_is_within(told):
    for at_s, a, b in ((10, 5, 0), (70, 6, 0), (130, 0, 5), (135, 0, 9), (140, 0, 5), (190, 0, 0)):
        told.push(START_S + at_s, replica="a", requests_waiting=a)
        told.push(START_S + at_s, replica="b", requests_waiting=b)

    # why not the mean (3) nor the sum (10): each queue is somebody's wait
    assert states(told, WAITING, 5) == [GOOD, BAD, BAD, GOOD, UNSEEN]


def test_a_level_with_two_bounds_is_a_band(told):
    for at_s, value in ((10, 0.1), (70, 0.09), (130, 0.9), (190, 0.95)):
        told.push(START_S + at_s, kv_cache_usage=value)
    band = LevelIndicator(
        metric="kv_cache_usage", at_least=Fraction("0.1"), at_most=Fraction("0.9")
    )

    assert states(told, band, 4) == [GOOD, BAD, GOOD, BAD]


def test_a_stall_makes_the_minutes_bad_in_which_it_was_seen(told):
    for t in range(0, 300, 10):
        stalled = 70 <= t < 190
        told.push(
            START_S + t,
            up=1,
            requests_running=1,
            generation_tokens=0 if stalled else 40,
            engine_stalled=int(stalled),
        )

    assert states(told, STALLED, 6) == [GOOD, BAD, BAD, BAD, GOOD, UNSEEN]


def test_a_past_minute_is_judged_by_what_arrived_since(told):
    for t in range(0, 180, 10):
        told.push(START_S + t, up=1, generation_tokens=40, engine_stalled=0)
    before = states(told, STALLED, 3)
    for t in (70, 80):
        told.push(START_S + t, replica="late", up=1, requests_running=1, engine_stalled=1)

    assert before == [GOOD, GOOD, GOOD]
    assert states(told, STALLED, 3) == [GOOD, BAD, GOOD]


def test_a_replica_that_does_not_answer_is_one_condition_of_its_service(told):
    down = ConditionIndicator(kinds=(ConditionKind.DOWN,), where=(("service", "chat"),))
    for t in range(0, 180, 10):
        told.push(START_S + t, replica="a", up=1)
        told.push(START_S + t, replica="b", up=int(not 60 <= t < 120), reason="refused")
        told.push(START_S + t, service="other", replica="c", up=0, reason="refused")

    assert states(told, down, 3) == [GOOD, BAD, GOOD]


def test_silence_is_a_condition_and_not_merely_unobserved(told):
    silent = ConditionIndicator(kinds=(ConditionKind.SILENT,))
    told.push(START_S + 50, up=1)
    down = ConditionIndicator(kinds=(ConditionKind.DOWN,))

    assert states(told, silent, 4) == [GOOD, GOOD, BAD, BAD]
    assert states(told, down, 4) == [GOOD, UNSEEN, UNSEEN, UNSEEN]


def test_events_belong_to_the_minute_in_which_they_were_counted(told):
    drift = ConditionIndicator(kinds=(ConditionKind.DRIFT, ConditionKind.LOST))
    for t in range(0, 240, 30):
        told.push(START_S + t, up=1)
    told.push(START_S + 70, schema_drift=1, reason="ttft")
    told.push(START_S + 190, exports_dropped=4, reason="spool_full")

    assert states(told, drift, 4) == [GOOD, BAD, GOOD, BAD]


def test_what_a_page_leaves_out_is_a_condition_for_as_long_as_it_says_so(told):
    left_out = ConditionIndicator(kinds=(ConditionKind.NOT_REPORTED,))
    told.push(START_S + 10, up=1, not_reported=1, reason="tpot")
    told.push(START_S + 70, up=1, not_reported=0, reason="tpot")

    assert states(told, left_out, 2) == [BAD, GOOD]


@pytest.mark.parametrize("kind", list(ConditionKind))
def test_an_engine_that_moves_keeps_every_condition_away(told, kind):
    for t in range(0, 60, 10):
        told.push(START_S + t, up=1, generation_tokens=40, engine_stalled=0, not_reported=0)

    assert states(told, ConditionIndicator(kinds=(kind,)), 1) == [GOOD]


def test_a_minute_whose_fine_tiles_are_gone_tells_no_condition(told):
    for t in range(0, 1200, 30):
        told.push(START_S + t, up=1, engine_stalled=0)
    gone_s = START_S + 120
    with closing(sqlite3.connect(file_of(told.path))) as connection, connection:
        connection.execute("INSERT INTO meta VALUES ('cutoff:10', ?)", (str(gone_s),))
        connection.execute("DELETE FROM number_10 WHERE at_s < ?", (gone_s,))

    assert states(told, STALLED, 19) == [UNSEEN] * 17 + [GOOD] * 2


READINGS = st.lists(
    st.tuples(st.integers(0, 239), st.sampled_from("ab"), st.integers(0, 9)), max_size=30
)


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(READINGS)
def test_levels_and_throughputs_are_what_the_readings_say(tmp_path_factory, readings):
    with sidecar(tmp_path_factory.mktemp("law") / "data") as told:
        told.now_s = START_S + 300
        kept = {(at_s, replica): value for at_s, replica, value in readings}
        for (at_s, replica), value in sorted(kept.items()):
            told.push(
                START_S + at_s,
                replica=replica,
                up=1,
                requests_waiting=value,
                generation_tokens=100 * value,
            )
        levels, throughputs = states(told, WAITING, 4), states(told, TOKENS, 4)

    for place in range(4):
        mine = [value for (at_s, _), value in kept.items() if at_s // 60 == place]
        level = UNSEEN if not mine else GOOD if max(mine) <= 5 else BAD
        enough = sum(mine) * 100 >= 600
        throughput = UNSEEN if not mine else GOOD if enough else BAD if sum(mine) else QUIET
        assert (levels[place], throughputs[place]) == (level, throughput)
