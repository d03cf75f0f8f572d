"""What is wrong with engines, read from what their sidecars pushed: since when, how surely, how long."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from collector.api import router
from collector.liveness_answers import ConditionsAnswer, conditions_answer
from domain.condition import Condition, ConditionKind, sentence
from tests.alerts.engines import START_S, hang, sidecar

QUIET = {"requests_running": 1, "requests_waiting": 0, "generation_tokens": 0, "up": 1}


@pytest.fixture
def told(tmp_path):
    with sidecar(tmp_path / "data") as found:
        yield found


def kinds(found):
    return [each.kind for each in found]


def test_an_engine_that_moves_has_no_condition(told):
    for t in range(30):
        told.push(START_S + t, **QUIET | {"generation_tokens": 40}, engine_stalled=0)

    assert told.reader.conditions(START_S + 30) == []


def test_a_stalled_engine_with_its_load_and_the_last_that_moved(told):
    for t, values in hang():
        if t > 18:
            break
        told.push(START_S + t, **values)

    (found,) = told.reader.conditions(START_S + 18)

    assert found.kind is ConditionKind.STALLED
    assert dict(found.labels) == {"service": "chat", "replica": "vllm-3", "source": "page"}
    assert 8 <= found.since_s - START_S <= 13  # the last token came at 8, the gauge rose at 13
    assert (found.seen_at_s - START_S, found.running, found.waiting) == (18, 1, 0)
    assert not found.stale(START_S + 18)
    assert found.stale(START_S + 60)


@pytest.mark.parametrize("t", [21, 25, 31])
def test_a_stall_that_is_over_is_told_for_two_minutes_with_what_waits(told, t):
    for second, values in hang():
        if second > t:
            break
        told.push(START_S + second, **values)

    (found,) = told.reader.conditions(START_S + t)

    assert found.over
    assert found.over_at_s - START_S in (20, 21)
    assert found.waiting == {21: 23, 25: 0, 31: 0}[t]


def test_after_two_minutes_what_is_over_is_past(told):
    for t, values in hang():
        if t < 30:
            told.push(START_S + t, **values)
    for t in range(30, 160):
        told.push(START_S + t, **QUIET | {"generation_tokens": 1}, engine_stalled=0)

    assert told.reader.conditions(START_S + 160) == []


def test_a_gauge_that_falls_without_progress_ends_nothing(told):
    for t in range(30):
        told.push(START_S + t, **QUIET, engine_stalled=int(10 <= t < 20))

    (found,) = told.reader.conditions(START_S + 29)

    assert not found.over
    assert found.seen_at_s == START_S + 19


def test_an_engine_that_does_not_answer_says_why_and_since_when(told):
    for t in range(25):
        down = t >= 14
        told.push(START_S + t, up=int(not down), reason="refused" if down else "")

    (found,) = told.reader.conditions(START_S + 25)

    assert found.kind is ConditionKind.DOWN
    assert (found.since_s, found.seen_at_s) == (START_S + 13, START_S + 24)
    assert found.reason == "refused"


def test_an_engine_that_never_answered_is_down_since_the_first_that_we_know(told):
    for t in range(25):
        told.push(START_S + t, up=0, reason="timeout")

    (found,) = told.reader.conditions(START_S + 25)

    assert (found.kind, found.since_s) == (ConditionKind.DOWN, START_S)


def test_a_replica_of_which_nothing_is_heard_is_silent_and_not_down(told):
    for t in range(25):
        told.push(START_S + t, up=1)

    assert told.reader.conditions(START_S + 80) == []
    (found,) = told.reader.conditions(START_S + 100)
    assert (found.kind, found.since_s) == (ConditionKind.SILENT, START_S + 24)
    assert told.reader.conditions(START_S + 24 + 920) == []  # long gone: a rollout is no fault


def test_what_a_page_lost_and_what_it_cannot_mean_by_metric(told):
    told.push(START_S, up=1)
    told.push(START_S + 1, up=1, schema_drift=1, reason="ttft")
    told.push(START_S + 2, schema_drift=1, reason="queue")
    told.push(START_S + 3, suspect_families=1, reason="itl")
    told.push(START_S + 4, suspect_families=0, reason="e2e")

    found = told.reader.conditions(START_S + 5)

    assert [(each.kind, each.metrics) for each in found] == [
        (ConditionKind.DRIFT, ("queue", "ttft")),
        (ConditionKind.SUSPECT, ("itl",)),
    ]


def test_readings_that_never_arrived_are_told_with_the_reason(told):
    told.push(START_S, up=1)
    told.push(START_S + 1, up=1, exports_dropped=40, reason="spool_full")

    (found,) = told.reader.conditions(START_S + 5)

    assert (found.kind, found.metrics) == (ConditionKind.LOST, ("spool_full",))
    assert "were given up before they arrived: spool full" in sentence(found, at_s=START_S + 5)


def test_what_a_page_does_not_report(told):
    told.push(START_S, not_reported=1, reason="prefill")
    told.push(START_S, replica="b", not_reported=0, reason="prefill")

    told.push(START_S, replica="c", not_reported=1, reason="queue")
    told.push(START_S, replica="d", not_reported=1, reason="queue")

    found = told.reader.conditions(START_S + 1)

    assert {each.kind for each in found} == {ConditionKind.NOT_REPORTED}
    assert {(dict(each.labels).get("replica"), each.metrics) for each in found} == {
        ("vllm-3", ("prefill",)),
        (None, ("queue",)),  # two replicas that leave out the same
    }


def test_only_what_was_asked_for(told):
    told.push(START_S, up=0, not_reported=1, reason="prefill")
    told.push(START_S, service="code", up=0, reason="refused")

    only_down = told.reader.conditions(START_S + 1, kinds=[ConditionKind.DOWN])
    of_code = told.reader.conditions(START_S + 1, where=(("service", "code"),))

    assert kinds(only_down) == [ConditionKind.DOWN] * 2
    assert kinds(of_code) == [ConditionKind.DOWN]


def test_the_worst_comes_first(told):
    told.push(START_S, replica="a", not_reported=1, reason="prefill")
    told.push(START_S, replica="b", up=0, reason="refused")
    told.push(START_S, replica="c", **QUIET, engine_stalled=1)

    assert kinds(told.reader.conditions(START_S + 1)) == [
        ConditionKind.STALLED,
        ConditionKind.DOWN,
        ConditionKind.NOT_REPORTED,
    ]


@settings(max_examples=25)
@example(moves=[False] * 11 + [True, False])
@example(moves=[False] * 4 + [True] + [False] * 6 + [True, False])
@given(moves=st.lists(st.booleans(), min_size=8, max_size=60))
def test_whatever_an_engine_did_a_stall_is_told_exactly_while_it_stands_still(
    tmp_path_factory, moves
):
    """The law: told as holding exactly from the gauge's rise to the next progress."""
    still, expected, last_moved = None, [], 0
    with sidecar(tmp_path_factory.mktemp("stall")) as told:
        for t, moved in enumerate(moves):
            still = None if moved else t if still is None else still
            stalled = still is not None and t - still >= 5
            grown = int(moved)
            last_moved = t if moved else last_moved
            told.push(START_S + t, **QUIET | {"generation_tokens": grown}, engine_stalled=stalled)
            expected.append((stalled, last_moved))
        found = told.reader.conditions(START_S + len(moves) - 1, kinds=[ConditionKind.STALLED])
        holding = [each for each in found if not each.over]

    stalled, last_moved = expected[-1]
    assert bool(holding) == stalled
    for each in holding:
        assert last_moved <= each.since_s - START_S <= len(moves) - 1
        assert each.since_s - START_S <= last_moved + 10


