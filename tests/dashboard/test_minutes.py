"""Minutes as a strip: four states, four shapes."""

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.minutes import stretches, strip, tell
from domain.slice import Slice, SliceState

GOOD = {"good_low": 10, "good_high": 10, "total": 10}
BAD = {"good_low": 3, "good_high": 3, "total": 10}
SILENT = {}
UNSEEN = {"observed": False}
kinds = st.lists(st.sampled_from([GOOD, BAD, SILENT, UNSEEN]), max_size=200)


def slices(*kinds):
    return [Slice(minute_at_s=60 * place, **kind) for place, kind in enumerate(kinds)]


def drawn(component):
    return {
        layer.className.removeprefix("layer minute-"): unquote(layer.style["maskImage"])
        for layer in component.children
    }


def test_each_state_is_a_layer_of_its_own_shape():
    layers = drawn(strip(slices(GOOD, BAD, SILENT, UNSEEN)))

    assert set(layers) == {"good", "bad", "no-traffic", "not-observed"}
    assert len({layer.split("<path")[1] for layer in layers.values()}) == 4


def test_a_strip_is_read_aloud_as_a_sentence():
    (label,) = [getattr(strip(slices(GOOD, BAD, UNSEEN)), "aria-label")]

    assert label == "last 3 minutes: 1 with bad requests, 1 not observed"


def test_a_good_strip_says_so():
    assert tell(slices(GOOD, GOOD)) == "last 2 minutes: every request was good"
    assert tell([]) == "no minute judged yet"


@given(kinds)
def test_a_bad_minute_is_never_hidden_by_its_neighbours(kinds):
    layers = drawn(strip(slices(*kinds), columns=20))

    assert ("bad" in layers) == any(kind is BAD for kind in kinds)


@given(kinds)
def test_a_strip_has_no_more_columns_than_it_is_wide(kinds):
    layers = drawn(strip(slices(*kinds), columns=20))

    bars = sum(layers.get(name, "").count("M") for name in ("good", "bad", "no-traffic"))
    assert bars + layers.get("not-observed", "").count("M") / 3 <= 20


@given(kinds)
def test_stretches_are_the_minutes_that_have_nothing_to_show(kinds):
    minutes = slices(*kinds)
    silent = [
        each for each in minutes if each.state in (SliceState.NO_TRAFFIC, SliceState.NOT_OBSERVED)
    ]

    assert sum(until - since for _, since, until in stretches(minutes)) == 60 * len(silent)


def test_neighbouring_minutes_of_one_state_are_one_stretch():
    found = list(stretches(slices(GOOD, UNSEEN, UNSEEN, SILENT, GOOD)))

    assert found == [(SliceState.NOT_OBSERVED, 60, 180), (SliceState.NO_TRAFFIC, 180, 240)]


@pytest.mark.parametrize("columns", [1, 60])
def test_no_minutes_are_an_empty_strip(columns):
    assert strip([], columns=columns).children == []
