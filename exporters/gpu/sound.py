"""Which readings can be: ranges that no board leaves, and readings that stand still while they cannot."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Final

__all__ = ["RELATIVE", "Suspicion", "is_sound"]

_RATIO = (0.0, 1.0)
_DEGREES = (-20.0, 150.0)
_CLOCK = (0.0, 2e10)
_RANGES: Final = {
    "gpu_busy": _RATIO,
    "gpu_memory_busy": _RATIO,
    "gpu_sm_active": _RATIO,
    "gpu_sm_occupancy": _RATIO,
    "gpu_tensor_active": _RATIO,
    "gpu_dram_bandwidth": _RATIO,
    "gpu_sm_clock": _CLOCK,
    "gpu_memory_clock": _CLOCK,
    "gpu_temperature": _DEGREES,
    "gpu_memory_temperature": _DEGREES,
    "gpu_thermal_margin": (-150.0, 150.0),
    "gpu_power": (0.0, 20_000.0),
    "gpu_recovery_action": (0.0, 100.0),
}
_PARTS: Final = ("gpu_memory_used", "gpu_memory_free", "gpu_memory_reserved")
RELATIVE: Final = frozenset((*_PARTS, "gpu_power"))
"""Readings whose range is told by other readings."""
_LARGEST = 2.0**63
_FROZEN_AFTER = 60  # readings
_IDLE_TENSORS_AFTER = 5
_POWER_MOVES = 0.2  # of its mean
_STILL = ("gpu_busy", "gpu_memory_busy", "gpu_sm_clock", "gpu_temperature", "gpu_memory_used")


def is_sound(key: str, value: float, others: Mapping[str, float]) -> bool:
    """Whether a board can read so. NaN and what the driver means as a blank cannot be."""
    name = key.removeprefix("total:").partition("/")[0]
    low, high = _RANGES.get(name, (-_LARGEST, _LARGEST))
    if name == "gpu_power":
        high = min(high, 2 * others.get("gpu_power_limit", math.inf))
    if name in _PARTS:
        low, high = 0.0, others.get("gpu_memory_total", _LARGEST)
    if key.startswith("total:"):
        low = 0.0
    return low <= value <= high


class Suspicion:
    """Watches one board for readings that stand still while its power moves."""

    def __init__(self) -> None:
        self._power: deque[float] = deque(maxlen=_FROZEN_AFTER)
        self._still: tuple[float | None, ...] = ()
        self._same = 0
        self._idle_tensors = 0

    def add(self, values: Mapping[str, float]) -> frozenset[str]:
        """The suspicions after one more reading: `frozen`, `activity_zero`."""
        still = tuple(values.get(name) for name in _STILL)
        self._same = self._same + 1 if still == self._still else 0
        self._still = still
        if "gpu_power" in values:
            self._power.append(values["gpu_power"])
        busy, active = values.get("gpu_busy"), values.get("gpu_sm_active")
        impossible = busy is not None and busy > 0.5 and active == 0
        self._idle_tensors = self._idle_tensors + 1 if impossible else 0
        found = {
            "frozen": self._same >= _FROZEN_AFTER and self._moves(),
            "activity_zero": self._idle_tensors >= _IDLE_TENSORS_AFTER,
        }
        return frozenset(word for word, holds in found.items() if holds)

    def _moves(self) -> bool:
        mean = sum(self._power) / len(self._power) if self._power else 0.0
        return bool(self._power) and max(self._power) - min(self._power) > _POWER_MOVES * mean
