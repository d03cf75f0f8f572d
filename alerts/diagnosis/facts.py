"""Facts that are more than a number: a replica's speed, an engine that stood, an answer cut short."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Aborted", "Arrived", "Restarted", "Slowed", "Stood"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """How many times as long a token takes at a place as elsewhere at like batch and prompt.

    [low, high] holds the factor with the stated confidence; `requests` are those compared.
    `cause` is the throttle reason, `gpu` whose; empty where the whole replica is meant.
    """

    place: str
    factor: float
    low: float
    high: float
    requests: int
    others: int
    pool: str = ""
    gpu: str = ""
    cause: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stood:
    """An engine that stood still or does not answer; `sentence` says it in full."""

    place: str
    sentence: str
    next_step: str
    down: bool = False
    over: bool = False
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aborted:
    """An answer that ended in an error. None: not told. `last_gap_s`: silence before the end."""

    duration_s: float
    status: int | None = None
    last_gap_s: float | None = None
    at_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarted:
    """A worker that was told to end, and the failures in the minute after."""

    place: str
    failures: int
    first_after_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """A replica that began to answer in the window: its first requests against the others'."""

    place: str
    age_s: float
    ttft_s: float
    median_s: float
    ready_s: float | None = None
