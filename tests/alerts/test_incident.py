"""One incident per objective and tier, told once and untold once."""

import json

from alerts.incident import NO_DATA, Event, Tier, dedup_key, incidents_after
from alerts.state import QUIET, Alert, Status
from tests.alerts.fleet import chat

CHAT = chat()[0]
FIRING = Alert(status=Status.FIRING, since_s=60, last_true_s=60)
OVER = Alert(status=Status.RESOLVED, since_s=120, last_true_s=60)


def step(before, at_s=60, **alerts):
    named = {name.replace("_", "-"): alert for name, alert in alerts.items()}
    return incidents_after(CHAT, before, named, lambda _: None, at_s=at_s)


def told(changes):
    return [(each.incident.tier.value, each.event.value) for each in changes if each.tell]


def test_two_rules_of_one_tier_are_one_incident():
    opened, changes = step({}, page_quick=FIRING, page_slow=QUIET)
    still, more = step(opened, at_s=120, page_quick=FIRING, page_slow=FIRING)
    handed_on, none = step(still, at_s=180, page_quick=OVER, page_slow=FIRING)
    _, last = step(handed_on, at_s=240, page_quick=OVER, page_slow=OVER)

    assert told(changes) == [("page", "firing")]
    assert not more
    assert not none
    assert told(last) == [("page", "resolved")]


def test_a_page_inhibits_the_ticket_until_it_is_over():
    opened, changes = step({}, page_quick=FIRING, ticket_quick=FIRING)
    later, more = step(opened, at_s=120, page_quick=OVER, ticket_quick=FIRING)

    assert told(changes) == [("page", "firing")]
    assert opened[Tier.TICKET].inhibited
    assert told(more) == [("page", "resolved"), ("ticket", "firing")]
    assert later[Tier.TICKET].started_at_s == 60


def test_a_ticket_that_was_told_is_untold_even_while_a_page_inhibits_it():
    opened, _ = step({}, ticket_quick=FIRING)
    _, changes = step(opened, at_s=120, page_quick=FIRING, ticket_quick=OVER)

    assert told(changes) == [("page", "firing"), ("ticket", "resolved")]


def test_a_ticket_that_nobody_heard_of_ends_without_a_word():
    opened, _ = step({}, page_quick=FIRING, ticket_quick=FIRING)
    _, changes = step(opened, at_s=120, page_quick=FIRING, ticket_quick=OVER)

    assert [each.event for each in changes] == [Event.RESOLVED]
    assert not told(changes)


def test_no_data_is_an_incident_of_its_own():
    stale = Alert(status=Status.FIRING, since_s=60, last_true_s=60, stale=True)
    opened, changes = step({}, page_quick=stale, **{NO_DATA: FIRING})

    assert told(changes) == [("page", "firing"), ("no-data", "firing")]
    assert opened[Tier.PAGE].stale


def test_the_key_is_made_of_identity_alone():
    tighter = chat("- {phrase: 'p99.9 ttft <= 1s over 7d', name: chat}")[0]
    elsewhere = chat("- {phrase: 'p99 ttft <= 1.5s where region=eu', name: chat}")[0]

    assert dedup_key(CHAT, Tier.PAGE) == dedup_key(tighter, Tier.PAGE)
    assert dedup_key(CHAT, Tier.PAGE) != dedup_key(CHAT, Tier.TICKET)
    assert dedup_key(CHAT, Tier.PAGE) != dedup_key(elsewhere, Tier.PAGE)


def test_the_id_is_the_same_after_every_restart():
    first, _ = step({}, page_quick=FIRING)
    again, _ = step({}, page_quick=FIRING)

    assert first[Tier.PAGE].id == again[Tier.PAGE].id == "chat-page-60"
    assert json.dumps(first[Tier.PAGE].key)
