"""The page of one promise: its burn-down, what was counted, its history, its evidence."""

import csv
import io

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.access import Access, Gate
from alerts.api import router
from alerts.reset import reset_budget
from alerts.reset_api import reset_router
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from domain.errors import InputError
from domain.slice import tally
from stagewatch.__main__ import main
from tests.alerts.fleet import START_S, Fleet, chat, minute, outage
from tests.alerts.test_evaluator import at, evaluator

HOUR_S = 3600
TEXT = "- {phrase: 'p99 ttft <= 1.5s over 2h', name: chat}"


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    yield engine
    engine.dispose()


def ticked(state, slices, ends, text=TEXT):
    alerts = evaluator(Fleet(slices), state, chat(text))
    if not SqlLedger(state).standings():
        alerts.tick(at(0, 11))
    for end in ends:
        alerts.tick(at(end, 11))
    return SqlLedger(state)


counted = st.lists(st.tuples(st.integers(0, 90), st.integers(0, 9)), min_size=5, max_size=200)


@settings(max_examples=10, deadline=None)
@given(counted)
def test_the_burn_down_ends_where_the_standing_is(parts):
    state = open_state("sqlite://")
    slices = [minute(index, good, good + bad) for index, (good, bad) in enumerate(parts)]
    end = len(slices) // 5 * 5
    ledger = ticked(state, slices, [end])

    points = ledger.burn_down("chat", at(0), at(end), 300).points
    budget = ledger.standing("chat").budget
    state.dispose()

    assert [each.at_s for each in points] == list(range(at(0), at(end) + 1, 300))
    if budget.remaining_low is None:
        assert points[-1].remaining_low is None
    else:
        assert points[-1].remaining_low == pytest.approx(float(budget.remaining_low))
        assert points[-1].remaining_high == pytest.approx(float(budget.remaining_high))


def test_a_rolling_burn_down_recovers_when_the_outage_leaves_the_period(state):
    ledger = ticked(state, outage(10, 5, after=300), [315])

    left = {
        (each.at_s - START_S) // 60: each.remaining_low
        for each in ledger.burn_down("chat", at(0), at(315), 300).points
    }

    assert left[10] == 1
    assert left[15] == pytest.approx(1 - 5 / (15 * 0.01))
    assert left[120] == pytest.approx(1 - 5 / (120 * 0.01))
    assert left[135] == 1


