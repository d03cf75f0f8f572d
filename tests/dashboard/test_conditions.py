"""An engine that stands still is the first thing a woken person reads, whatever promises say."""

from dataclasses import replace

import pytest
from dash import html

from alerts.ledger import AlertRecord
from collector.query import Window
from dashboard import fleet, service
from dashboard.alert_places import stage_comparison
from dashboard.conditions import conditions_told
from dashboard.url import View
from domain.condition import Condition, ConditionKind, condition_id, next_step
from domain.labels import labels_of
from domain.objective import Severity
from tests.dashboard.reading import attributes, find_all, text

CHAT = View(service="chat")


def condition(now_s, kind=ConditionKind.STALLED, *, replica="vllm-chat-2", ago_s=72, **more):
    place = labels_of({"service": "chat", "replica": replica, "source": "page"})
    return Condition(
        kind=kind,
        labels=place,
        **{"since_s": now_s - ago_s, "seen_at_s": now_s - 1, "running": 1, "waiting": 0} | more,
    )


def alert(about, *, stale=False, severity=Severity.PAGE, message="It pages."):
    name = condition_id(about.kind, about.labels)
    return AlertRecord(
        id=f"{name}-condition-1",
        objective_id=name,
        objective_name="engine stalled",
        severity=severity,
        kind="condition",
        dedup_key="k",
        started_at_s=about.since_s,
        resolved_at_s=None,
        stale=stale,
        inhibited=False,
        flaps=1,
        message=message,
        why=(),
        blame=None,
        condition=about,
    )


@pytest.fixture
def world(reader):
    """A night of its own: worlds are shared between tests."""
    reader.world = replace(reader.world, conditions=[], condition_alerts=[])
    return reader.world


def lines(shown):
    found = shown.regions["conditions"]
    return [] if found is None else [text(line) for line in find_all(found, html.Li)]


def test_where_nothing_is_wrong_there_is_no_list(reader, ledger, viewer):
    shown = fleet.content(reader, ledger, View(), viewer)

    assert shown.regions["conditions"] is None


def test_the_fleet_page_says_it_before_any_promise(world, reader, ledger, viewer):
    world.conditions = [condition(viewer.now_s)]

    shown = fleet.content(reader, ledger, View(), viewer)
    (line,) = lines(shown)

    assert text(shown.regions["state"]).startswith("▲ 1 engine stands still ▲ 1 paging")
    assert shown.title == "▲2 vllm-chat-2 stands still"
    assert line.startswith(
        "▲ engine stalled chat vllm-chat-2 of chat has stood still for at least 71 s: 1 request "
        "running, 0 waiting, no token after "
    )
    assert "a health check cannot see this" in line
    assert "Next: take the replica out of rotation and restart its engine process" in line


def test_on_its_service_page_it_is_the_headline_and_is_not_said_twice(
    world, reader, ledger, viewer
):
    world.conditions = [condition(viewer.now_s)]

    shown = service.content(reader, ledger, CHAT, viewer)

    assert text(shown.regions["badge"]) == "▲ page"
    assert text(shown.regions["state"]).startswith("vllm-chat-2 of chat has stood still")
    assert lines(shown) == []
    assert "chat-ttft pages since 02:09 UTC" in text(shown.regions["promises"])


def test_the_page_of_its_alert_leads_to_the_replica(reader, viewer):
    shown = stage_comparison(reader, alert(condition(viewer.now_s)), None, viewer)

    assert " ".join(text(shown).split()).endswith("while it lasted: its requests and its stages")
    (target,) = attributes(shown, "href")
    assert target.partition("?")[0].endswith("/chat")
    assert target.endswith("replica%3Dvllm-chat-2")


def test_another_service_does_not_hear_of_it(world, reader, ledger, viewer):
    world.conditions = [condition(viewer.now_s)]
    world.condition_alerts = [alert(world.conditions[0])]

    shown = service.content(reader, ledger, View(service="code"), viewer)

    assert lines(shown) == []
    assert "stood still" not in text(shown.regions["state"])


