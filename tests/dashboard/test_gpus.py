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
from dashboard.boards import Board, boards, held_down, step_s
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.gpu import Gpu, GpuMoment, Gpus, Sight
from domain.straggler import Straggler
from tests.collector.storing import NOW_S
from tests.dashboard.gpu_hours import an_hour, uuid
from tests.dashboard.memory import MemoryLedger, MemoryReader
from tests.dashboard.worlds import WORLDS

NOW = int(NOW_S)
HOUR = Window(since_s=NOW - 3600, until_s=NOW)
UP = {"up": True}
SLOW = Straggler(gpu_uuid="GPU-a", what="sm_clock_hz", value=1.2e9, others=1.98e9)


@pytest.mark.parametrize(
    ("gpu", "more", "standing"),
    [
        ({}, {}, (State.NOT_OBSERVED, "not observed")),
        ({"up": False, "reason": "gpu_lost"}, {}, (State.PAGE, "lost")),
        ({"up": False}, {}, (State.PAGE, "does not answer")),
        ({**UP, "now": {"gpu_recovery_action": 1.0}}, {}, (State.PAGE, "needs a reset")),
        ({**UP, "now": {"gpu_row_remap_failure": 1.0}}, {}, (State.PAGE, "memory is broken")),
        (UP, {"wedged": True}, (State.PAGE, "wedged")),
        ({**UP, "now": {"gpu_ecc_uncorrected": 2.0}}, {}, (State.TICKET, "memory errors")),
        (UP, {"cause": "hw_thermal", "held": 0.06}, (State.TICKET, "held down")),
        (
            {**UP, "now": {"gpu_busy": 1.0}},
            {"cause": "sw_power_cap", "held": 0.1},
            (State.HEALTHY, "works"),
        ),
        (UP, {"cause": "sw_power_cap", "held": 0.2}, (State.TICKET, "held down")),
        ({**UP, "straggles": (SLOW,)}, {}, (State.TICKET, "straggler")),
        ({**UP, "now": {"gpu_busy": 0.0}}, {}, (State.NO_TRAFFIC, "idle")),
        (
            {**UP, "now": {"gpu_busy": 1.0, "gpu_sm_active": 0.0}},
            {},
            (State.NO_TRAFFIC, "idle"),
        ),
        (UP, {}, (State.HEALTHY, "answers")),
        ({**UP, "parent": "GPU-a"}, {}, (State.HEALTHY, "part of a GPU")),
        ({"parent": "GPU-a"}, {}, (State.NOT_OBSERVED, "not observed")),
    ],
)
def test_a_board_has_one_state_and_the_word_for_it(gpu, more, standing):
    assert Board(gpu=Gpu(uuid="GPU-a", **gpu), **more).standing == standing


moments = st.builds(
    GpuMoment,
    sight=st.sampled_from(Sight),
    work=st.none() | st.floats(0, 1),
    held=st.dictionaries(st.sampled_from(["hw_thermal", "sw_power_cap"]), st.floats(0, 1)),
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
    strip = heat.strip([GpuMoment(Sight.UP, 0.9, {"hw_thermal": 0.5})])
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
    return {each.gpu.uuid: each for each in boards(reader.gpus(HOUR, step_s=60), 60)}


def test_trouble_stands_first_then_the_drivers_order(found):
    places = [each.gpu.index for each in found.values() if not each.gpu.parent]

    assert places == [5, 2, 3, 6, 0, 1, 4, 7]
    assert [e.gpu.parent for e in found.values() if e.gpu.parent] == [uuid(4)] * 2


def test_a_lost_gpu_keeps_its_name_and_shows_no_values(found):
    lost = found[uuid(5)]

    assert lost.standing == (State.PAGE, "lost")
    assert lost.gpu.name == "NVIDIA H100 80GB HBM3"
    assert lost.work is None
    assert lost.gpu.xids == {"79": 1}
    assert [each.sight for each in lost.gpu.moments].count(Sight.DOWN) in (15, 16)


def test_a_gpu_that_is_held_down_says_by_what_and_for_how_long(found):
    held = found[uuid(3)]

    assert held.cause == "hw_thermal"
    assert held.held == pytest.approx(0.41, abs=0.02)
    shares = [each.held.get("hw_thermal", 0.0) for each in held.gpu.moments]
    assert max(shares[:25]) == 0
    assert min(shares[-25:-1]) == pytest.approx(0.41, abs=0.1)


def test_causes_are_told_one_by_one_and_the_longest_first(reader):
    told = held_down(reader.gpus(HOUR, step_s=60))

    assert [(each.gpu.uuid, each.cause) for each in told] == [
        (uuid(3), "hw_thermal"),
        (uuid(0), "sw_power_cap"),
    ]
    assert told[0].share == pytest.approx(0.205, abs=0.01)
    assert told[0].seconds == pytest.approx(1800 * 0.41, rel=0.02)


def test_an_engine_that_stands_still_on_gpus_at_rest_marks_them(found):
    assert found[uuid(2)].standing == (State.PAGE, "wedged")


def test_the_slow_gpu_of_an_engine_is_marked_and_the_other_is_not(found):
    assert found[uuid(6)].standing == (State.TICKET, "straggler")
    assert found[uuid(7)].standing == (State.HEALTHY, "works")


def test_time_that_nobody_observed_is_a_gap_and_not_rest(found):
    unseen = [each.sight is Sight.NOT_OBSERVED for each in found[uuid(7)].gpu.moments]

    assert 9 <= sum(unseen) <= 10
    assert sum(before is not after for before, after in pairwise(unseen)) == 2


def test_a_node_without_a_driver_is_told(reader):
    assert [(e.name, e.reason) for e in reader.gpus(HOUR).nodes] == [("node-2", "version_mismatch")]


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
    assert "GPU 5 of node-1 Next: drain the machine" in " ".join(text.split())
    assert "1 wedged engine" in text
    assert "24 requests run and no token came for" in text
    assert "draw no more than when idle (118 W, at rest 118 W)" in text
    assert "KV cache 97 %" in text
    assert "J per output token" in text
    assert "clock 1200, the others 1980 MHz" in text
    assert "GPU 3: heat (hardware) 20.6 %, 12.3 min" in text


def test_many_gpus_that_are_well_are_a_line_for_each_machine():
    well = {"gpu_busy": 0.5, "gpu_power": 300.0, "gpu_power_limit": 700.0}
    lost = Gpu(uuid="GPU-lost", node="n1", up=False, reason="hung")
    many = [Gpu(uuid=f"GPU-{n:03}", node=f"n{n % 2}", up=True, now=well) for n in range(64)]
    text = shown(_Fixed([lost, *many]))

    assert "64 of 65 GPUs answer" in text
    assert "hung" in text
    assert text.count("32 GPUs") == 2
    assert "9600 W of 22400 W" in text
    assert "64 GPUs are told together, by machine" in text


@pytest.mark.parametrize("name", ["<img src=x onerror=alert(1)>", "\u202egnp.exe", "x" * 5000, ""])
def test_any_name_is_shown_as_text(name):
    gpu = Gpu(
        uuid=name or "GPU-0",
        name=name,
        node=name,
        up=False,
        reason=name,
        xids={name: 1},
        serves=((("replica", name), ("service", name)),) if name else (),
    )

    assert "0 of 1 GPUs answer" in shown(_Fixed([gpu]))


class _Fixed:
    """A reader of GPUs that are what they are."""

    def __init__(self, found):
        self.found = found

    def gpus(self, window, *, where=(), step_s=None):
        del where, step_s
        return Gpus(since_s=window.since_s, until_s=window.until_s, gpus=self.found)


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
