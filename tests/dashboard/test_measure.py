"""From the reader's series to what is drawn: values where they are known, ranges where not."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.query import Point, Selection, Series, Window
from dashboard.measure import (
    MOST_LINES,
    P50,
    P99,
    WEEK_S,
    before,
    curve,
    curves,
    drawn,
    last_week,
    quantile_word,
    stage_lines,
    step_s,
    together,
    whole_minutes,
)
from dashboard.silences import MOST_MARKS, silences
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.buckets import from_buckets, layout
from domain.distribution import EMPTY, exact
from domain.request import Stage
from tests.dashboard.memory import Gauge

NOON_S = int(datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp())
WINDOW = Window(since_s=NOON_S, until_s=NOON_S + 300)
UTC_VIEWER = Viewer(now_s=NOON_S)
CHAT = (("service", "chat"),)


def point(minute, distribution):
    since_s = NOON_S + 60 * minute
    return Point(since_s=since_s, until_s=since_s + 60, distribution=distribution)


def coarse(*counts):
    edges = (0.1, 1.0, 10.0, float("inf"))
    return from_buckets(layout(edges), np.array(counts), None).distribution


@given(st.integers(60, 400 * 86_400))
def test_a_chart_has_no_more_steps_than_it_is_wide(length_s):
    window = Window(since_s=0, until_s=length_s)

    assert length_s / step_s(window) <= 96 or step_s(window) == 86_400


def test_a_step_is_one_that_the_store_keeps():
    assert all(step_s(Window(since_s=0, until_s=n)) % 10 == 0 for n in (60, 900, 3600, 604_800))


def test_a_quantile_has_its_everyday_name():
    assert [quantile_word(q) for q in (P50, P99)] == ["P50", "P99"]
    assert quantile_word(P99 + (1 - P99) * 9 / 10) == "P99.9"


def test_a_step_without_values_is_a_gap():
    found = curve([point(0, exact(np.ones(3))), point(3, exact(np.ones(3)))], P50, WINDOW, 60)

    assert np.isnan(found.value_s).tolist() == [False, True, True, False, True]


def test_an_empty_distribution_is_a_gap_too():
    assert np.isnan(curve([point(0, EMPTY)], P50, WINDOW, 60).low_s).all()


def test_a_point_outside_the_window_is_not_drawn():
    assert np.isnan(curve([point(9, exact(np.ones(1)))], P50, WINDOW, 60).low_s).all()


def test_a_coarse_step_has_ends_and_no_value():
    found = curve([point(0, coarse(0, 5, 0, 0))], P99, WINDOW, 60)

    assert np.isnan(found.value_s[0])
    assert found.low_s[0] <= 0.1
    assert found.high_s[0] >= 1.0


def test_a_value_beyond_the_last_edge_is_open_above():
    found = curve([point(0, coarse(0, 0, 0, 5))], P99, WINDOW, 60)

    assert np.isinf(found.high_s[0])


def test_exact_steps_are_a_line_and_coarse_ones_a_band():
    found = curve([point(0, exact(np.ones(3))), point(1, coarse(0, 5, 0, 0))], P99, WINDOW, 60)
    (line,), (band,) = drawn(found, UTC_VIEWER, name="P99", rank=0)

    assert np.isfinite(line.value).tolist() == [True, False, False, False, False]
    assert len(band.low) == 1
    assert band.until_ms[0] - band.since_ms[0] == 60_000


def test_nothing_is_neither_line_nor_band():
    assert drawn(curve([], P99, WINDOW, 60), UTC_VIEWER, name="P99", rank=0) == ([], [])


def test_a_line_is_drawn_at_its_instants_wherever_the_reader_is():
    found = curve([point(0, exact(np.ones(3)))], P50, WINDOW, 60)
    east = Viewer(now_s=NOON_S, zone=timezone(timedelta(hours=2)))
    (here,), _ = drawn(found, UTC_VIEWER, name="P50", rank=0)
    (there,), _ = drawn(found, east, name="P50", rank=0)

    assert (there.at_ms == here.at_ms).all()


def test_all_of_a_query_together_is_one_distribution():
    series = [Series(labels=(), points=[point(n, exact(np.ones(n + 1)))]) for n in range(3)]

    assert together(series).n == 6
    assert together([]) is None


def test_without_a_split_two_quantiles_are_asked_for(reader, viewer):
    window = Window(since_s=viewer.now_s - 3600, until_s=viewer.now_s)
    found = curves(reader, "ttft", Selection(window=window, where=CHAT), "", [])

    assert list(found) == ["P99", "P50"]
    known = ~np.isnan(found["P99"].value_s)
    assert (found["P99"].value_s[known] >= found["P50"].value_s[known]).all()


def test_with_a_split_the_worst_groups_are_drawn_in_their_order(reader, viewer):
    window = Window(since_s=viewer.now_s - 3600, until_s=viewer.now_s)
    names = [f"vllm-chat-{n}" for n in (3, 1, 2, 0)] + ["more"]
    found = curves(reader, "ttft", Selection(window=window, where=CHAT), "replica", names)

    assert list(found) == names[:MOST_LINES]


def test_stages_that_nobody_measured_are_not_drawn(reader, viewer):
    window = Window(since_s=viewer.now_s - 3600, until_s=viewer.now_s)
    lines = stage_lines(reader, Selection(window=window, where=CHAT), Stage, viewer)

    assert [line.stack for line in lines] == ["network", "overhead", "queue", "prefill", "decode"]


def test_a_mean_is_the_sum_over_the_number(reader, viewer):
    window = Window(since_s=viewer.now_s - 3600, until_s=viewer.now_s)
    lines = stage_lines(reader, Selection(window=window, where=CHAT), [Stage.PREFILL], viewer)

    assert np.nanmean(lines[0].value) == pytest.approx(0.27, rel=0.1)


def told(reader, viewer, service, span_s):
    window = Window(since_s=viewer.now_s - span_s, until_s=viewer.now_s)
    return silences(reader, Selection(window=window, where=(("service", service),)), viewer)


def test_a_service_that_fell_silent_is_not_observed_since(reader, viewer):
    (mark,) = told(reader, viewer, "search", 3600)

    assert (mark.label, mark.hatched) == ("not observed", True)
    assert mark.since_ms / 1000 == pytest.approx(viewer.now_s - 1500, abs=60)


def test_a_service_that_nobody_asks_is_without_traffic(reader, viewer):
    (mark,) = told(reader, viewer, "voice", 3600)

    assert (mark.label, mark.hatched) == ("no traffic", False)


def test_the_minutes_that_may_still_be_told_are_not_called_unobserved(reader, viewer):
    (mark,) = told(reader, viewer, "search", 3600)

    assert mark.until_ms / 1000 <= viewer.now_s - 120
    assert told(reader, viewer, "search", 60) == []


def test_beyond_a_day_a_source_that_was_up_makes_a_step_one_without_traffic(reader, viewer, worlds):
    up = [
        Gauge(metric="up", labels=(("service", "voice"),), at_s=viewer.now_s - 7200, value=1.0),
    ]
    worlds["night"].gauges.extend(up)
    marks = told(reader, viewer, "voice", 3 * 86_400)
    worlds["night"].gauges.remove(up[0])

    assert {mark.label for mark in marks} == {"not observed", "no traffic"}


def test_a_chart_is_not_covered_with_marks(reader, viewer, worlds):
    gaps = [(viewer.now_s - n * 180 - 60, viewer.now_s - n * 180) for n in range(100)]
    before = worlds["night"].unobserved
    worlds["night"].unobserved = before | {"voice": gaps}
    marks = told(reader, viewer, "voice", 6 * 3600)
    worlds["night"].unobserved = before

    assert len(marks) == MOST_MARKS


@pytest.mark.parametrize("span_s", [900, 3600, 86_400, 604_800, 30 * 86_400])
def test_what_is_compared_with_moves_in_strides_and_is_as_long(span_s):
    now_s = 1_772_367_017
    windows = [Window(since_s=at - span_s, until_s=at) for at in range(now_s, now_s + 55, 11)]

    for then in (before, last_week):
        found = {then(each) for each in windows}
        assert len(found) <= 2
        for each in found:
            assert 0 <= each.until_s - each.since_s - span_s <= 60
    for each in windows:
        assert each.since_s - span_s / 12 <= before(each).until_s <= each.since_s
        ago_s = each.since_s - last_week(each).since_s
        assert WEEK_S <= ago_s <= WEEK_S + max(span_s / 12, 60)


def test_only_a_long_window_is_widened_to_minutes():
    short, long = Window(since_s=17, until_s=3000), Window(since_s=17, until_s=3700)

    assert whole_minutes(short) == short
    assert whole_minutes(long) == Window(since_s=0, until_s=3720)


def test_a_live_hour_of_requests_begins_on_five_minutes_and_ends_now():
    now_s = 1_772_367_017
    assert View(service="chat").window(now_s) == Window(since_s=1_772_363_400, until_s=now_s)
    assert View(alone="gpus").window(now_s) == Window(since_s=now_s - 3600, until_s=now_s)
    assert View(span_s=900).window(now_s) == Window(since_s=now_s - 900, until_s=now_s)
