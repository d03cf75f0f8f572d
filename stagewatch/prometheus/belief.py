"""Of several Prometheuses that scrape one target, one is believed at a time.

Who is believed depends on the instants of the scrapes alone, not on when they arrive: another one
takes over when it is ahead of this one by the failover time, or by two scrapes if that is longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from domain.labels import Labels

__all__ = ["Belief"]


@dataclass(slots=True)
class Belief:
    """Who is believed about one target, and up to when it was told."""

    failover_ms: int
    sender: Labels | None = None
    at_ms: int = -1
    failovers: int = 0
    _interval_ms: int = 0

    def admits(self, sender: Labels, at_ms: int) -> bool:
        """Whether this scrape is to be read. What was told before is not told again."""
        if at_ms <= self.at_ms:
            return False
        if self.sender is None:
            self.sender = sender
        elif sender != self.sender:
            if at_ms - self.at_ms <= max(self.failover_ms, 2 * self._interval_ms):
                return False
            self.sender = sender
            self.failovers += 1
        elif self.at_ms >= 0:
            since_ms = at_ms - self.at_ms  # why at most twice: a gap is no interval
            self._interval_ms = min(since_ms, 2 * (self._interval_ms or since_ms))
        self.at_ms = at_ms
        return True
