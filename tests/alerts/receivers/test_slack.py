"""Slack: a webhook, and a bot that keeps to one message, over real HTTP."""

import json

import pytest

from alerts.receivers.attempt import Fate
from alerts.receivers.settings import SlackSettings
from alerts.receivers.slack import Slack
from tests.alerts.receivers.listening import Listening
from tests.alerts.receivers.told import KEY, NOW_S, body

TOKEN = "xoxb-1-s3cret"  # noqa: S105 - an invented one
POSTED = (200, {}, json.dumps({"ok": True, "channel": "C0AB", "ts": "1772366940.000100"}))


def hook(service, text, **settings):
    chosen = {"url": f"{service.url}/services/T/B/s3cret", "allow_private": True} | settings
    return _said(Slack(SlackSettings(name="chat", type="slack", **chosen)), text)


def bot(service, text, receipt="", **settings):
    chosen = {"bot_token": TOKEN, "channel": "C0AB", "api_url": f"{service.url}/api"} | settings
    slack = Slack(SlackSettings(name="chat", type="slack", allow_private=True, **chosen))
    return _said(slack, text, receipt)


def _said(slack, text, receipt=""):
    try:
        return slack.send(text, key=KEY, now_s=NOW_S, receipt=receipt)
    finally:
        slack.close()


def test_a_webhook_gets_blocks_and_a_text_for_the_phone():
    with Listening() as service:
        attempt = hook(service, body())

    assert attempt.fate is Fate.DELIVERED
    assert service.said()["text"].startswith("▲ Page: chat-ttft, queue on decode-3.")
    assert [each["type"] for each in service.said()["blocks"]] == [
        *("header", "section", "section", "actions")
    ]


@pytest.mark.parametrize(
    ("kind", "changes", "called"),
    [
        ("firing", {}, True),
        ("escalated", {}, True),
        ("firing", {"severity": "ticket"}, False),
        ("resolved", {}, False),
        ("acknowledged", {}, False),
    ],
)
def test_only_a_page_that_is_loud_calls_anybody(kind, changes, called):
    with Listening() as service:
        hook(service, body(kind, **changes), mention="<!here>")

    assert service.said()["text"].startswith("<!here> ") is called


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_webhook_that_is_busy_is_tried_when_it_asks_to_be(status):
    with Listening((status, {"Retry-After": "30"}, "rate_limited")) as service:
        attempt = hook(service, body())

    assert (attempt.fate, attempt.retry_after_s) == (Fate.RETRY, 30)


@pytest.mark.parametrize(
    ("status", "text"), [(400, "invalid_payload"), (410, "channel_is_archived")]
)
def test_a_webhook_that_says_no_is_not_asked_again(status, text):
    with Listening((status, {}, text)) as service:
        assert hook(service, body()).fate is Fate.REFUSED


def test_a_bot_changes_its_message_when_all_is_over_and_says_so_below_it():
    with Listening(usual=POSTED) as service:
        first = bot(service, body("firing"))
        last = bot(service, body("resolved"), receipt=first.receipt)

    assert first.receipt == last.receipt == "C0AB:1772366940.000100"
    assert [post["path"] for post in service.posts] == [
        *("/api/chat.postMessage", "/api/chat.update", "/api/chat.postMessage")
    ]
    changed, reply = service.said(1), service.said(2)
    assert (changed["channel"], changed["ts"]) == ("C0AB", "1772366940.000100")
    assert changed["text"].startswith("✓ Resolved: chat-ttft")
    assert (reply["thread_ts"], reply["reply_broadcast"]) == ("1772366940.000100", False)
    assert service.posts[0]["headers"]["Authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(("kind", "loud"), [("escalated", True), ("acknowledged", False)])
def test_what_happens_meanwhile_stands_in_the_thread(kind, loud):
    with Listening(usual=POSTED) as service:
        bot(service, body(kind), receipt="C0AB:1.5")

    assert [post["path"] for post in service.posts] == ["/api/chat.postMessage"]
    assert (service.said()["thread_ts"], service.said()["reply_broadcast"]) == ("1.5", loud)


def test_a_change_that_fails_is_tried_again_before_anything_is_said_below():
    with Listening((429, {"Retry-After": "3"}, "")) as service:
        attempt = bot(service, body("resolved"), receipt="C0AB:1.5")

    assert (attempt.fate, attempt.retry_after_s) == (Fate.RETRY, 3)
    assert len(service.posts) == 1


@pytest.mark.parametrize(
    ("answer", "fate"),
    [
        ('{"ok": false, "error": "channel_not_found"}', Fate.REFUSED),
        ('{"ok": false, "error": "ratelimited"}', Fate.RETRY),
        ('{"ok": false, "error": "not_in_channel"}', Fate.RETRY),
        ('{"ok": false, "error": "<b>xoxb-1-s3cret"}', Fate.REFUSED),
        ("<html>proxy</html>", Fate.RETRY),
        ("[]", Fate.RETRY),
        ("", Fate.RETRY),
    ],
)
def test_two_hundred_is_not_yet_a_yes(answer, fate):
    with Listening((200, {}, answer)) as service:
        attempt = bot(service, body())

    assert attempt.fate is fate
    assert "s3cret" not in attempt.detail


def test_a_receipt_that_is_none_is_not_used():
    with Listening(usual=POSTED) as service:
        bot(service, body("resolved"), receipt="../../x:1")

    assert [post["path"] for post in service.posts] == ["/api/chat.postMessage"]
