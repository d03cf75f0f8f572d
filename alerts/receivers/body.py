"""What a notification says, read from its JSON: every text cleaned, every list and length bounded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote

__all__ = ["Told", "clean", "clipped", "names", "read"]

_NAME, _VALUE, _TEXT = 200, 256, 6000
_MOST_LABELS, _MOST_LINES = 40, 12
_URL = re.compile(r"https?://[A-Za-z0-9._~:/?#@!$&()*+,;=%\[\]-]{1,1000}")
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One notification. `place`: labels of the worst replica. What is not known is None or empty."""

    event: str
    dedup_key: str
    alert_id: str
    objective: str
    severity: str
    tier: str
    text: str
    summary: str
    stale: bool
    why: tuple[str, ...]
    diagnosis: tuple[str, ...]
    not_measured: tuple[str, ...]
    counts: Mapping[str, Mapping[str, int]]
    budget_remaining: float | None
    stage: str | None
    place: Mapping[str, str]
    next: str
    labels: Mapping[str, str]
    links: Mapping[str, str]
    started_at: str
    resolved_at: str

    @property
    def over(self) -> bool:
        return self.event == "resolved"

    def values(self) -> dict[str, Any]:
        """What a template may ask for."""
        return {name: getattr(self, name) for name in names()}


def names() -> tuple[str, ...]:
    """The names that a template may ask for."""
    return tuple(field.name for field in fields(Told))


def read(body: str | Mapping[str, Any]) -> Told:
    """The notification of a row of the outbox."""
    said: Mapping[str, Any] = json.loads(body) if isinstance(body, str) else body
    return Told(
        event=clean(said.get("event"), 32),
        dedup_key=clean(said.get("dedup_key"), 64),
        alert_id=clean(said.get("alert_id"), 320),
        objective=clean(said.get("objective"), _NAME),
        severity=clean(said.get("severity"), 32),
        tier=clean(said.get("tier"), 32),
        text=clean(said.get("text"), _TEXT),
        summary=clean(said.get("summary"), _TEXT),
        stale=said.get("stale") is True,
        why=_lines(said.get("why")),
        diagnosis=_lines(said.get("diagnosis"))[:3],
        not_measured=_lines(said.get("not_measured")),
        counts=_counts(said.get("counts")),
        budget_remaining=_share(said.get("budget_remaining")),
        stage=clean(said.get("stage"), _NAME) or None,
        place=_labels(said.get("place")),
        next=clean(said.get("next"), 1000),
        labels=_labels(said.get("labels")),
        links=_links(said.get("links")),
        started_at=clean(said.get("started_at"), 40),
        resolved_at=clean(said.get("resolved_at"), 40),
    )


def clean(value: object, most: int) -> str:
    """One line that shows what it holds: no control, no turned direction, no half characters."""
    if value is None:
        return ""
    text = str(value)[: 4 * most].encode("utf-8", "replace").decode()
    text = _DIRECTIONS.sub("", text)
    text = _CONTROLS.sub(" ", text)
    return clipped(" ".join(text.split()), most)


def clipped(text: str, most: int) -> str:
    """The text, cut with a mark where it is longer."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _lines(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple):
        return ()
    return tuple(line for each in value[:_MOST_LINES] if (line := clean(each, 500)))


def _labels(value: object) -> dict[str, str]:
    if not isinstance(value, Mapping):
        return {}
    pairs = sorted((clean(name, 64), clean(text, _VALUE)) for name, text in value.items())
    return dict(pairs[:_MOST_LABELS])


def _counts(value: object) -> dict[str, dict[str, int]]:
    if not isinstance(value, Mapping):
        return {}
    return {
        name: {key: int(number) for key, number in window.items() if isinstance(number, int)}
        for name in ("long", "short")
        if isinstance(window := value.get(name), Mapping)
    }


def _share(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _links(value: object) -> dict[str, str]:
    """Only what a browser opens as a page: a link may come from a definition."""
    if not isinstance(value, Mapping):
        return {}
    named = {name: value.get(name) for name in ("alert", "objective", "runbook")}
    known = {name: _encoded(link) for name, link in named.items() if isinstance(link, str)}
    return {name: link for name, link in known.items() if _URL.fullmatch(link)}


def _encoded(link: str) -> str:
    """Letters beyond ASCII as a browser would send them."""
    return re.sub(r"[^\x00-\x7f]", lambda found: quote(found[0], errors="replace"), link[:2000])
