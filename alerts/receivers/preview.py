"""What would be sent to a receiver, to look at; without its secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from alerts.receivers.body import read
from alerts.receivers.mail import letter
from alerts.receivers.pagerduty import event
from alerts.receivers.prometheus import alert
from alerts.receivers.settings import MailSettings, ReceiverSettings
from alerts.receivers.slack import message
from alerts.receivers.sns import publication
from alerts.receivers.words import own_summary, words
from alerts.runbook import address

__all__ = ["of_promise", "preview"]


def preview(settings: ReceiverSettings, body: Mapping[str, Any], *, now_s: float) -> str:
    """The payload as it travels: JSON, or the letter."""
    if isinstance(settings, MailSettings):
        sent = letter(read(body), settings, key=_key(body), now_s=now_s)
        return sent.as_string().replace("\r\n", "\n")
    if settings.type == "apprise":
        said = words(read(body), settings)
        return "\n".join([said.title, "", *said.lines(), ""])
    return json.dumps(_payload(settings, body, now_s), indent=2, ensure_ascii=False) + "\n"


def of_promise(
    body: dict[str, Any], *, name: str, labels: dict[str, str], runbook: str, summary: str
) -> dict[str, Any]:
    """The same notification, about this promise, in its own words."""
    ours = body["links"]["alert"].partition("/alerts/")[0]
    links = body["links"] | {"runbook": runbook or address(ours, body["tier"])}
    said = body | {"objective": name, "labels": labels, "links": links}
    said["text"] = said["text"].replace("chat-ttft", name)
    return said | {"summary": own_summary(summary, said)}


def _payload(settings: ReceiverSettings, body: Mapping[str, Any], now_s: float) -> object:
    told = read(body)
    if settings.type == "pagerduty":
        path, payload = event(told, settings)
        return {"path": path, **payload}
    if settings.type == "slack":
        return message(told, settings)
    if settings.type == "sns":
        return publication(told, settings, _key(body))
    if settings.type == "alertmanager":
        return [alert(told, settings, now_s=now_s)]
    return body


def _key(body: Mapping[str, Any]) -> str:
    return str(body.get("idempotency_key", ""))
