"""PagerDuty: what is posted where, and how its answers are read, over real HTTP."""

import pytest

from alerts.receivers.attempt import Fate
from alerts.receivers.body import read
from alerts.receivers.pagerduty import PagerDuty, event
from alerts.receivers.settings import PagerDutySettings
from tests.alerts.receivers.listening import Listening
from tests.alerts.receivers.told import KEY, NOW_S, RECEIVERS, ROUTING_KEY, body

TAKEN = (202, {}, '{"status":"success","message":"Event processed","dedup_key":"x"}')


def send(service, text, **settings):
    pagerduty = PagerDuty(
        PagerDutySettings(
            name="pd",
            type="pagerduty",
            routing_key=ROUTING_KEY,
            url=service.url,
            **{"allow_private": True} | settings,
        )
    )
    try:
        return pagerduty.send(text, key=KEY, now_s=NOW_S)
    finally:
        pagerduty.close()


def test_an_alert_is_one_incident_from_trigger_to_resolve():
    with Listening(usual=TAKEN) as service:
        fates = [send(service, body(kind)).fate for kind in ("firing", "acknowledged", "resolved")]

    assert fates == [Fate.DELIVERED] * 3
    assert [post["path"] for post in service.posts] == ["/v2/enqueue"] * 3
    said = [post["json"] for post in service.posts]
    assert [each["event_action"] for each in said] == ["trigger", "acknowledge", "resolve"]
    assert len({each["dedup_key"] for each in said}) == 1
    assert {each["routing_key"] for each in said} == {ROUTING_KEY}


@pytest.mark.parametrize("kind", ["escalated", "renotified"])
def test_what_is_told_again_is_the_same_incident(kind):
    path, said = event(read(body(kind)), RECEIVERS["pagerduty"])

    assert (path, said["event_action"]) == ("/v2/enqueue", "trigger")
    assert said["dedup_key"] == read(body()).dedup_key


def test_a_note_pages_nobody():
    with Listening(usual=TAKEN) as service:
        send(service, body("note"))

    assert service.posts[0]["path"] == "/v2/change/enqueue"
    assert "event_action" not in service.said()


@pytest.mark.parametrize(
    ("changes", "settings", "severity"),
    [
        ({}, {}, "critical"),
        ({"severity": "ticket"}, {}, "warning"),
        ({"severity": "ticket"}, {"ticket_as": "info"}, "info"),
        ({"event": "test"}, {}, "info"),
    ],
)
def test_how_a_severity_is_called_there(changes, settings, severity):
    with Listening(usual=TAKEN) as service:
        send(service, body(**changes), **settings)

    assert service.said()["payload"]["severity"] == severity


@pytest.mark.parametrize(
    ("status", "fate"),
    [(202, Fate.DELIVERED), (400, Fate.REFUSED), (429, Fate.RETRY), (500, Fate.RETRY)],
)
def test_what_an_answer_means(status, fate):
    with Listening((status, {"Retry-After": "7"}, "")) as service:
        attempt = send(service, body())

    assert attempt.fate is fate
    assert attempt.retry_after_s == (7 if fate is Fate.RETRY else None)
    assert ROUTING_KEY not in attempt.detail


def test_a_private_target_is_refused_and_nothing_is_sent():
    with Listening() as service:
        attempt = send(service, body(), allow_private=False)

    assert attempt.fate is Fate.REFUSED
    assert "private" in attempt.detail
    assert not service.posts


@pytest.mark.parametrize(
    ("region", "host"), [("us", "events.pagerduty.com"), ("eu", "events.eu.pagerduty.com")]
)
def test_the_region_has_its_own_address(region, host):
    asked = []

    def nowhere(name, port):
        asked.append((name, port))
        raise OSError("no network in a test")

    settings = PagerDutySettings(
        name="pd", type="pagerduty", routing_key=ROUTING_KEY, region=region
    )
    attempt = PagerDuty(settings, nowhere).send(body(), key=KEY, now_s=NOW_S)

    assert asked == [(host, 443)]
    assert attempt.fate is Fate.RETRY


def test_what_is_too_large_is_told_without_its_details():
    lines = {f"{'n' * 60}{number}": "v" for number in range(10)}
    _, said = event(read(body(labels=lines)), RECEIVERS["pagerduty"])

    assert said["payload"]["custom_details"]["Labels"]
    assert said["payload"]["summary"].startswith("chat-ttft pages")
