"""A circuit breaker: a receiver that fails again and again is asked once in a while, not all the time."""

from __future__ import annotations

from dataclasses import dataclass, replace

from alerts.receivers.attempt import Attempt, Fate

__all__ = ["CLOSED", "Breaker"]

_OPENS_AFTER = 5
_FIRST_S, _LONGEST_S = 10.0, 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """How a receiver has been doing. `failures`: in a row; `until_s`: it is left in peace till then.

    Open after five failures in a row; then one attempt decides (half-open): it closes, or stays
    open for longer. `since_s`: the first failure of the row.
    """

    failures: int = 0
    since_s: float | None = None
    until_s: float = 0.0
    detail: str = ""

    @property
    def open(self) -> bool:
        return self.failures >= _OPENS_AFTER

    def allows(self, now_s: float) -> bool:
        return now_s >= self.until_s

    def after(self, attempt: Attempt, now_s: float) -> Breaker:
        """An answer closes it, also a no to this one notification."""
        if attempt.fate is not Fate.RETRY:
            return CLOSED
        failures = self.failures + 1
        own_s = 0.0
        if failures >= _OPENS_AFTER:
            own_s = min(_FIRST_S * 2.0 ** min(failures - _OPENS_AFTER, 10), _LONGEST_S)
        wait_s = max(own_s, attempt.retry_after_s or 0.0)
        return replace(
            self,
            failures=failures,
            since_s=now_s if self.since_s is None else self.since_s,
            until_s=now_s + wait_s,
            detail=attempt.detail,
        )


CLOSED = Breaker()
"""All is well, or nothing was tried yet."""
