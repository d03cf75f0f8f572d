"""What will happen and when: the heap that every part of the simulation shares."""

import heapq
from collections.abc import Callable
from typing import Any

__all__ = ["Calendar"]


class Calendar:
    """Simulated time: calls fall due in order of their instants, then of their entry."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._entered = 0

    def at(self, at_s: float, call: Callable[..., None], *arguments: Any) -> None:
        """Enter a call; one for the past falls due now, because time never runs backwards."""
        self._entered += 1
        entry = (max(at_s, self.now_s), self._entered, call, arguments)
        heapq.heappush(self._due, entry)

    def advance(self, to_s: float) -> None:
        """Let everything happen that is due by then."""
        due = self._due
        while due and due[0][0] <= to_s:
            self.now_s, _, call, arguments = heapq.heappop(due)
            call(*arguments)
        self.now_s = max(self.now_s, to_s)