def test_a_reset_and_a_new_target_are_seams(state):
    slices = outage(10, 5, after=300)
    ticked(state, slices, [60])
    reset_budget(state, "chat", author="ada", reason="agreed", at_s=at(62, 30))
    ticked(state, slices, [90])
    tighter = "- {phrase: 'p99.5 ttft <= 1.5s over 2h', name: chat}"
    ledger = ticked(state, slices, [120], tighter)

    found = ledger.burn_down("chat", at(0), at(120), 300)

    left = {(each.at_s - START_S) // 60: each.remaining_low for each in found.points}
    assert [(each.kind, (each.at_s - START_S) // 60) for each in found.seams] == [
        ("reset", 63),
        ("revision", 90),
    ]
    assert found.seams[0].text == "ada: agreed"
    assert "p99 ttft <= 1.5s over 2h became p99.5 ttft <= 1.5s over 2h" in found.seams[1].text
    assert left[60] == pytest.approx(1 - 5 / (60 * 0.01))
    assert left[65] == 1


def test_a_new_day_is_a_seam_at_which_the_line_begins_anew(state):
    text = "- {phrase: 'p99 ttft <= 1.5s per calendar day in Asia/Kolkata', name: chat}"
    midnight_s = 1_772_389_800  # 18:30 UTC
    ledger = ticked(state, outage(600, 20, after=60), [680], text)

    found = ledger.burn_down("chat", midnight_s - 600, midnight_s + 600, 300)

    assert [(each.kind, each.at_s) for each in found.seams] == [("period", midnight_s)]
    left = [each.remaining_low for each in found.points]
    assert left[0] < 1
    assert left[2] is None
    assert left[3:] == [1, 1]


def test_counts_per_step_are_those_of_the_minutes(state):
    ledger = ticked(state, outage(60, 5, after=25), [90])

    found = ledger.event_counts("chat", at(0), at(90), 1800)

    minutes = ledger.slices("chat", at(0), at(90))
    assert [(each.bad_low, each.total, each.observed_minutes) for each in found] == [
        (0, 18_000, 30),
        (0, 18_000, 30),
        (3000, 18_000, 30),
    ]
    assert sum(each.total for each in found) == tally(minutes).total
    assert found[0].per_s == 10


def test_where_nobody_looked_there_is_no_rate(state):
    ledger = ticked(state, outage(10, 0), [30])

    watched, dark = ledger.event_counts("chat", at(0), at(20), 600)

    assert watched.per_s == 10
    assert (dark.per_s, dark.observed_minutes) == (None, 0)


def test_minutes_of_maintenance_are_told_and_counted_nowhere(state):
    text = (
        "- {phrase: 'p99 ttft <= 1.5s over 2h', name: chat, maintenance: "
        "[{name: patch, once: 2026-03-01T08:10:00Z, duration: 10min}]}"
    )
    ledger = ticked(state, outage(10, 10, after=10), [30], text)

    (found,) = ledger.event_counts("chat", at(0), at(30), 1800)

    assert (found.total, found.bad_low, found.maintenance_minutes) == (12_000, 0, 10)
    assert found.per_s == 10
    assert ledger.burn_down("chat", at(0), at(30), 300).points[-1].remaining_low == 1


@pytest.fixture
def api(state):
    ticked(state, outage(60, 15, after=60), range(70, 136, 1))
    app = FastAPI()
    app.include_router(router(SqlLedger(state)))
    app.include_router(reset_router(state, clock=lambda: at(136)))
    app.add_middleware(Gate, access=Access())
    with TestClient(app, base_url="http://localhost", client=("127.0.0.1", 1)) as client:
        yield client


def test_each_alert_keeps_the_minutes_that_decided_it(state, api):
    page = next(each for each in SqlLedger(state).alerts() if each.id.startswith("chat-page"))
    fired, ended = SqlLedger(state).evidence(page.id)
    rows = list(csv.DictReader(io.StringIO(api.get(f"/api/v1/alerts/{page.id}/slices.csv").text)))

    assert (fired.event, ended.event) == ("firing", "resolved")
    assert (fired.at_s, ended.at_s) == (page.started_at_s, page.resolved_at_s)
    assert len(fired.slices) == fired.long_s // 60
    assert [each.good_low for each in fired.slices if each.minute_at_s >= at(60)] == [0] * (
        (fired.at_s - at(60)) // 60
    )
    assert len(rows) == len(fired.slices) + len(ended.slices)
    assert sum(row["window"] == "both" for row in rows) == (fired.short_s + ended.short_s) // 60
    assert {row["state"] for row in rows} == {"good", "bad"}


def test_details_are_json_and_bounded(api):
    down = api.get("/api/v1/slos/chat/budget?span_s=7200&step_s=600").json()
    events = api.get("/api/v1/slos/chat/events?span_s=3600&step_s=1800").json()["events"]
    history = api.get("/api/v1/slos/chat/history").json()["history"]

    assert len(down["points"]) >= 12
    assert sum(each["total"] for each in events) >= 60 * 600
    assert {each["event"] for each in history} >= {"firing", "resolved"}
    assert api.get("/api/v1/slos/chat/budget?span_s=7776000&step_s=300").status_code == 422
    assert api.get("/api/v1/slos/none/budget").status_code == 404
    assert api.get("/api/v1/slos/none/history").status_code == 404
    assert api.get("/api/v1/alerts/none/slices.csv").status_code == 404


def reset(api, objective, **said):
    headers = {"X-Stagewatch-Request": "test"}
    return api.post(f"/api/v1/slos/{objective}/reset", json=said, headers=headers)


def test_a_reset_by_api_says_who_why_and_what_was_left(state, api):
    before = SqlLedger(state).standing("chat").budget.remaining_low

    answer = reset(api, "chat", reason="agreed with product", author="ada").json()

    assert (answer["author"], answer["reason"]) == ("ada", "agreed with product")
    assert answer["remaining_before"] == f"{float(before) * 100:.3g} %"
    assert [each.author for each in SqlLedger(state).history("chat") if each.event == "reset"] == [
        "ada"
    ]


def test_a_reset_wants_a_reason_and_an_objective_that_there_is(api):
    assert reset(api, "chat", reason=" ", author="ada").status_code == 422
    assert reset(api, "chat", author="ada").status_code == 422
    assert reset(api, "chat", reason="x" * 1001, author="ada").status_code == 422
    assert reset(api, "none", reason="agreed", author="ada").status_code == 404


@pytest.mark.parametrize("reason", ["", "two\nlines", "x" * 1001])
def test_a_reason_is_one_line(state, reason):
    ticked(state, outage(1, 0), [1])

    with pytest.raises(InputError, match="a reset wants the reason"):
        reset_budget(state, "chat", author="ada", reason=reason, at_s=at(1))


def test_a_reset_by_command_is_written_down(state, tmp_path, capsys):
    ticked(state, outage(10, 0), [10])
    command = ["slo", "reset", "chat", "--reason", "agreed", "--author", "ada"]

    done = main([*command, "--data-dir", str(tmp_path)])
    said = capsys.readouterr().out
    unknown = main(["slo", "reset", "none", *command[3:], "--data-dir", str(tmp_path)])

    assert (done, unknown) == (0, 1)
    assert said == "chat: the budget begins anew (100 % was left). agreed\n"
    assert "there is no objective 'none'" in capsys.readouterr().err
