"""Throttling: the share of a window for which each cause held a GPU's clocks down."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["FACILITY", "HARMFUL", "Worst", "throttle_shares", "worst_of"]

HARMFUL: Final = ("sw_power_cap", "hw_slowdown", "sw_thermal", "hw_thermal", "hw_power_brake")
"""Causes that cost tokens. A low clock of an idle GPU is none of them."""

FACILITY: Final = ("hw_thermal", "hw_power_brake")
"""Causes to tell the data centre about: cooling, and the rack's power."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The GPU of a group that was held down for longest, and by what: it sets the group's pace."""

    gpu_uuid: str
    cause: str
    share: float


def throttle_shares(held_s: Mapping[str, float], observed_s: float) -> Mapping[str, float]:
    """From what each cause's counter grew by while the GPU was observed.

    Causes overlap, so shares do not add up to anything. More than the whole window, by the jitter
    of two clocks, is the whole window.
    """
    if not observed_s > 0:
        return {}
    shares = {cause: grown_s / observed_s for cause, grown_s in held_s.items() if grown_s >= 0}
    return {cause: min(share, 1.0) for cause, share in shares.items() if not math.isnan(share)}


def worst_of(shares: Mapping[str, Mapping[str, float]], *, at_least: float = 0.0) -> Worst | None:
    """Of a tensor-parallel group's GPUs by UUID; None where no harmful cause reaches `at_least`."""
    found = [
        Worst(gpu_uuid=uuid, cause=cause, share=share)
        for uuid, by_cause in shares.items()
        for cause, share in by_cause.items()
        if cause in HARMFUL and share > 0 and share >= at_least
    ]
    return max(found, key=lambda each: (each.share, each.gpu_uuid, each.cause), default=None)
