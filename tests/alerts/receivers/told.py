"""Receivers and notifications as the tests of this folder use them."""

import json

from alerts.receivers.samples import EVENTS, sample
from alerts.receivers.settings import (
    AlertmanagerSettings,
    AppriseSettings,
    MailSettings,
    PagerDutySettings,
    SlackSettings,
    SnsSettings,
    WebhookSettings,
)

__all__ = ["HOSTILE", "KEY", "NOW_S", "RECEIVERS", "ROUTING_KEY", "body", "hostile"]

NOW_S = 1_772_370_000.0
KEY = "k" * 32
ROUTING_KEY = "0123456789abcdef0123456789abcdef"
RECEIVERS = {
    "pagerduty": PagerDutySettings(name="pd", type="pagerduty", routing_key=ROUTING_KEY),
    "slack": SlackSettings(
        name="chat", type="slack", url="https://hooks.slack.com/services/T/B/x", mention="<!here>"
    ),
    "sns": SnsSettings(
        name="topic", type="sns", topic_arn="arn:aws:sns:eu-west-1:111122223333:pages.fifo"
    ),
    "email": MailSettings(
        name="mail",
        type="email",
        host="smtp.example",
        sender="stagewatch@example.com",
        to=("oncall@example.com", "lead@example.com"),
    ),
    "alertmanager": AlertmanagerSettings(
        name="am", type="alertmanager", url="http://alertmanager:9093", labels={"cluster": "eu-1"}
    ),
    "webhook": WebhookSettings(name="hook", url="https://hooks.example/x"),
    "apprise": AppriseSettings(name="other", type="apprise", urls=("json://localhost/x",)),
}
assert set(EVENTS) >= {"firing", "resolved", "stale", "no-data", "condition", "escalated", "note"}


def body(kind="firing", **changes):
    """A notification as the outbox holds it."""
    return json.dumps(sample(kind) | changes)


HOSTILE = {
    "huge": "x" * 10_000,
    "wide": "𝔘" * 3000,
    "right to left": "chat\u202egpj.exe\u2066 مرحبا\u200f",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>&amp;",
    "newlines": "a\r\nBcc: evil@example.com\r\n\r\nBody\n\v\f\u2028x",
    "slack": "<!channel> <!here> <@U123> <https://evil.example|click> *b* _i_ `c`",
    "control": "\x00\x01\x1b[31mred\x07\x7f\x9b",
    "half": "\ud800 half a character \udfff",
    "quotes": "\"'\\{{ 7*7 }}{% for x in y %}",
}


def hostile(text, kind="firing"):
    """A notification with this text wherever the world may put one."""
    said = sample(kind)
    many = {f"{text[:80]}{number}": text[:1000] for number in range(50)} | {text: text}
    return json.dumps(
        said
        | {
            "objective": text,
            "text": f"{said['text']} {text}",
            "summary": text,
            "why": [text] * 20,
            "diagnosis": [text] * 10,
            "stage": text,
            "place": {"replica": text, "pool": text},
            "next": text,
            "not_measured": [text] * 20,
            "labels": many,
            "links": {"alert": f"https://a.example/{text}", "runbook": f"javascript:{text}"},
        }
    )
