"""Conditions: what is wrong with an engine itself, whatever its requests say, and the sentence for it.

They come from gauges and counters of the sidecars. A condition that is over is kept for a while,
because of what follows from it: a queue right after a stall is a consequence, not a cause.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from domain.labels import Labels, value_of

__all__ = [
    "ALARMING",
    "FRESH_S",
    "Condition",
    "ConditionKind",
    "condition_id",
    "condition_name",
    "next_step",
    "sentence",
]

FRESH_S = 30
"""What was said longer ago is not known to hold still."""

_HALF_DAY_S = 43_200
_MOST_NAMED = 6


class ConditionKind(StrEnum):
    """What can be wrong, the worst first."""

    STALLED = "engine stalled"
    DOWN = "target down"
    SILENT = "silent"
    DRIFT = "schema drift"
    SUSPECT = "suspect numbers"
    LOST = "exports lost"
    NOT_REPORTED = "not reported"


ALARMING = (ConditionKind.STALLED, ConditionKind.DOWN)
"""Conditions that alerts are made of."""

_NEXT = {
    ConditionKind.STALLED: (
        "take the replica out of rotation and restart its engine process; a queue right after "
        "that is a consequence"
    ),
    ConditionKind.DOWN: "look whether the engine's process lives, and why it ended",
    ConditionKind.SILENT: "look whether the sidecar runs and reaches the collector",
    ConditionKind.DRIFT: "compare the engine's version with the one before; update the sidecar",
    ConditionKind.LOST: (
        "counts of that time are too low; give the sidecar a larger spool_bytes or spool_age_s"
    ),
    ConditionKind.SUSPECT: "do not trust these metrics; update the engine",
    ConditionKind.NOT_REPORTED: "send spans, which carry what this engine's page leaves out",
}

_ANOTHER_PAGE = frozenset(
    ("http_401", "http_403", "http_404", "redirect", "html", "json", "unknown_page")
)
"""Reasons why a target is down that no look at its process explains."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """One condition of one place.

    `since_s`: it holds at least since then. `seen_at_s`: the newest reading that says so.
    `over_at_s`: None while it holds. `running` and `waiting` are the newest readings; `metrics` are
    those concerned; `reason` is the source's own word; `gpus` is what the GPUs of an engine that
    stands still say about it.
    """

    kind: ConditionKind
    labels: Labels
    since_s: int
    seen_at_s: int
    over_at_s: int | None = None
    running: int | None = None
    waiting: int | None = None
    metrics: tuple[str, ...] = ()
    reason: str = ""
    gpus: str = ""

    def __post_init__(self) -> None:
        if self.seen_at_s < self.since_s:
            raise ValueError(f"a condition is seen when it holds, not before: {self}")

    @property
    def over(self) -> bool:
        return self.over_at_s is not None

    def stale(self, at_s: float) -> bool:
        """Not over, and nobody has said for a while that it holds."""
        return not self.over and at_s - self.seen_at_s > FRESH_S


def condition_id(kind: ConditionKind, labels: Labels) -> str:
    """Of kind and place alone, so that it is the same after every restart; fit for an address."""
    place = [value_of(labels, name) for name in ("service", "replica", "source")]
    words = re.sub(r"[^a-z0-9.]+", "-", "-".join((kind, *place[:2])).lower()).strip("-")
    digest = hashlib.sha256("\0".join((kind, *place)).encode()).hexdigest()
    return f"{words[:80]}-{digest[:8]}"


def condition_name(condition: Condition) -> str:
    """As in "engine stalled: vllm-3 of chat"."""
    return f"{condition.kind}: {_who(condition)}"


def next_step(condition: Condition) -> str:
    """What to do about it."""
    if condition.kind is ConditionKind.DOWN and condition.reason in _ANOTHER_PAGE:
        return "something answers, but not with the engine's metrics: look at the address"
    return _NEXT[condition.kind]


def sentence(condition: Condition, *, at_s: int) -> str:
    """What is wrong, where, since when, and what follows, in one or two sentences."""
    who, since = _who(condition), _clock(condition.since_s, at_s)
    match condition.kind:
        case ConditionKind.STALLED:
            said = _stalled(condition, at_s=at_s)
        case ConditionKind.DOWN:
            said = _down(condition, at_s=at_s)
        case ConditionKind.SILENT:
            said = f"Nothing has been heard of {who} since {since}: neither well nor down."
        case ConditionKind.DRIFT:
            said = f"The page of {who} lost what it had: {_named(condition)} (since {since})."
        case ConditionKind.SUSPECT:
            said = f"The page of {who} tells what cannot be true: {_named(condition)}."
        case ConditionKind.LOST:
            said = f"Readings of {who} were given up before they arrived: {_named(condition)}."
        case _:  # not reported
            said = f"The page of {who} does not report {_named(condition)}."
    return said


def _down(condition: Condition, *, at_s: int) -> str:
    who, since = _who(condition), _clock(condition.since_s, at_s)
    if condition.over_at_s is not None:
        lasted = _span(condition.over_at_s - condition.since_s)
        return f"{who} answers again, after {lasted} without an answer."
    lasting = _span(condition.seen_at_s - condition.since_s)
    why = f": {condition.reason.replace('_', ' ')}" if condition.reason else ""
    return f"{who} has not answered since {since} ({lasting}){why}.{_heard(condition, at_s)}"


def _stalled(condition: Condition, *, at_s: int) -> str:
    who = _who(condition)
    if condition.over_at_s is not None:
        lasted = _span(condition.over_at_s - condition.since_s)
        follows = (
            f" The {_requests(condition.waiting)} waiting now are a consequence of it, not a cause."
            if condition.waiting
            else ""
        )
        over = _clock(condition.over_at_s, at_s)
        return f"{who} moves again since {over}; it had stood still for at least {lasted}.{follows}"
    lasting = _span(condition.seen_at_s - condition.since_s)
    load = (
        ""
        if condition.running is None and condition.waiting is None
        else f" {_requests(condition.running)} running, {_many(condition.waiting)} waiting,"
    )
    return (
        f"{who} has stood still for at least {lasting}:{load} no token after "
        f"{_clock(condition.since_s, at_s)}; a health check cannot see this."
        f"{' ' + condition.gpus if condition.gpus else ''}{_heard(condition, at_s)}"
    )


def _heard(condition: Condition, at_s: int) -> str:
    """That nobody says any more whether it holds."""
    if not condition.stale(at_s):
        return ""
    return f" Stale: nothing has been heard of it since {_clock(condition.seen_at_s, at_s)}."


def _who(condition: Condition) -> str:
    service = value_of(condition.labels, "service") or "an unnamed service"
    replica = value_of(condition.labels, "replica")
    return f"{replica} of {service}" if replica else service


def _named(condition: Condition) -> str:
    shown = condition.metrics[:_MOST_NAMED]
    more = len(condition.metrics) - len(shown)
    names = ", ".join(each.replace("_", " ") for each in shown) or "something"
    return f"{names} and {more} more" if more else names


def _requests(number: int | None) -> str:
    return f"{_many(number)} request{'' if number == 1 else 's'}"


def _many(number: int | None) -> str:
    return "an unknown number of" if number is None else str(number)


def _span(span_s: int) -> str:
    for unit_s, unit in ((172_800, "d"), (7200, "h"), (120, "min")):
        if span_s >= unit_s:
            return f"{span_s // {'d': 86_400, 'h': 3600, 'min': 60}[unit]} {unit}"
    return f"{max(span_s, 0)} s"


def _clock(instant_s: int, now_s: int) -> str:
    day = "%Y-%m-%d " if abs(now_s - instant_s) > _HALF_DAY_S else ""
    return f"{datetime.fromtimestamp(instant_s, UTC):{day}%H:%M:%S} UTC"