def test_what_is_over_is_told_last_with_its_consequence(world, reader, ledger, viewer):
    now_s = viewer.now_s
    world.conditions = [
        condition(now_s, over_at_s=now_s - 1, seen_at_s=now_s - 2, running=8, waiting=23),
        condition(now_s, ConditionKind.DOWN, replica="vllm-chat-0", reason="refused"),
    ]

    down, over = lines(fleet.content(reader, ledger, View(), viewer))

    assert down.startswith("◆ target down chat vllm-chat-0 of chat has not answered since ")
    assert over.startswith("● engine stalled, over chat vllm-chat-2 of chat moves again since ")
    assert "The 23 requests waiting now are a consequence of it, not a cause." in over
    assert "Next" not in over


@pytest.mark.parametrize(
    ("reason", "then"),
    [
        ("refused", "look whether the engine's process lives"),
        ("http_503", "look whether the engine's process lives"),
        ("http_404", "something answers, but not with the engine's metrics: look at the address"),
    ],
)
def test_what_to_do_about_a_target_that_is_down_goes_by_the_reason(reason, then, viewer):
    down = condition(viewer.now_s, ConditionKind.DOWN, reason=reason)

    assert next_step(down).startswith(then)


def test_a_page_that_vanished_while_stalled_is_still_shown_and_says_stale(
    world, reader, ledger, viewer
):
    gone = condition(viewer.now_s, ago_s=4000, seen_at_s=viewer.now_s - 3600)
    message = "vllm-chat-2 of chat has stood still. Stale: nothing has been heard of it."
    world.condition_alerts = [alert(gone, stale=True, message=message)]

    shown = fleet.content(reader, ledger, View(), viewer)

    assert lines(shown) == [f"▲ engine stalled, stale chat {message}"]
    assert text(shown.regions["state"]).startswith("▲ 1 engine stands still")


def test_an_alert_and_its_condition_are_one_line_as_loud_as_the_alert(
    world, reader, ledger, viewer
):
    world.conditions = [condition(viewer.now_s)]
    world.condition_alerts = [alert(world.conditions[0], severity=Severity.TICKET)]

    (line,) = lines(fleet.content(reader, ledger, View(), viewer))

    assert line.startswith("◆ engine stalled chat vllm-chat-2 of chat has stood still")


def test_a_missed_scrape_is_no_line(world, reader, ledger, viewer):
    world.conditions = [condition(viewer.now_s, ConditionKind.DOWN, ago_s=5)]

    assert lines(fleet.content(reader, ledger, View(), viewer)) == []


def test_replicas_that_fell_silent_together_are_one_line(world, reader, ledger, viewer):
    world.conditions = [
        condition(viewer.now_s, ConditionKind.SILENT, replica=f"vllm-{n}") for n in range(30)
    ]

    (line,) = lines(fleet.content(reader, ledger, View(), viewer))

    assert "30 replicas of chat have fallen silent" in line


def test_one_silent_replica_has_its_name(world, reader, ledger, viewer):
    world.conditions = [condition(viewer.now_s, ConditionKind.SILENT)]

    (line,) = lines(fleet.content(reader, ledger, View(), viewer))

    assert line.startswith("? silent chat Nothing has been heard of vllm-chat-2 of chat since")


def test_of_many_the_worst_are_shown_and_the_rest_counted(world, reader, ledger, viewer):
    world.conditions = [condition(viewer.now_s, replica=f"vllm-{n}") for n in range(12)]

    found = lines(fleet.content(reader, ledger, View(), viewer))

    assert len(found) == 9
    assert found[-1] == "and 4 more: stagewatch query conditions"


def test_a_window_of_the_past_shows_no_alert_of_today(world, reader, ledger, viewer):
    world.condition_alerts = [alert(condition(viewer.now_s))]
    view = replace(View(), fixed=Window(since_s=viewer.now_s - 7200, until_s=viewer.now_s - 3600))

    assert conditions_told(reader, ledger, view, viewer) == []


def test_a_hostile_replica_is_text(world, reader, ledger, viewer):
    world.conditions = [condition(viewer.now_s, replica="<img src=x onerror=alert(1)>")]

    (line,) = lines(fleet.content(reader, ledger, View(), viewer))

    assert "<img src=x onerror=alert(1)> of chat has stood still" in line
