"""Whoever is told is told where it stands what to do."""

import json

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.evaluator import Evaluator
from alerts.prometheus_rules import export
from alerts.runbook import ENTRIES, address, anchor_of, rule_entries
from alerts.settings import AlertsSettings
from alerts.tables import OutboxRow, open_state
from tests.alerts.fleet import Fleet, chat, outage
from tests.alerts.test_evaluator import RECEIVER, at
from tests.alerts.test_prometheus_rules import SIDECAR, rules_of

PAGES_URL = "https://stagewatch.example/watch"
PROMISE = "p99 ttft <= 1.5s over 30d"


def told(promises):
    """The runbooks of what a receiver hears during an outage, by tier."""
    state = open_state("sqlite://")
    settings = AlertsSettings(receivers=(RECEIVER,), public_url=f"{PAGES_URL}/")
    evaluator = Evaluator(Fleet(outage(60, 20, after=10)), chat(promises), state, settings=settings)
    for minute in range(60, 84):
        evaluator.tick(at(minute, 11))
    with Session(state) as session:
        bodies = [json.loads(row.body) for row in session.scalars(select(OutboxRow))]
    state.dispose()
    return {body["tier"]: body["links"]["runbook"] for body in bodies}


def test_a_promise_without_a_runbook_links_to_ours_by_what_it_is():
    links = told(f"- {{phrase: {PROMISE}, name: chat}}")

    assert links["page"] == f"{PAGES_URL}/runbook#page"
    assert all(link == f"{PAGES_URL}/runbook#{tier}" for tier, link in links.items())


def test_a_runbook_of_ones_own_goes_first():
    links = told(f"- {{phrase: {PROMISE}, name: chat, runbook: 'https://wiki.example/chat'}}")

    assert set(links.values()) == {"https://wiki.example/chat"}
    assert "page" in links


def annotated(promise, **named):
    exported = export(chat(f"- {promise}"), SIDECAR, **named)
    return {
        rule["alert"]: rule["annotations"].get("runbook_url")
        for rule in rules_of(exported)
        if "alert" in rule
    }


def test_exported_rules_link_to_ours_where_they_are_told_where_the_pages_are():
    assert annotated(PROMISE, pages_url=PAGES_URL) == {
        "SloTtftPage": f"{PAGES_URL}/runbook#page",
        "SloTtftTicket": f"{PAGES_URL}/runbook#ticket",
        "SloTtftNoData": f"{PAGES_URL}/runbook#no-data",
    }
    assert set(annotated(PROMISE).values()) == {None}


def test_a_runbook_of_ones_own_goes_first_in_rules_too():
    promise = f"{{phrase: {PROMISE}, runbook: 'https://wiki.example/chat'}}"

    assert set(annotated(promise, pages_url=PAGES_URL).values()) == {"https://wiki.example/chat"}


@pytest.mark.parametrize(
    ("tier", "about", "anchor"),
    [
        ("page", "chat-ttft", "page"),
        ("budget-0", "engine-stalled", "budget-0"),  # a promise may be called anything
        ("condition", "engine-stalled-chat-vllm-3-0f0f0f0f", "engine-stalled"),
        ("condition", "target-down-chat-vllm-3-0f0f0f0f", "target-down"),
        ("receiver", "", "receiver"),
    ],
)
def test_an_anchor_follows_from_what_an_alert_is(tier, about, anchor):
    assert anchor_of(tier, about) == anchor
    assert anchor in {entry.anchor for entry in ENTRIES}


def test_an_address_has_one_slash():
    assert address("https://a.example/", "page") == address("https://a.example", "page")
    assert address("", "page") == "/runbook#page"


def test_every_entry_says_something_to_do_and_no_anchor_is_there_twice():
    entries = [*ENTRIES, *(entry for _, entry in rule_entries())]

    assert all(entry.steps and entry.means.endswith((".", "…")) for entry in entries)
    assert len({entry.anchor for entry in entries}) == len(entries)
