"""The wall clock beside one that nobody can set: what time it is, and by how much it was set."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Clock"]


@dataclass(slots=True)
class Clock:
    """A machine that slept looks like a clock that was set ahead."""

    wall_ns: Callable[[], int] = time.time_ns
    steady_ns: Callable[[], int] = time.monotonic_ns
    _before_ns: tuple[int, int] | None = None

    def look(self) -> tuple[int, int]:
        """The time now, and what was added to it since the last look other than by waiting."""
        now_ns = self.wall_ns(), self.steady_ns()
        before_ns, self._before_ns = self._before_ns or now_ns, now_ns
        return now_ns[0], (now_ns[0] - before_ns[0]) - (now_ns[1] - before_ns[1])
