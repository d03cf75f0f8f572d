"""PagerDuty: Events API v2, one incident per dedup key; notes are change events, which page nobody."""

from __future__ import annotations

import json
from typing import Any

from alerts.receivers.attempt import Attempt
from alerts.receivers.body import Told, clipped, read
from alerts.receivers.post import Door, Resolver
from alerts.receivers.settings import PagerDutySettings
from alerts.receivers.words import Words, words

__all__ = ["PagerDuty", "event"]

_BASES = {"us": "https://events.pagerduty.com", "eu": "https://events.eu.pagerduty.com"}
_SUMMARY, _LARGEST_BYTES = 1024, 512_000
_ACTIONS = {"acknowledged": "acknowledge", "resolved": "resolve"}
_CHANGES = frozenset({"note", "silenced", "unsilenced", "unacknowledged", "reset"})


class PagerDuty:
    """One service of PagerDuty."""

    def __init__(self, settings: PagerDutySettings, resolver: Resolver | None = None) -> None:
        self.settings = settings
        self._door = Door(
            timeout_s=settings.timeout_s, allow_private=settings.allow_private, resolver=resolver
        )

    def close(self) -> None:
        self._door.close()

    def send(self, body: str, *, key: str, now_s: float, receipt: str = "") -> Attempt:
        """The same event again is no second incident: PagerDuty knows it by its dedup key."""
        del key, receipt
        path, payload = event(read(body), self.settings)
        payload = {"routing_key": self.settings.routing_key.get_secret_value(), **payload}
        base = self.settings.url.get_secret_value() if self.settings.url else None
        target = (base or _BASES[self.settings.region]).rstrip("/") + path
        headers = {"Content-Type": "application/json"}
        return self._door.post(target, json.dumps(payload), headers, now_s=now_s).attempt


def event(told: Told, settings: PagerDutySettings) -> tuple[str, dict[str, Any]]:
    """The path, and what is posted there beside the routing key."""
    said = words(told, settings)
    if told.event in _CHANGES:
        return "/v2/change/enqueue", _change(told, said)
    action = _ACTIONS.get(told.event, "trigger")
    found: dict[str, Any] = {"event_action": action, "dedup_key": told.dedup_key}
    if action != "acknowledge":  # why a payload for a resolve: its words stand in the log
        found["payload"] = _payload(told, said, settings)
        found["links"] = [{"href": address, "text": text} for address, text in said.links]
        found["client"] = "Stagewatch"
        found |= {"client_url": told.links["alert"]} if "alert" in told.links else {}
    return "/v2/enqueue", _fitting(found)


def _payload(told: Told, said: Words, settings: PagerDutySettings) -> dict[str, Any]:
    severity = settings.page_as if told.severity == "page" else settings.ticket_as
    summary = said.title if settings.title or not said.text else said.text
    return {
        "summary": clipped(summary, _SUMMARY) or "Stagewatch",
        "source": told.place.get("replica") or told.labels.get("service") or told.objective or "?",
        "severity": "info" if told.event == "test" else severity,
        "timestamp": told.resolved_at or told.started_at,
        "component": told.stage or "",
        "group": told.objective,
        "class": told.tier,
        "custom_details": _details(said, summary),
    }


def _change(told: Told, said: Words) -> dict[str, Any]:
    return {
        "payload": {
            "summary": clipped(said.text or said.title, _SUMMARY),
            "source": told.objective,
            "custom_details": _details(said, said.text),
        },
        "links": [{"href": address, "text": text} for address, text in said.links],
    }


def _details(said: Words, summary: str) -> dict[str, str]:
    """Facts by name, those that share a name joined; and the text unless the summary has it all."""
    found: dict[str, str] = {}
    for name, value in said.facts:
        found[name] = f"{found[name]}\n{value}" if name in found else value
    whole = summary == said.text and len(summary) <= _SUMMARY
    return found if whole else {"Text": said.text, **found}


def _fitting(payload: dict[str, Any]) -> dict[str, Any]:
    """Without its details where they would make it too large."""
    if len(json.dumps(payload)) <= _LARGEST_BYTES - 1000:
        return payload
    kept = {**payload["payload"], "custom_details": {"Text": payload["payload"]["summary"]}}
    return {**payload, "payload": kept}
