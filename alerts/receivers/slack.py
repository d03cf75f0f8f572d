"""Slack: blocks by an incoming webhook, or by a bot, which changes its message when all is over."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.body import Told, clipped, read
from alerts.receivers.post import Answer, Door, Resolver
from alerts.receivers.settings import SlackSettings
from alerts.receivers.words import words

__all__ = ["Slack", "message"]

_HEADER, _SECTION, _FIELD, _FIELDS, _BUTTON, _FALLBACK = 150, 2500, 500, 10, 75, 3000
# why less than Slack's 3000 and 2000 for each: all blocks of a message together end near 13 000
_SHAPES = {"page": "▲", "ticket": "◆"}
_LOUD = frozenset({"firing", "escalated", "renotified"})
_RECEIPT = re.compile(r"[CGD][A-Z0-9]{2,20}:\d{1,20}\.\d{1,10}")
_TEMPORARY = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable"}
    | {"request_timeout", "team_added_to_org", "invalid_auth", "not_in_channel", "token_expired"}
)  # why the last three: somebody can mend them while the notification waits


class Slack:
    """One channel."""

    def __init__(self, settings: SlackSettings, resolver: Resolver | None = None) -> None:
        self.settings = settings
        self._door = Door(
            timeout_s=settings.timeout_s, allow_private=settings.allow_private, resolver=resolver
        )

    def close(self) -> None:
        self._door.close()

    def send(self, body: str, *, key: str, now_s: float, receipt: str = "") -> Attempt:
        """Posts; a bot answers in the thread of its first message, and changes that at the end."""
        del key
        told = read(body)
        said = message(told, self.settings)
        if self.settings.url is not None:
            return self._door.post(
                self.settings.url.get_secret_value(), json.dumps(said), _JSON, now_s=now_s
            ).attempt
        known = _RECEIPT.fullmatch(receipt)
        if known is None:
            return self._call("chat.postMessage", {"channel": self.settings.channel, **said}, now_s)
        channel, _, stamp = receipt.partition(":")
        if told.over:
            changed = self._call("chat.update", {"channel": channel, "ts": stamp, **said}, now_s)
            if changed.fate is not Fate.DELIVERED:
                return changed
        reply = {"channel": channel, "thread_ts": stamp, **said}
        answered = self._call(
            "chat.postMessage", reply | {"reply_broadcast": told.event in _LOUD}, now_s
        )
        return replace(answered, receipt=receipt)

    def _call(self, method: str, content: dict[str, Any], now_s: float) -> Attempt:
        token = self.settings.bot_token
        if token is None:
            raise AssertionError("settings without url and without bot_token are refused")
        target = f"{self.settings.api_url.rstrip('/')}/{method}"
        headers = _JSON | {"Authorization": f"Bearer {token.get_secret_value()}"}
        return _judged(self._door.post(target, json.dumps(content), headers, now_s=now_s))


def message(told: Told, settings: SlackSettings) -> dict[str, Any]:
    """Blocks, and the plain text that a phone shows in their place."""
    said = words(told, settings)
    shape = "✓" if told.over else _SHAPES.get(told.severity, "•")
    title = clipped(f"{shape} {said.title}", _HEADER)
    call = settings.mention if told.severity == "page" and told.event in _LOUD else ""
    fields = [
        {"type": "mrkdwn", "text": _fits(f"*{name}*\n", _escaped(value), _FIELD)}
        | {"verbatim": True}
        for name, value in said.facts[:_FIELDS]
    ]
    blocks: list[dict[str, Any]] = [
        {"type": "header", "text": {"type": "plain_text", "text": title, "emoji": False}},
        _section(f"{call} " if call else "", _escaped(said.text)),
        *([{"type": "section", "fields": fields}] if fields else []),
        *([_buttons(said.links)] if said.links else []),
    ]
    fallback = _fits(f"{call} " if call else "", _escaped(f"{title}. {said.text}"), _FALLBACK)
    return {"text": fallback, "blocks": blocks, "unfurl_links": False, "unfurl_media": False}


_JSON = {"Content-Type": "application/json; charset=utf-8"}


def _section(before: str, text: str) -> dict[str, Any]:
    return {
        "type": "section",
        "text": {"type": "mrkdwn", "text": _fits(before, text or " ", _SECTION), "verbatim": True},
    }


def _buttons(links: Any) -> dict[str, Any]:
    return {
        "type": "actions",
        "elements": [
            {
                "type": "button",
                "text": {"type": "plain_text", "text": clipped(text, _BUTTON)},
                "url": address,
            }
            for address, text in links[:5]
        ],
    }


def _escaped(text: str) -> str:
    """What they wrote is text: it calls nobody and links nowhere."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _fits(before: str, text: str, most: int) -> str:
    """Cut to size, but never inside an entity."""
    room = most - len(before)
    if len(text) <= room:
        return before + text
    return before + re.sub(r"&[a-z]{0,4}$", "", text[: room - 1]).rstrip() + "…"


def _judged(answer: Answer) -> Attempt:
    """Slack's Web API says 200 to everything; what it thinks stands in the text."""
    if answer.attempt.fate is not Fate.DELIVERED:
        return answer.attempt
    try:
        said = json.loads(answer.text)
        if said["ok"]:
            channel, stamp = str(said.get("channel", "")), str(said.get("ts", ""))
            return replace(answer.attempt, receipt=f"{channel}:{stamp}" if stamp else "")
        error = re.sub(r"[^a-z_]", "", str(said.get("error", "")))[:60]
    except (ValueError, KeyError, TypeError):
        return replace(answer.attempt, fate=Fate.RETRY, detail="an answer that is not Slack's")
    fate = Fate.RETRY if error in _TEMPORARY else Fate.REFUSED
    return replace(answer.attempt, fate=fate, detail=f"Slack says {error or 'no'}")
