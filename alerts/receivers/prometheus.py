"""Prometheus Alertmanager, API v2: posted again and again while it fires, or it would end there.

An end lies in the past by our clock, or Alertmanager would keep the later one it was promised.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.body import Told, read
from alerts.receivers.post import Door, Resolver
from alerts.receivers.settings import AlertmanagerSettings
from alerts.receivers.words import words

__all__ = ["Alertmanager", "alert"]

_SKEW_S = 60.0
_SHORT_S = 300.0
_SHORT = frozenset({"note", "test"})
_UNTOLD = frozenset({"acknowledged", "unacknowledged", "silenced", "unsilenced"})
_OURS = ("alertname", "dedup_key", "objective", "severity", "tier")


class Alertmanager:
    """One Alertmanager."""

    def __init__(self, settings: AlertmanagerSettings, resolver: Resolver | None = None) -> None:
        self.settings = settings
        self._door = Door(
            timeout_s=settings.timeout_s, allow_private=settings.allow_private, resolver=resolver
        )

    def close(self) -> None:
        self._door.close()

    def send(self, body: str, *, key: str, now_s: float, receipt: str = "") -> Attempt:
        """Alertmanager knows an alert by its labels: the same again is no second one."""
        del key
        told = read(body)
        if told.event in _UNTOLD:
            return Attempt(fate=Fate.DELIVERED, detail="Alertmanager knows no such thing")
        said = alert(told, self.settings, now_s=now_s)
        # why the first labels: they are its identity, and a definition may change meanwhile
        said["labels"] = json.loads(receipt) if receipt else said["labels"]
        target = f"{self.settings.url.get_secret_value().rstrip('/')}/api/v2/alerts"
        headers = {name: value.get_secret_value() for name, value in self.settings.headers.items()}
        headers |= {"Content-Type": "application/json"}
        attempt = self._door.post(target, json.dumps([said]), headers, now_s=now_s).attempt
        return replace(attempt, receipt=json.dumps(said["labels"]))


def alert(told: Told, settings: AlertmanagerSettings, *, now_s: float) -> dict[str, Any]:
    """One alert as API v2 takes it. Labels are identity; whatever changes is an annotation."""
    said = words(told, settings)
    started_s = min(_instant_s(told.started_at, now_s), now_s)
    lasts_s = _SHORT_S if told.event in _SHORT else settings.ends_after_s
    over_s = max(started_s, min(_instant_s(told.resolved_at, now_s), now_s - _SKEW_S))
    annotations = {
        "summary": said.title,
        "description": said.text,
        **{_label_name(name): value for name, value in _joined(said.facts).items()},
        **{f"{name}_url": address for name, address in told.links.items()},
    }
    return {
        "labels": _labels(told, settings),
        "annotations": {name: value for name, value in annotations.items() if value},
        "startsAt": _rfc3339(started_s),
        "endsAt": _rfc3339(over_s if told.over else now_s + lasts_s),
        "generatorURL": told.links.get("alert", ""),
    }


def _labels(told: Told, settings: AlertmanagerSettings) -> dict[str, str]:
    """The same for each event of one alert: nothing here may tell a firing from its end."""
    ours = {
        "alertname": told.objective or "stagewatch",
        "objective": told.objective,
        "severity": told.severity,
        "tier": told.tier,
        "dedup_key": told.dedup_key,
    }
    theirs = {
        _label_name(name): value for name, value in {**told.labels, **settings.labels}.items()
    }
    kept = {name: value for name, value in theirs.items() if name not in _OURS}
    return {name: value for name, value in (kept | ours).items() if value}


def _label_name(name: str) -> str:
    plain = re.sub(r"[^a-z0-9_]", "_", name.lower())
    return plain if re.match(r"[a-z_]", plain) else f"_{plain}"


def _joined(facts: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in facts:
        found[name] = f"{found[name]}; {value}" if name in found else value
    return found


def _instant_s(text: str, default_s: float) -> float:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return default_s
    return at.replace(tzinfo=at.tzinfo or UTC).timestamp()


def _rfc3339(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds")
