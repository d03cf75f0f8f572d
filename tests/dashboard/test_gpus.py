"""The GPUs page: what a board's readings come to, strips of its time, and the page over a real store."""

import json
from itertools import pairwise

import pytest
from dash.development.base_component import Component
from hypothesis import given
from hypothesis import strategies as st

from collector.query import Window
from collector.reader import StoreReader
from collector.store import open_store
from dashboard import gpus, heat
from dashboard.boards import Board, Moment, Sight, boards, node_troubles, step_s
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer
from tests.collector.storing import NOW_S
from tests.dashboard.gpu_hours import an_hour, uuid
from tests.dashboard.memory import MemoryLedger, MemoryReader
from tests.dashboard.worlds import WORLDS

NOW = int(NOW_S)
HOUR = Window(since_s=NOW - 3600, until_s=NOW)
UP = {"gpu_up": 1.0}


@pytest.mark.parametrize(
    ("now", "more", "standing"),
    [
        ({}, {}, (State.NOT_OBSERVED, "not observed")),
        ({"gpu_up": 0.0}, {"reason": "gpu_lost"}, (State.PAGE, "lost")),
        ({"gpu_up": 0.0}, {}, (State.PAGE, "does not answer")),
        ({**UP, "gpu_recovery_action": 1.0}, {}, (State.PAGE, "needs a reset")),
        ({**UP, "gpu_row_remap_failure": 1.0}, {}, (State.PAGE, "memory is broken")),
        ({**UP, "gpu_ecc_uncorrected": 2.0}, {}, (State.TICKET, "memory errors")),
        (UP, {"cause": "hw_thermal", "held": 0.06}, (State.TICKET, "held down")),
        ({**UP, "gpu_busy": 1.0}, {"cause": "sw_power_cap", "held": 0.1}, (State.HEALTHY, "works")),
        (UP, {"cause": "sw_power_cap", "held": 0.2}, (State.TICKET, "held down")),
        ({**UP, "gpu_busy": 0.0}, {}, (State.NO_TRAFFIC, "idle")),
        ({**UP, "gpu_busy": 1.0, "gpu_sm_active": 0.0}, {}, (State.NO_TRAFFIC, "idle")),
        (UP, {}, (State.HEALTHY, "answers")),
        ({}, {"parent": "GPU-a"}, (State.HEALTHY, "part of a GPU")),
    ],
)
def test_a_board_has_one_state_and_the_word_for_it(now, more, standing):
    assert Board(uuid="GPU-a", now=now, **more).standing == standing


moments = st.builds(
    Moment,
    sight=st.sampled_from(Sight),
    work=st.none() | st.floats(0, 1),
    held=st.floats(0, 1),
)


@given(st.lists(moments, max_size=80))
def test_a_strip_says_in_words_what_it_draws(some):
    drawn = heat.strip(some).to_plotly_json()["props"]
    words = drawn["aria-label"]
    layers = {each.to_plotly_json()["props"]["className"] for each in drawn["children"]}

    assert ("layer down" in layers) is (Sight.DOWN in {each.sight for each in some})
    assert ("does not answer" in words) is ("layer down" in layers)
    assert ("not observed" in words) is ("layer unseen-time" in layers)
    assert words == drawn["title"]


@given(st.floats(0, 1), st.floats(0, 1))
def test_more_work_is_never_a_lighter_shade(less, more):
    low, high = sorted((less, more))

    assert 0 <= heat.shade(low) <= heat.shade(high) <= heat.SHADES


def test_work_that_nobody_told_is_no_shade():
    assert heat.shade(None) is None
    assert heat.shade(0.0) == 0


def test_what_held_a_gpu_down_is_drawn_over_its_work():
    strip = heat.strip([Moment(sight=Sight.UP, work=0.9, held=0.5)])
    classes = [each.className for each in strip.children]

    assert classes == ["layer work-5", "layer held"]


