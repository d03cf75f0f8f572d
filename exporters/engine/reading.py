"""What one scrape of one target says: pairs and increments since the last one, and levels now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from domain.labels import Labels

if TYPE_CHECKING:  # numpy: a sidecar without latencies does without its memory
    from domain.distribution import Distribution

__all__ = ["Increment", "Latency", "Level", "Reading"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Latency:
    """The values that one metric took between two scrapes. `sample`: what one value is of."""

    metric: str
    labels: Labels
    start_at_ns: int
    distribution: Distribution
    sample: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Increment:
    """What a counter grew by between two scrapes."""

    metric: str
    labels: Labels
    start_at_ns: int
    by: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A gauge at the instant of the scrape."""

    metric: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reading:
    """Everything one scrape says. `target` are the labels that all of its series carry.

    `engine` is whose page it was. `absent` are metrics that it no longer has, `missing` stages that
    it cannot tell. `notes` say what was wrong with the page, one sentence each.
    """

    target: Labels
    at_ns: int
    up: bool
    engine: str = ""
    latencies: tuple[Latency, ...] = ()
    increments: tuple[Increment, ...] = ()
    levels: tuple[Level, ...] = ()
    absent: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
