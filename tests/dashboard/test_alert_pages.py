"""The pages of alerts, silences and promises, drawn from a state that has judged a night."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from dash import html
from hypothesis import given
from hypothesis import strategies as st

from alerts.blame import Blame, Place
from alerts.detail import BudgetPoint, BurnDown, Seam
from alerts.ledger import AlertRecord, Budget
from alerts.silence import Silences
from dashboard import alert, alert_list, budget_charts, fleet, objective, silence_list
from dashboard.alert_places import span_of
from dashboard.alert_words import view_of, view_of_objective
from dashboard.budget_words import burn_text, forecast_text
from dashboard.causes import cause_list, causes_of
from dashboard.url import ALERTS, SILENCES, View
from dashboard.viewer import Viewer
from domain.objective import Severity
from domain.request import Stage
from tests.dashboard.incidents import HOSTILE, NOW_S, bad_night, quiet_night
from tests.dashboard.reading import attributes, find_all, text

HOUR_S = 3600
FIRED = AlertRecord(
    id="chat-page-1",
    objective_id="chat",
    objective_name="chat",
    severity=Severity.PAGE,
    kind="burn",
    dedup_key="k",
    started_at_s=NOW_S,
    resolved_at_s=None,
    stale=False,
    inhibited=False,
    flaps=1,
    message="chat pages.",
    why=["last 1 h"],
    blame=None,
)


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    found = bad_night(tmp_path_factory.mktemp("night"))
    found.silence("objective=search-ttft")
    found.acknowledge(found.alert("batch-e2e", "ticket"), note="looking at prefill")
    found.look(NOW_S + 60)
    return found


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    return quiet_night(tmp_path_factory.mktemp("quiet"))


@pytest.fixture
def viewer():
    return Viewer(now_s=NOW_S + 77)


def drawn(page, incidents, view, viewer):
    content = page.content(incidents.reader, incidents.ledger, view, viewer)
    return content, page.page(view, content)


def region(content, name):
    return " ".join(text(content.regions[name]).split())


def rows(component):
    """The text of each row beneath the heads."""
    return [
        " ".join(text(row).split())
        for body in find_all(component, html.Tbody)
        for row in find_all(body, html.Tr)
    ]


def addresses(component):
    return [each for each in attributes(component, "href") if each != "#main"]


# ---- the list


def test_open_alerts_stand_worst_first_and_what_stands_behind_a_page_has_no_row(night, viewer):
    content, _ = drawn(alert_list, night, View(alone=ALERTS), viewer)
    told = rows(content.regions["open"])

    assert [next(sign for sign in "▲◆○" if sign in each) for each in told] == list("▲▲▲◆")
    assert "chat-ttft ▲ page" in told[1]
    assert "Also: ticket ticket on the budget" in told[1]
    assert "queue" in told[1]
    assert "all 4 replicas alike" in told[1]
    assert "until 13:10" in told[0]
    assert "no data" in told[0]
    assert "ada" in told[3]


def test_the_headline_counts_what_somebody_has_to_do(night, viewer):
    content, _ = drawn(alert_list, night, View(alone=ALERTS), viewer)

    assert region(content, "state") == "▲ 3 pages ◆ 1 ticket 3 not acknowledged"
    assert content.title.startswith("▲")


@pytest.mark.parametrize(
    ("view", "shown"),
    [
        (View(alone=ALERTS, find="BATCH"), 1),
        (View(alone=ALERTS, find="queue"), 1),
        (View(alone=ALERTS, kind="no-data"), 1),
        (View(alone=ALERTS, kind="nonsense"), 0),
        (View(alone=ALERTS, find="not in any word"), 0),
    ],
)
def test_the_list_is_narrowed_by_its_address(night, viewer, view, shown):
    content, _ = drawn(alert_list, night, view, viewer)

    assert len(rows(content.regions["open"])) == shown
    if not shown:
        assert "Show all" in region(content, "open")


def test_without_any_alert_the_list_says_what_to_do_next(quiet, viewer):
    content, _ = drawn(alert_list, quiet, View(alone=ALERTS), viewer)

    assert region(content, "state") == "● Nothing is open."
    assert "Nobody needs to get up" in region(content, "open")
    assert "test-receiver" in region(content, "open")
    assert "None has ended yet." in region(content, "over")


def test_narrowed_to_one_kind_each_alert_has_its_row(night, viewer):
    content, _ = drawn(alert_list, night, View(alone=ALERTS, kind="ticket"), viewer)
    tickets = [each for each in night.ledger.alerts() if each.open and each.severity == "ticket"]

    assert len(rows(content.regions["open"])) == len(tickets) > 3


# ---- one alert


def test_the_alert_page_says_the_same_sentence_as_the_notification(night, viewer):
    told = night.alert("chat-ttft")
    content, _ = drawn(alert, night, view_of(told.id), viewer)

    # the next step is told once, beside the cause it belongs to
    assert region(content, "state") == told.message.replace(f" Next: {told.blame.next_step}.", "")
    assert content.title == "▲ chat-ttft"


def test_why_it_fired_holds_both_windows_against_the_limit_then_and_now(night, viewer):
    told = night.alert("chat-ttft")
    content, _ = drawn(alert, night, view_of(told.id), viewer)
    (fired,) = night.ledger.evidence(told.id)
    long, short = rows(content.regions["why"])

    assert long.startswith(f"last {fired.long_s // HOUR_S} h ")
    assert short.startswith(f"last {fired.short_s // 60} min ")
    assert long.count("above") == short.count("above") == 2
    bad = sum(each.total - each.good_high for each in fired.slices)
    assert f"{bad}–" in long
    assert fired.rule in region(content, "why")


def test_where_names_the_stage_the_causes_with_their_numbers_and_the_next_step(night, viewer):
    content, _ = drawn(alert, night, view_of(night.alert("chat-ttft").id), viewer)
    causes = region(content, "causes")

    assert causes.startswith("Prefill is short of capacity (A3a, low confidence) Where stage queue")
    assert "For P99 queue 7" in causes
    assert "Not known vllm:num_requests_waiting by replica" in causes
    assert "Next Add prefill replicas" in causes
    assert "could not be judged, which is not the same as fine" in causes
    assert "E3: signal vllm:prefix_cache_hits_total absent" in causes
    assert region(content, "likely").startswith("Likely cause: prefill is short of capacity")
    assert "Next:" not in region(content, "state")
    assert "queue" in next(each for each in rows(content.regions["stages"]) if " s " in each)
    assert len(rows(content.regions["places"])) == 4


def test_doubt_comes_before_what_is_sure(night, viewer):
    content, _ = drawn(alert, night, view_of(night.alert("batch-e2e", "ticket").id), viewer)
    sure = region(content, "sure")

    assert sure.index("doubt") < sure.index("sure")
    assert "of 1440 minutes of the last 24 h were observed when it fired." in sure
    assert "The limit lies between two edges of the source, 5 s and 10 s" in sure
    assert "Not measured: network" in sure
    assert "3 of 3 replicas of batch were heard now." in sure


@given(st.integers(0, 10 * HOUR_S), st.none() | st.integers(0, 10 * HOUR_S))
def test_what_is_asked_of_the_store_never_lies_ahead(age_s, lasted_s):
    started_s = NOW_S - age_s
    ended_s = None if lasted_s is None else min(started_s + lasted_s, NOW_S)
    told = replace(FIRED, started_at_s=started_s, resolved_at_s=ended_s)

    window = span_of(told, Viewer(now_s=NOW_S))

    assert window.until_s <= (NOW_S if ended_s is None else ended_s)
    assert window.until_s - window.since_s >= 900


def test_the_history_shows_the_minutes_that_decided_and_offers_them_as_csv(night, viewer):
    told = night.alert("chat-ttft")
    content, _ = drawn(alert, night, view_of(told.id), viewer)
    minutes = content.regions["minutes"]

    assert "Fired  at  11:53" in text(minutes)
    assert f"/api/v1/alerts/{told.id}/slices.csv" in addresses(minutes)
    assert "firing Stagewatch chat-ttft pages since" in region(content, "history")


def test_whoever_may_act_finds_buttons_and_whoever_may_not_finds_none(night, viewer):
    view = view_of(night.alert("chat-ttft").id)
    acting, _ = drawn(alert, night, view, viewer)
    looking, _ = drawn(alert, night, view, replace(viewer, may_act=False))

    assert "Acknowledge Silence for 1 h Open the runbook Copy link" in region(acting, "acts")
    assert "Acknowledge" not in region(looking, "acts")
    assert "Open the runbook" in region(looking, "acts")


def test_who_has_it_stands_above_the_buttons(night, viewer):
    content, _ = drawn(alert, night, view_of(night.alert("batch-e2e", "ticket").id), viewer)

    assert region(content, "taken") == "ada has it since 12:10 : looking at prefill"
    assert "Let go of it" in region(content, "acts")


def test_an_alert_whose_promise_names_no_runbook_links_to_ours_by_what_it_is(night, viewer):
    told = night.alert("batch-e2e", "ticket")
    ours = [
        link
        for link in addresses(drawn(alert, night, view_of(told.id), viewer)[0].regions["acts"])
        if "/runbook#" in link
    ]

    assert ours == ["/runbook#ticket"]


def test_a_runbook_that_is_no_web_address_is_no_link(night, viewer):
    told = next(each for each in night.ledger.alerts() if each.id.startswith("img"))
    content, whole = drawn(alert, night, view_of(told.id), viewer)

    assert not any(each.startswith("javascript:") for each in addresses(whole))
    assert "javascript:alert(1)" in region(content, "acts")


def test_a_page_without_data_says_that_it_rests_on_no_windows(night, viewer):
    content, _ = drawn(alert, night, view_of(night.alert("search-ttft", "no-data").id), viewer)

    assert "no data" in region(content, "name")
    assert "The newest minute that somebody saw ended 25 min ago." in region(content, "sure")
    assert content.regions["causes"] is None
    assert "No stage of a request explains it" in region(content, "stages")


def test_a_link_to_an_alert_that_nobody_knows_says_so(night, viewer):
    content, whole = drawn(alert, night, view_of("nothing"), viewer)

    assert "There is no such alert" in text(whole)
    assert content.title == "? no such alert"


def test_one_replica_that_stands_out_speaks_for_the_cause():
    place = Place(labels=(("replica", "b"),), mean_s=6.0, median_s=0.2, replicas=3)
    blame = Blame(stage=Stage.QUEUE, now_s=2.0, before_s=0.1, share=0.9, place=place)
    (cause,) = causes_of(blame)

    assert "worst: b, 6 s against 200 ms, the median replica" in cause.speaks_for
    assert cause.speaks_against == []


def test_an_engine_that_stood_still_comes_before_any_stage_and_three_are_enough():
    blame = Blame(stage=Stage.QUEUE, now_s=2.0, behind=("a stood still.", "b did.", "c did."))

    assert [each.title for each in causes_of(blame)] == ["a stood still.", "b did.", "c did."]
    assert cause_list([]) is None


# ---- silences


@pytest.fixture
def silenced(tmp_path):
    found = quiet_night(tmp_path)
    found.silence("objective=chat", reason=HOSTILE)
    found.silence("service=code", begins_s=HOUR_S, reason="rollout")
    ended = found.silence("severity=ticket", reason="noise")
    Silences(found.state).end(ended.id, by="grace", at_s=NOW_S)
    return found


def test_silences_stand_by_what_they_are_now(silenced, viewer):
    content, whole = drawn(silence_list, silenced, View(alone=SILENCES), viewer)

    assert region(content, "state") == "○ 1 silence is active. It ends in 58 min. 1 to come."
    assert "objective=chat" in region(content, "active")
    assert "service=code" in region(content, "coming")
    assert "ended by grace" in region(content, "expired")
    assert text(whole).count("End now") == 2


def test_the_form_of_a_silence_opens_with_what_the_link_asks_for(silenced, viewer):
    view = View.from_link("/silences", "match=objective%3Dchat&match=severity%3Dpage")
    content, _ = drawn(silence_list, silenced, view, viewer)

    assert "objective=chat severity=page" in region(content, "form")
    assert View.from_link(*view.link().split("?")) == view


def test_whoever_may_not_act_gets_no_form(silenced, viewer):
    reader = replace(viewer, may_act=False)
    content, whole = drawn(silence_list, silenced, View(alone=SILENCES), reader)

    assert "End now" not in text(whole)
    assert region(content, "form") == "Only responders silence; you may look."


def test_without_silences_the_page_says_what_one_does(quiet, viewer):
    content, _ = drawn(silence_list, quiet, View(alone=SILENCES), viewer)

    assert region(content, "state") == "● Nothing is silenced."
    assert "Everybody is told of everything" in region(content, "active")


# ---- one promise


def test_a_promise_says_itself_its_budget_and_its_rules(night, viewer):
    content, whole = drawn(objective, night, view_of_objective("chat-ttft"), viewer)
    rules = rows(content.regions["rules"])

    assert "p99 ttft <= 1.5s over 30d where service=chat" in region(content, "promise")
    assert region(content, "facts").startswith("Budget left −1 8")
    assert [each.split()[1] for each in rules] == [
        "page-quick",
        "page-slow",
        "ticket-quick",
        "ticket-slow",
    ]
    assert "14.4 ×" in rules[0]
    assert "▲ page" in region(content, "alerts")
    assert "Open the runbook" in text(whole)


def test_resets_and_maintenance_are_seen_in_charts_and_history(night, viewer):
    content, _ = drawn(objective, night, view_of_objective("code-ttft", span_s=2 * HOUR_S), viewer)
    named = [each["text"] for each in content.charts["budget"]["layout"]["annotations"]]
    shaded = [each for each in content.charts["events"]["layout"]["shapes"] if "fillcolor" in each]

    assert "reset" in named
    assert [each["type"] for each in shaded] == ["rect"]
    assert "reset ada The budget begins anew: a new model" in region(content, "history")
    assert "maintenance" in region(content, "history")
    assert "Counts since 12:01 10 min of 30 d" in region(content, "facts")


def test_bounds_are_boxes_above_the_line_of_what_is_surely_left(night, viewer):
    content, _ = drawn(objective, night, view_of_objective("batch-e2e"), viewer)
    names = [each["name"] for each in content.charts["budget"]["data"] if "name" in each]

    assert {"surely left", "possibly (range)"} <= set(names)
    assert "5 s and 10 s" in region(content, "promise")


def test_a_promise_made_of_others_shows_its_parts(night, viewer):
    content, whole = drawn(objective, night, view_of_objective("both"), viewer)

    assert region(content, "state").startswith("Good in all 2 parts: ")
    assert "chat-ttft" in text(whole)
    assert "code-ttft" in text(whole)


def test_a_link_to_a_promise_that_nobody_made_says_so(night, viewer):
    _, whole = drawn(objective, night, view_of_objective("nothing"), viewer)

    assert "There is no such promise" in text(whole)


def test_a_promise_that_nobody_has_asked_anything_of_has_no_numbers(quiet, viewer):
    content, _ = drawn(objective, quiet, view_of_objective("chat-ttft"), viewer)

    assert "no traffic yet" in region(content, "facts")
    assert "It has never alerted." in region(content, "alerts")


def test_the_fleet_leads_to_promises_and_to_their_alerts(night, viewer):
    _, whole = drawn(fleet, night, View(), viewer)
    found = addresses(whole)

    assert "/objectives/chat-ttft" in found
    assert f"/alerts/{night.alert('chat-ttft').id}" in found
    assert "/service/chat" in found


# ---- words and lines

shares = st.none() | st.floats(-50, 1)


@given(st.lists(st.tuples(shares, st.floats(0, 2)), max_size=30), st.sets(st.integers(0, 30)))
def test_a_burn_down_is_never_drawn_across_a_seam_nor_above_what_is_possible(points, cuts):
    found = BurnDown(
        points=[
            BudgetPoint(
                at_s=index * 300,
                remaining_low=low,
                remaining_high=None if low is None else low + more,
            )
            for index, (low, more) in enumerate(points)
        ],
        seams=[Seam(at_s=cut * 300, kind="reset", text="") for cut in cuts],
    )

    line, boxes = budget_charts._remaining(found, 300, Viewer(now_s=0))

    drawn_at = dict(zip(line.at_ms[~np.isnan(line.value)] / 1000, line.value[~np.isnan(line.value)], strict=True))  # fmt: skip
    known = {p.at_s: p.remaining_low * 100 for p in found.points if p.remaining_low is not None}
    assert drawn_at == pytest.approx(known)
    gaps = {at for at, value in zip(line.at_ms / 1000, line.value, strict=True) if np.isnan(value)}
    assert {cut * 300.0 for cut in cuts} <= gaps
    for box in boxes:
        assert not (box.high < box.low).any()


@given(st.fractions(0, 100), st.fractions(0, 100))
def test_a_burn_says_one_number_only_where_both_ends_read_the_same(first, more):
    said = burn_text((first, first + more))

    assert said.endswith(" ×")
    assert ("–" in said) == (f"{float(first):.3g}" != f"{float(first + more):.3g}")


def test_a_forecast_is_told_from_both_ends(night):
    standing = night.ledger.standing("code-ttft")
    half = Budget(
        allowed=Fraction(10),
        spent_low=2,
        spent_high=5,
        total=1000,
        period_s=864_000,
        counted_since_s=0,
    )
    hour = replace(standing.last_hour, total=100, good_low=90, good_high=95)
    burning = replace(standing, budget=half, last_hour=hour)

    assert forecast_text(replace(standing, budget=half)).startswith("it lasts")
    assert forecast_text(burning) == "gone in 12 h to 38 h"
    assert forecast_text(replace(burning, budget=replace(half, spent_low=11, spent_high=12))) == (
        "spent"
    )