@given(st.integers(60, 400 * 86_400))
def test_a_strip_has_at_most_sixty_columns_and_a_cut_one_at_either_end(length_s):
    window = Window(since_s=NOW - length_s, until_s=NOW)
    step = step_s(window)

    assert step % 10 == 0
    assert -(-window.until_s // step) - window.since_s // step <= 61


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpus")
    an_hour(folder, NOW, drivers=[("node-2", "version_mismatch")])
    found = StoreReader(folder)
    yield found
    found.close()


@pytest.fixture(scope="module")
def found(reader):
    return {each.uuid: each for each in boards(reader, HOUR)}


def test_trouble_stands_first_then_the_drivers_order(found):
    places = [each.index for each in found.values() if not each.parent]

    assert places[:2] == [5, 3]
    assert places[3:] == [0, 1, 4, 6, 7]
    assert [each.parent for each in found.values() if each.parent] == [uuid(4)] * 2


def test_a_lost_gpu_keeps_its_name_and_shows_no_values(found):
    lost = found[uuid(5)]

    assert lost.standing == (State.PAGE, "lost")
    assert lost.name == "NVIDIA H100 80GB HBM3"
    assert lost.work is None
    assert lost.xids == {"79": 1}
    assert [each.sight for each in lost.moments].count(Sight.DOWN) in (15, 16)


def test_a_gpu_that_is_held_down_says_by_what_and_for_how_long(found):
    held = found[uuid(3)]

    assert held.cause == "hw_thermal"
    assert held.held == pytest.approx(0.41, abs=0.02)
    assert max(each.held for each in held.moments[:25]) == 0
    assert min(each.held for each in held.moments[-25:-1]) == pytest.approx(0.41, abs=0.1)


def test_time_that_nobody_observed_is_a_gap_and_not_rest(found):
    unseen = [each.sight is Sight.NOT_OBSERVED for each in found[uuid(7)].moments]

    assert 9 <= sum(unseen) <= 10
    assert sum(before is not after for before, after in pairwise(unseen)) == 2


def test_a_node_without_a_driver_is_told(reader):
    assert node_troubles(reader, HOUR) == [("node-2", "version_mismatch")]


def test_activity_goes_before_utilisation(found):
    assert found[uuid(0)].work == pytest.approx(0.92)
    assert found[uuid(4)].work == pytest.approx(0.6)


def shown(reader, **view):
    ledger = MemoryLedger(MemoryReader(WORLDS["empty"](NOW)))
    viewer = Viewer(now_s=NOW, host="stagewatch")
    content = gpus.content(reader, ledger, View(alone="gpus", **view), viewer)
    return _text(gpus.page(View(alone="gpus", **view), content))


def _text(part):
    """All words of a page, also those that are only read aloud."""
    if isinstance(part, Component):
        props = part.to_plotly_json()["props"]
        own = [str(props[name]) for name in ("aria-label", "title", "href") if name in props]
        return " ".join([*own, _text(props.get("children"))])
    if isinstance(part, list | tuple):
        return " ".join(map(_text, part))
    return "" if part is None else str(part)


def test_the_page_says_how_many_answer_and_what_is_wrong(reader):
    text = shown(reader)

    assert "7 of 8 GPUs answer" in text
    assert "1 lost" in text
    assert "1 held down" in text
    assert "node-2: no driver (version mismatch)" in text
    assert "heat (hardware)" in text
    assert "XID 79 × 1" in text
    assert "/service/chat" in text


def test_a_window_of_the_past_shows_what_was_then(reader):
    past = Window(since_s=NOW - 3600, until_s=NOW - 1000)

    assert "8 of 8 GPUs answer" in shown(reader, fixed=past)


def test_without_gpus_the_page_says_what_to_do(tmp_path):
    open_store(tmp_path).close()
    empty = StoreReader(tmp_path)
    text = shown(empty)
    empty.close()

    assert "No GPU was heard of in the last 1 h" in text
    assert "stagewatch exporter gpu --endpoint http://stagewatch:4318" in text


@pytest.mark.parametrize("path", ["/gpus", "/gpus/"])
def test_a_copied_link_shows_the_same_page(path):
    view = View.from_link(path, "?from=now-6h")

    assert (view.page, view.span_s) == ("gpus", 21_600)
    assert View.from_link(view.path(), view.query()) == view


def test_a_page_is_of_a_service_or_of_none():
    with pytest.raises(ValueError, match="a page of no service"):
        View(alone="gpus", service="chat")
    with pytest.raises(ValueError, match="a page of no service"):
        View(alone="nothing")
    assert View.from_link("/gpus/chat", "").page == ""


def test_what_is_sent_to_the_browser_can_be_written_as_json(reader):
    from plotly.utils import PlotlyJSONEncoder

    ledger = MemoryLedger(MemoryReader(WORLDS["empty"](NOW)))
    viewer = Viewer(now_s=NOW)
    content = gpus.content(reader, ledger, View(alone="gpus"), viewer)

    assert len(json.dumps(content.regions, cls=PlotlyJSONEncoder)) < 120_000
