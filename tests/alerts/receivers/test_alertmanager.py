"""Alertmanager's API v2, against a real Alertmanager."""

import json
import time
from datetime import UTC, datetime

import pytest

from alerts.receivers.attempt import Fate
from alerts.receivers.body import read
from alerts.receivers.prometheus import Alertmanager, alert
from alerts.receivers.settings import AlertmanagerSettings
from tests.alerts.receivers.alertmanager_process import BINARY, AlertmanagerProcess
from tests.alerts.receivers.listening import Listening
from tests.alerts.receivers.told import HOSTILE, KEY, NOW_S, RECEIVERS, body, hostile

real = pytest.mark.skipif(BINARY is None, reason="prometheus-alertmanager is not installed")


def moment(at_s):
    return datetime.fromtimestamp(at_s, UTC).isoformat()


def sent(service, text, receipt="", now_s=None, **settings):
    chosen = {"url": service.url, "allow_private": True} | settings
    receiver = Alertmanager(AlertmanagerSettings(name="am", type="alertmanager", **chosen))
    try:
        at_s = time.time() if now_s is None else now_s
        return receiver.send(text, key=KEY, now_s=at_s, receipt=receipt)
    finally:
        receiver.close()


def said(kind="firing", now_s=NOW_S, **changes):
    return alert(read(body(kind, **changes)), RECEIVERS["alertmanager"], now_s=now_s)


def instant_s(text):
    return datetime.fromisoformat(text).timestamp()


@real
def test_a_real_alertmanager_fires_resolves_and_takes_all_that_is_hostile(tmp_path):
    began_s = time.time() - 120
    firing = body(started_at=moment(began_s))
    with Listening() as listener, AlertmanagerProcess(tmp_path, listener.url) as service:
        first = sent(service, firing)
        again = sent(service, firing, receipt=first.receipt)
        _until(lambda: len(listener.posts) == 1)
        held = service.alerts()
        over = body("resolved", started_at=moment(began_s), resolved_at=moment(time.time() + 2))
        last = sent(service, over, receipt=first.receipt)
        _until(lambda: len(listener.posts) == 2)
        left = service.alerts()
        taken = [sent(service, hostile(text)).detail for text in HOSTILE.values()]

    assert [each.fate for each in (first, again, last)] == [Fate.DELIVERED] * 3
    assert [each["labels"]["alertname"] for each in held] == ["chat-ttft"]
    assert [post["json"]["status"] for post in listener.posts[:2]] == ["firing", "resolved"]
    assert not left
    assert taken == ["HTTP 200"] * len(HOSTILE)


def _until(holds, patience_s=15.0):
    until_s = time.monotonic() + patience_s
    while not holds() and time.monotonic() < until_s:
        time.sleep(0.05)
    assert holds()


def test_an_end_lies_in_the_past_even_where_our_clock_runs_ahead():
    over = said("resolved", resolved_at=moment(NOW_S + 2))

    assert instant_s(over["endsAt"]) <= NOW_S - 60
    assert instant_s(over["endsAt"]) >= instant_s(over["startsAt"])


def test_what_began_ahead_of_us_begins_now_and_does_not_end_before_it():
    over = said("resolved", started_at=moment(NOW_S + 120), resolved_at=moment(NOW_S + 130))

    assert instant_s(over["startsAt"]) == instant_s(over["endsAt"]) == NOW_S


def test_what_fires_ends_long_after_it_will_be_posted_again():
    settings = RECEIVERS["alertmanager"]
    firing = said()

    assert instant_s(firing["endsAt"]) - NOW_S == settings.ends_after_s
    assert settings.ends_after_s >= 4 * settings.again_every_s


@pytest.mark.parametrize("kind", ["note", "test"])
def test_a_note_ends_by_itself(kind):
    assert instant_s(said(kind)["endsAt"]) - NOW_S == 300


def test_no_value_stands_in_a_label():
    firing, over = said(), said("resolved", labels={"team": "inference", "use_case": "chat"})

    assert firing["labels"] == over["labels"]
    assert firing["labels"]["cluster"] == "eu-1"
    assert "151" not in json.dumps(firing["labels"])


def test_an_alert_ends_under_the_labels_that_it_began_with():
    with Listening() as service:
        first = sent(service, body(), now_s=NOW_S)
        sent(service, body("resolved", labels={"team": "another"}), first.receipt, now_s=NOW_S)

    began, ended = (service.said(place)[0]["labels"] for place in range(2))
    assert began == ended
    assert began["team"] == "inference"


def test_a_label_cannot_take_the_place_of_ours():
    firing = said(labels={"severity": "none", "Alert Name": "x", "9lives": "y"})

    assert firing["labels"]["severity"] == "page"
    assert firing["labels"]["alert_name"] == "x"
    assert firing["labels"]["_9lives"] == "y"


def test_an_acknowledgement_is_not_posted_at_all():
    with Listening() as service:
        assert sent(service, body("acknowledged"), now_s=NOW_S).fate is Fate.DELIVERED

    assert not service.posts


def test_a_base_url_with_a_path_and_headers_are_kept():
    with Listening() as service:
        url = f"{service.url}/am/"
        sent(service, body(), now_s=NOW_S, url=url, headers={"Authorization": "Bearer s3cret"})

    assert service.posts[0]["path"] == "/am/api/v2/alerts"
    assert service.posts[0]["headers"]["Authorization"] == "Bearer s3cret"
