"""Stragglers: the GPU of a tensor-parallel group that is off what the others are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

__all__ = ["GroupMember", "Straggler", "stragglers"]

_SLOW_CLOCK = 0.95  # of the others' median
_HOT_C = 10.0  # above the others' median


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMember:
    """One GPU of a group now; None where it does not tell."""

    sm_clock_hz: float | None = None
    temperature_c: float | None = None
    pcie_lanes: float | None = None
    nvlinks_active: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Straggler:
    """One GPU, what is off about it, and what the others have."""

    gpu_uuid: str
    what: str
    value: float
    others: float


_RULES: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "sm_clock_hz": lambda own, others: own < _SLOW_CLOCK * others,
    "temperature_c": lambda own, others: own > others + _HOT_C,
    "pcie_lanes": lambda own, others: own < others,
    "nvlinks_active": lambda own, others: own < others,
}


def stragglers(group: Mapping[str, GroupMember]) -> list[Straggler]:
    """Each GPU against the median of the others, so that one of two can be told too.

    A group that idles or is throttled as a whole has no straggler: all of it is slow.
    """
    found = []
    for what, is_off in _RULES.items():
        values = {uuid: getattr(one, what) for uuid, one in group.items()}
        known = {uuid: value for uuid, value in values.items() if value is not None}
        for uuid, value in known.items():
            rest = [other for name, other in known.items() if name != uuid]
            if rest and is_off(value, median(rest)):
                found.append(Straggler(gpu_uuid=uuid, what=what, value=value, others=median(rest)))
    return sorted(found, key=lambda each: (each.gpu_uuid, each.what))
