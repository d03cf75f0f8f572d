"""The worked numbers that are no scenario: what is counted, before anybody judges it."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from alerts.evaluate import limit_of, surely_above
from collector.query import Window
from collector.reader import StoreReader
from domain.buckets import from_buckets, layout
from domain.counter import increase
from domain.objective import burn_rules
from domain.slice import Slice, tally
from tests.alerts.fleet import chat
from tests.collector.storing import NOW_S, span, traces, writing

T = int(NOW_S) // 60 * 60 - 60

EDGES_S = (1.0, 1.5, 2.5, float("inf"))


def increases(readings):
    return sum(increase(before, now).by["n"] for before, now in pairwise(readings))


@pytest.mark.parametrize(("good", "kept"), [(9899, False), (9900, True), (9901, True)])
def test_w7_a_percentile_is_kept_exactly_where_its_ratio_is(good, kept):
    """Cumulative 1.0: 9850, 1.5: good, 2.5: 9990, Inf: 10000."""
    counts = np.array((9850, good - 9850, 9990 - good, 10))
    seen = from_buckets(layout(EDGES_S), counts, None).distribution

    assert seen.at_most(1.5) == (good, good)
    assert (Fraction(good, 10_000) >= Fraction(99, 100)) is kept


def test_w11_a_counter_that_falls_begins_again_each_on_its_own():
    first = [{"n": value} for value in (0, 40, 80, 120, 10, 50)]
    a = [{"n": value} for value in (100, 110, 120, 130, 140, 150)]
    b = [{"n": value} for value in (1000, 1010, 0, 10, 20, 30)]

    assert increases(first) == 170
    assert increases(a) + increases(b) == 90


def test_w11_what_an_earlier_reading_did_not_have_counts_from_zero():
    """SL19: absent for three scrapes, then 5; at our own first scrape it is no growth."""
    assert increase({}, {"n": 5}).by == {"n": 5}
    assert increase(None, {"n": 5}).by == {"n": 0}


def test_w17_one_bad_of_190_is_one_of_190():
    """Prometheus says 0.512 %, because it extrapolates the two counters differently."""
    counted = tally([Slice(minute_at_s=0, good_low=189, good_high=189, total=190)])

    assert Fraction(counted.bad_low, counted.total) == Fraction(1, 190)


def test_w6_three_of_six_is_beyond_chance_and_one_of_six_is_not():
    """SL1."""
    quick = limit_of(chat()[0].objective, burn_rules(30 * 86_400)[0])

    assert surely_above(3, 6, quick.burns)
    assert not surely_above(1, 6, quick.burns)


def test_sl16_two_percent_of_a_week_in_an_hour_is_a_factor_of_3_36():
    assert burn_rules(7 * 86_400)[0].factor == Fraction(336, 100)


def test_sl21_who_waits_160_seconds_in_a_queue_waited_160_seconds_for_the_first_token(tmp_path):
    """The planner that counts from the start of service sees 0.3 s and calls it good."""
    waited = {
        "gen_ai.latency.time_in_queue": 160.0,
        "gen_ai.latency.time_in_model_prefill": 0.3,
        "gen_ai.latency.time_to_first_token": 160.3,
        "gen_ai.latency.e2e": 161.0,
        "gen_ai.usage.completion_tokens": 8,
    }
    with writing(tmp_path) as writer:
        writer.traces(traces(span(1, end_s=T + 5, lasts_s=161.0, **waited)))
        reader = StoreReader(tmp_path, now=lambda: NOW_S)
        (seen,) = reader.slices(chat()[0].objective.indicator, Window(since_s=T, until_s=T + 60))
        reader.close()

    assert (seen.total, seen.good_low, seen.good_high) == (1, 0, 0)
