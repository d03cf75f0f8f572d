"""The words of a notification for people: a title, a first paragraph, facts, and links."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from alerts.receivers.body import Told, clean, clipped, read
from alerts.receivers.settings import CommonSettings

__all__ = ["Words", "own_summary", "words"]

_EVENTS = {
    "acknowledged": "Acknowledged",
    "unacknowledged": "No longer acknowledged",
    "escalated": "Escalated",
    "note": "Note",
    "renotified": "Still firing",
    "resolved": "Resolved",
    "reset": "Budget reset",
    "silenced": "Silenced",
    "test": "Test",
    "unsilenced": "No longer silenced",
}
_LINKS = {"alert": "Open the alert", "runbook": "Runbook", "objective": "The promise"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Plain text, each part one line; whoever shows it must escape it for its own medium."""

    title: str
    text: str
    facts: Sequence[tuple[str, str]]
    links: Sequence[tuple[str, str]]  # (address, words)

    def lines(self) -> list[str]:
        """All of it, for a medium that has nothing but lines."""
        said = [f"{name}: {value}" for name, value in self.facts]
        linked = [f"{name}: {address}" for address, name in self.links]
        return [self.text, "", *said, *([""] if said and linked else []), *linked]


def words(told: Told, settings: CommonSettings) -> Words:
    """What people read, with the templates of the receiver where it has any."""
    return Words(
        title=_own(settings.title, told, 1000) or _title(told),
        text=_own(settings.text, told, 8000) or _text(told),
        facts=_facts(told),
        links=[(told.links[name], said) for name, said in _LINKS.items() if name in told.links],
    )


def own_summary(template: str, body: Mapping[str, Any]) -> str:
    """What a promise's own template makes of a notification; empty where it has none."""
    return _own(template, read(body), 2000) if template else ""


def _own(template: str, told: Told, most: int) -> str:
    """A template's text; empty where there is none, or where it fails for this very notification."""
    if not template:
        return ""
    # why here: only who has a template pays for Jinja
    from alerts.receivers.template import FAILURES, rendered  # noqa: PLC0415

    try:
        return clean(rendered(template, told.values()), most)
    except FAILURES as error:
        return clean(f"{_title(told)} (the template fails: {error})", most)


def _title(told: Told) -> str:
    word = _EVENTS.get(told.event) or told.severity.capitalize() or "Alert"
    stale = " (stale)" if told.stale and not told.over else ""
    about = {"no-data": " is not observed"}.get(told.tier, "") if not told.over else ""
    return clipped(f"{word}{stale}: {told.objective}{about}{_where(told)}", 200)


def _where(told: Told) -> str:
    if told.over or not told.stage:
        return ""
    place = told.place.get("replica") or told.place.get("pool") or ""
    return f", {told.stage.replace('_', ' ')}{f' on {place}' if place else ''}"


def _text(told: Told) -> str:
    return f"{told.summary} {told.text}".strip()


def _facts(told: Told) -> list[tuple[str, str]]:
    place = ", ".join(f"{name} {value}" for name, value in told.place.items())
    stage = (told.stage or "").replace("_", " ")
    found = [
        ("Where", ", ".join(part for part in (stage, place) if part)),
        *(_counted(line) for line in told.why),
        ("Budget left", _left(told.budget_remaining)),
        *(("Diagnosis", line) for line in told.diagnosis),
        ("Next", "" if told.next in told.text else told.next),
        ("Not measured", ", ".join(each.replace("_", " ") for each in told.not_measured)),
        ("Labels", ", ".join(f"{name}={value}" for name, value in told.labels.items())),
        ("Since", _moment(told.started_at)),
        ("Until", _moment(told.resolved_at)),
    ]
    return [(name, clipped(value, 1500)) for name, value in found if value]


def _counted(line: str) -> tuple[str, str]:
    """`last 1 h: 151 of 1000 bad` names itself."""
    window, colon, rest = line.partition(": ")
    if colon and window.startswith("last "):
        return window.capitalize(), rest
    return "Note", line


def _moment(instant: str) -> str:
    """`2026-03-01 12:09:00 UTC`."""
    return instant.replace("T", " ").replace("Z", " UTC")


def _left(share: float | None) -> str:
    if share is None:
        return ""
    if share < 0:
        return f"none; overspent by {-share * 100:.3g} % of it"
    return f"{share * 100:.3g} %"
