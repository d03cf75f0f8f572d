"""Charts that lose nothing that matters."""

from itertools import pairwise

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.figures import Band, Frame, Instant, Line, Mark, Threshold, chart, thin
from dashboard.overlays import names

with_gaps_s = st.lists(st.one_of(st.just(np.nan), st.floats(0, 100)), max_size=60).map(np.array)
buckets = st.integers(1, 20)
FRAME = Frame(since_ms=0.0, until_ms=60_000.0, zone="UTC", zoom="")


def line(values, **more):
    values = np.array(values, np.float64)
    at_ms = np.arange(len(values)) * 1000.0
    return Line(name="P99", at_ms=at_ms, value=values, **more)


def band(low, high):
    since = np.arange(len(low)) * 1000.0
    return Band(
        name="P99", since_ms=since, until_ms=since + 1000, low=np.array(low), high=np.array(high)
    )


@given(with_gaps_s, buckets)
def test_thinning_keeps_the_worst_value_and_the_newest(values, buckets):
    kept = values[thin(values, buckets)]

    np.testing.assert_equal(np.fmax.reduce(kept, initial=-1), np.fmax.reduce(values, initial=-1))
    np.testing.assert_equal(kept[-1:], values[-1:])


@given(with_gaps_s, buckets)
def test_a_thinned_line_crosses_no_gap(values, buckets):
    for left, right in pairwise(thin(values, buckets)):
        drawn = not np.isnan(values[[left, right]]).any()
        assert not (drawn and np.isnan(values[left:right]).any())


@given(with_gaps_s, buckets)
def test_thinning_draws_at_most_eight_points_a_bucket(values, buckets):
    assert len(thin(values, buckets)) <= 8 * buckets


@given(with_gaps_s, buckets)
def test_thinned_points_stay_in_their_order(values, buckets):
    assert (np.diff(thin(values, buckets)) > 0).all()


def test_few_points_are_left_alone():
    assert thin(np.array([1.0, np.nan, 3.0]), buckets=360).tolist() == [0, 1, 2]


@given(st.lists(with_gaps_s, max_size=3))
def test_every_chart_can_be_sent(all_values):
    figure = chart([line(values, rank=n) for n, values in enumerate(all_values)], [], frame=FRAME)

    assert orjson.loads(orjson.dumps(figure, option=orjson.OPT_SERIALIZE_NUMPY))


def test_a_chart_of_nothing_is_an_empty_chart():
    figure = chart([], [], frame=FRAME)

    assert figure["data"] == []
    assert figure["layout"]["yaxis"]["range"] == [0, 1.0]


@pytest.mark.parametrize("zoom", ["", "/?from=now-6h"])
def test_a_refresh_keeps_the_zoom_of_every_view(zoom):
    frame = Frame(since_ms=0.0, until_ms=1.0, zone="UTC", zoom=zoom)

    assert chart([], [], frame=frame)["layout"]["uirevision"]


def test_the_promise_is_drawn_across_the_whole_chart_and_named_on_it():
    promise = Threshold(value=1.5, label="promise 1.5 s")
    layout = chart([line([1.0, 2.0])], [], frame=FRAME, threshold=promise)["layout"]

    (limit,) = layout["shapes"]
    assert (limit["y0"], limit["y1"], limit["xref"]) == (1.5, 1.5, "paper")
    assert "promise 1.5 s" in [note["text"] for note in layout["annotations"]]


def test_a_promise_far_above_all_values_does_not_flatten_them():
    promise = Threshold(value=100.0, label="promise 100 s")
    layout = chart([line([1.0, 2.0])], [], frame=FRAME, threshold=promise)["layout"]

    assert layout["yaxis"]["range"][1] < 3
    assert layout["shapes"] == []
    assert "promise 100 s ↑" in [note["text"] for note in layout["annotations"]]


def test_short_times_are_shown_in_milliseconds():
    figure = chart([line([0.040, 0.041])], [], frame=FRAME)

    assert figure["layout"]["yaxis"]["ticksuffix"] == " ms"
    assert figure["data"][0]["y"].tolist() == pytest.approx([40, 41])


