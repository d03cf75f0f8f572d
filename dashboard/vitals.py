"""What this process knows of itself, for the status page; None is what another process would know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["ELSEWHERE", "Limits", "ReceiverState", "Vitals", "Witness"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the settings allow."""

    series: int
    lateness_s: int
    requests_kept_s: int
    tiers_kept_s: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiverState:
    """How one receiver is doing: what waits for it, since when, and what its last trouble was."""

    name: str
    failing: bool
    waiting: int
    waiting_since_s: float | None = None
    delivered_at_s: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vitals:
    """`counted`: the samples of our own `/metrics`. `collects`, `evaluates`: whether these run here.

    `heartbeat`: None where none is set, "" where it gets through, else why not.
    """

    collects: bool = False
    evaluates: bool = False
    leads: bool | None = None
    problem: str | None = None
    warning: str | None = None
    heartbeat: str | None = None
    counted: Sequence[tuple[str, Mapping[str, str], float]] = ()
    limits: Limits | None = None
    receivers: Sequence[ReceiverState] = ()
    disk_bytes: int | None = None
    disk_free_bytes: int | None = None
    known: bool = True

    def total(self, name: str) -> float | None:
        """The sum of one counter over its labels; None where nobody counted."""
        found = [value for counted, _, value in self.counted if counted == name]
        return sum(found) if found else None

    def by(self, name: str, label: str) -> Mapping[str, float]:
        """One counter by one of its labels, without zeros."""
        found: dict[str, float] = {}
        for counted, labels, value in self.counted:
            if counted == name and value:
                key = labels.get(label, "")
                found[key] = found.get(key, 0.0) + value
        return found


ELSEWHERE = Vitals(known=False)
"""Nobody told: pages that stand alone."""


class Witness(Protocol):
    """Whoever can say how this process is."""

    def vitals(self) -> Vitals: ...
