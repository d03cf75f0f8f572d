"""A metric of a managed endpoint: where AWS keeps it, in which unit, and how its points add up."""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["BILLED_TOGETHER", "TIERS_S", "EndpointMetric", "Family", "Meaning", "Tier"]

BILLED_TOGETHER = 5
"""So many statistics of one metric in one call are billed as one."""


class Meaning(StrEnum):
    """How points of a metric may be added up."""

    LATENCY = "latency"  # counts, sums and good counts add; percentiles never
    EVENTS = "events"  # the sum adds over time and series
    LEVEL = "level"  # a mean weighs by its samples, a maximum takes the greatest


class Tier(StrEnum):
    """How soon a metric is needed, the soonest first."""

    OBJECTIVE = "objective"
    WARM = "warm"
    COLD = "cold"


TIERS_S: dict[Tier, tuple[int, int]] = {
    Tier.OBJECTIVE: (60, 300),
    Tier.WARM: (300, 900),
    Tier.COLD: (900, 900),
}
"""Seconds from one call to the next while there is traffic, and while there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One namespace under one canonical set of dimensions.

    `drill_down` are other sets under which the same traffic is published again. The value of the
    dimension `named_by` names the endpoint.
    """

    kind: str
    namespace: str
    dimensions: tuple[str, ...]
    named_by: str
    drill_down: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointMetric:
    """One metric. A value times `per_unit` is in seconds, a ratio, or a number of things.

    `optional` ones are asked for only where ListMetrics has them. Where nothing happened, some
    event counts are not published: `zero_if_silent` says that silence then means none. A value that
    is summed over the GPUs of an instance is `per_accelerator` once it is divided by their number.
    """

    family: Family
    name: str
    ours: str
    meaning: Meaning
    tier: Tier
    unit: str
    per_unit: float
    statistics: tuple[str, ...]
    zero_if_silent: bool = False
    optional: bool = False
    per_accelerator: bool = False
    note: str = ""

    @property
    def namespace(self) -> str:
        return self.family.namespace

    @property
    def our_unit(self) -> str:
        """What a value is in once it is ours: `s`, `ratio` or `1`."""
        if self.meaning is Meaning.LATENCY:
            return "s"
        return "ratio" if self.unit == "Percent" else "1"