def test_the_api_says_it_in_a_fixed_form(told):
    for t, values in hang():
        if t > 18:
            break
        told.push(START_S + t, **values)
    app = FastAPI()
    app.include_router(router(told.reader, now=lambda: START_S + 18))

    with TestClient(app) as client:
        answer = client.get("/api/v1/conditions").json()
        empty = client.get("/api/v1/conditions", params={"where": "service=code"}).json()
        wrong = client.get("/api/v1/conditions", params={"at": "yesterday"})

    TypeAdapter(ConditionsAnswer).validate_python(answer, strict=True)
    (found,) = answer["conditions"]
    assert (answer["at"], found["kind"]) == ("2026-11-29T10:00:18Z", "engine stalled")
    assert (found["running"], found["waiting"], found["stale"], found["over"]) == (
        1,
        0,
        False,
        None,
    )
    assert found["sentence"].startswith("vllm-3 of chat has stood still for at least ")
    assert found["next"].startswith("take the replica out of rotation")
    assert empty["conditions"] == []
    assert wrong.status_code == 400


def test_what_nobody_counted_is_null():
    condition = Condition(
        kind=ConditionKind.STALLED,
        labels=(("service", "chat"),),
        since_s=START_S,
        seen_at_s=START_S,
    )

    (found,) = conditions_answer(START_S, [condition])["conditions"]

    assert (found["running"], found["waiting"], found["over"]) == (None, None, None)