def test_gaps_are_gaps():
    (trace,) = chart([line([1.0, 1.0, np.nan, 2.0, 2.0])], [], frame=FRAME)["data"]

    assert trace["connectgaps"] is False
    assert np.isnan(trace["y"][2])


def test_a_lonely_value_between_gaps_is_a_dot():
    _, dots = chart([line([np.nan, 1.5, np.nan])], [], frame=FRAME)["data"]

    assert dots["mode"] == "markers"
    assert dots["y"].tolist() == [1.5]


def test_a_range_is_a_box_and_no_line():
    (trace,) = chart([], [band([1.0], [2.0])], frame=FRAME)["data"]

    assert trace["fill"] == "toself"
    assert trace["y"].tolist() == [1, 2, 2, 1, 1]


def test_an_open_range_reaches_the_top_of_the_chart():
    figure = chart([], [band([10.0], [np.inf])], frame=FRAME)

    assert figure["data"][0]["y"].max() == pytest.approx(figure["layout"]["yaxis"]["range"][1])


def test_two_ranges_are_two_boxes():
    (trace,) = chart([], [band([1.0, 1.0], [2.0, 3.0])], frame=FRAME)["data"]

    assert np.isnan(trace["y"]).sum() == 1


def test_what_nobody_observed_is_hatched_and_what_nobody_asked_is_not():
    marks = [
        Mark(since_ms=0, until_ms=20_000, label="not observed", hatched=True),
        Mark(since_ms=20_000, until_ms=40_000, label="no traffic", hatched=False),
    ]
    figure = chart([], [], frame=FRAME, marks=marks)

    (hatched,) = figure["data"]
    assert hatched["marker"]["pattern"]["shape"] == "/"
    told = [note["text"] for note in figure["layout"]["annotations"]]
    assert told == ["not observed", "no traffic"]


def test_a_line_is_named_at_its_end():
    layout = chart([line([1.0, 2.0])], [], frame=FRAME)["layout"]

    (label,) = layout["annotations"]
    assert (label["text"], label["y"]) == ("P99", 2.0)


def test_names_at_the_end_do_not_lie_on_each_other():
    lines = [line([5.0]), Line(name="P50", at_ms=np.zeros(1), value=np.array([5.0]), rank=1)]
    layout = chart(lines, [], frame=FRAME)["layout"]

    first, second = (label["y"] for label in layout["annotations"])
    assert abs(first - second) > 0.3


def test_a_hostile_name_is_text():
    hostile = Line(name="<img src=x>", at_ms=np.zeros(1), value=np.ones(1))
    figure = chart([hostile], [], frame=FRAME)

    assert figure["layout"]["annotations"][0]["text"] == "&lt;img src=x&gt;"
    assert all(trace["name"] == "&lt;img src=x&gt;" for trace in figure["data"])


def test_stages_stand_on_each_other():
    lines = [line([1.0, 1.0], stack="queue"), line([2.0, 2.0], stack="decode")]
    figure = chart(lines, [], frame=FRAME)

    assert [trace["uid"] for trace in figure["data"]] == [
        "first-queue-next-decode-",
        "then-decode-next-none-",
    ]
    assert figure["layout"]["yaxis"]["range"][1] == pytest.approx(3 * 1.08)


@given(st.lists(st.tuples(st.floats(0, 1), st.text("abcdef", max_size=30)), max_size=40))
def test_names_above_a_chart_stand_beside_each_other_and_inside_it(told):
    since_ms, until_ms = 1e12, 1e12 + 3.6e6
    letter_ms = (until_ms - since_ms) / 36
    instants = [Instant(at_ms=since_ms + at * 3.6e6, label=label) for at, label in told]
    ends_ms = since_ms

    for each in names(instants, since_ms=since_ms, until_ms=until_ms):
        wide_ms = letter_ms * (len(each["text"]) + 1)
        left_ms = each["x"] - {"left": 0, "center": 0.5, "right": 1}[each["xanchor"]] * wide_ms
        assert left_ms >= ends_ms - 0.06 * wide_ms
        assert left_ms + wide_ms <= until_ms + 0.06 * wide_ms
        ends_ms = left_ms + wide_ms
