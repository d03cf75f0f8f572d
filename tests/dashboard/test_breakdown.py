"""Which replica is worst, and why."""

import pytest
from dash import html

from collector.query import Selection
from dashboard.breakdown import MOST_ROWS, breakdown, worst_first
from dashboard.url import View
from tests.dashboard.memory import MemoryReader, World
from tests.dashboard.reading import find_all, text
from tests.dashboard.worlds import names, serve


@pytest.fixture
def groups(reader, viewer):
    def of(service, **more):
        view = View(service=service, **more)
        where = view.only("service", service).where
        selection = Selection(window=view.window(viewer.now_s), where=where)
        return worst_first(reader, selection, view)

    return of


def test_a_replica_that_is_down_is_worse_than_a_slow_one(groups):
    first, second, *_ = groups("chat")

    assert first.replica.up is False
    assert second.replica.up is True


def test_among_those_that_are_up_the_slowest_is_worst(groups):
    slow = [group.badness[1] for group in groups("chat")[1:]]

    assert slow == sorted(slow, reverse=True)


def test_a_replica_is_known_though_nobody_asks_it_for_anything(groups):
    assert {group.name for group in groups("voice")} == {"voice-0", "voice-1"}


def test_gauges_belong_to_their_replica(groups):
    running = {group.name: group.gauges["requests_running"].last for group in groups("chat")}

    assert running == {f"vllm-chat-{n}": 14 + n for n in range(4)}


def test_a_split_by_model_knows_no_single_replica(groups):
    assert {group.name for group in groups("chat", by="model")} == {"llama-3.1-8b", "llama-3.3-70b"}
    assert all(group.replica is None for group in groups("chat", by="model"))


def test_a_service_nobody_heard_of_has_no_replicas(groups, viewer):
    assert groups("nobody") == []
    shown = breakdown([], View().window(viewer.now_s), View(service="nobody"), viewer)
    assert text(shown).endswith("No replica was heard in this window.")


def test_a_long_table_ends_with_how_many_are_left_out(viewer):
    world = World(now_s=viewer.now_s)
    serve(world, "chat", names("r", MOST_ROWS + 5), per_min=1)
    view = View(service="chat")
    window = view.window(viewer.now_s)
    selection = Selection(window=window, where=view.only("service", "chat").where)
    shown = breakdown(worst_first(MemoryReader(world), selection, view), window, view, viewer)

    assert len(find_all(find_all(shown, html.Tbody), html.Tr)) == MOST_ROWS
    assert text(shown).endswith("and 5 more that do better")
