"""Charts: every value on its place, gaps are gaps, names do not cover each other."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.ladder.axis import axis_of, log_axis_through
from exporters.ladder.chart import Chart, Line, Mark, _apart, svg
from exporters.ladder.figure_text import dollars, duration, number, share

values = st.lists(st.floats(0, 1e6), min_size=1, max_size=30)


def chart(*lines, **more):
    return Chart(title="T", description="D", x_label="x", lines=lines, say=duration, **more)


@given(values)
def test_an_axis_keeps_the_order_and_holds_every_value(found):
    axis = axis_of(found, 0.0, 100.0)
    places = [axis.at(value) for value in sorted(found)]

    assert places == sorted(places)
    assert all(0 <= place <= 100 for place in places)
    assert all(axis.low <= tick <= axis.high for tick in axis.ticks)
    assert 1 <= len(axis.ticks) <= 12
    assert axis.is_log or axis.low == 0


@given(st.lists(st.floats(0.01, 1e5), min_size=1, max_size=12))
def test_every_load_is_named_on_its_axis(loads):
    axis = log_axis_through(loads, 50.0, 300.0)

    assert axis.ticks == tuple(sorted(set(loads)))
    assert all(50 <= axis.at(load) <= 300 for load in loads)


@given(st.lists(st.tuples(st.floats(20, 210), st.text("abc", max_size=3)), max_size=8))
def test_names_beside_lines_never_lie_on_each_other(ends):
    places = sorted(place for place, _ in _apart(ends))

    assert len(places) == len(ends)
    assert all(lower - upper >= 12.99 for upper, lower in pairwise(places))


def test_a_gap_in_a_line_is_a_gap():
    line = Line(name="P99", points=((1, 0.1), (2, 0.2), (4, None), (8, 0.4), (16, 0.5)))

    assert svg(chart(line), name="c").count("<polyline") == 2


def test_figures_that_are_not_believed_are_hollow_and_shaded():
    line = Line(name="P99", points=((1, 0.1), (8, 0.2), (16, 0.2)))
    made = svg(chart(line, doubtful_from=8.0, doubtful=(8.0, 16.0)), name="c")

    assert made.count("dot hollow") == 2
    assert "client too slow" in made


def test_a_limit_far_above_does_not_flatten_the_lines():
    line = Line(name="P99", points=((1, 0.1), (2, 0.2)))
    far = svg(chart(line, level=(Mark(value=60.0, label="limit"),)), name="c")
    near = svg(chart(line, level=(Mark(value=0.3, label="limit"),)), name="c")

    assert "↑ limit" in far
    assert 'class="mark"' in near


def test_words_in_a_picture_are_escaped():
    line = Line(name="<b>", points=((1, 0.1), (2, 0.2)))
    made = svg(chart(line), name="c")

    assert "<b>" not in made
    assert "&lt;b&gt;" in made


def test_no_point_lies_outside_the_picture():
    line = Line(name="P50", points=((1, 1e-6), (1000, 5e3)), low=(1e-7, 1.0), high=(1e-5, 9e3))
    places = re.findall(r'c[xy]="([\d.]+)"', svg(chart(line), name="c"))

    assert places
    assert all(0 <= float(place) <= 380 for place in places)


def test_nothing_to_draw_is_drawn():
    assert svg(chart(Line(name="P50", points=((1, None),))), name="c").endswith("</svg>")
    assert svg(chart(), name="c").endswith("</svg>")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "–"),
        (float("inf"), "–"),
        (0, "0"),
        (0.0001234, "0.000123"),
        (1.0, "1"),
        (12.345, "12.3"),
        (99.99, "100"),
        (1234.5, "1\u202f234"),
        (-0.5, "-0.5"),
    ],
)
def test_numbers_have_three_digits(value, said):
    assert number(value) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(0.00012, "0.12 ms"), (0.5, "500 ms"), (0.9996, "1 s"), (61.0, "61 s"), (None, "–")],
)
def test_durations_have_the_unit_that_fits(value, said):
    assert duration(value) == said


def test_a_share_is_whole_only_when_all_are():
    assert share(300, 300) == "100 %"
    assert share(99_999, 100_000) == "99.9 %"
    assert share(0, 300) == "0 %"
    assert share(0, 0) == "–"
    assert dollars(0.25) == "$0.25"
