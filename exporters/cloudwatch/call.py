"""Calls to AWS: one bucket per API, full-jitter back-off, and a breaker for one that only fails."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import TypeVar

from exporters.cloudwatch.failure import CallError, ThrottledError

__all__ = ["Caller", "TokenBucket"]

_T = TypeVar("_T")
_ATTEMPTS = 8
_FIRST_S, _LONGEST_S = 0.25, 5.0
_BREAKS_AFTER = 3
_BREAK_S, _LONGEST_BREAK_S = 60.0, 600.0
_MOST_DOUBLINGS = 10
Sleep = Callable[[float], object]


@dataclass(slots=True)
class TokenBucket:
    """At most `rate_per_s` calls over time; a second's worth of them may come at once."""

    rate_per_s: float
    clock: Callable[[], float] = time.monotonic
    _tokens: float = 1.0
    _at_s: float | None = None
    _lock: Lock = field(default_factory=Lock)

    def wait_s(self) -> float:
        """Take a token; how long to wait until it is there."""
        with self._lock:
            now_s = self.clock()
            passed_s = now_s - self._at_s if self._at_s is not None else 1.0
            self._at_s = now_s
            self._tokens = min(max(1.0, self.rate_per_s), self._tokens + passed_s * self.rate_per_s)
            self._tokens -= 1
            return max(0.0, -self._tokens / self.rate_per_s)


@dataclass(slots=True)
class Caller:
    """The calls of one account and region; all exporters of a process that read it share one."""

    calls_per_s: float
    sleep: Sleep = time.sleep
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[float, float], float] = random.uniform
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)  # (API, outcome)
    _buckets: dict[str, TokenBucket] = field(default_factory=dict)
    _failed: Counter[str] = field(default_factory=Counter)
    _open_until_s: dict[str, float] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def call(self, api: str, send: Callable[[], _T]) -> _T:
        """The answer, or the last failure once trying again is hopeless."""
        if self.clock() < self._open_until_s.get(api, 0.0):
            self._count(api, "not_tried")
            raise CallError("resting", "only failed here; it is left alone for a while")
        for attempt in range(_ATTEMPTS):
            self.sleep(self._bucket(api).wait_s())
            try:
                answer = send()
            except CallError as failure:
                self._count(
                    api, "throttled" if isinstance(failure, ThrottledError) else failure.reason
                )
                if not failure.retryable or attempt == _ATTEMPTS - 1:
                    if failure.reason != "refused":  # why: that was about this question only
                        self._gave_up(api)
                    raise
                self.sleep(self.jitter(0.0, min(_LONGEST_S, _FIRST_S * 2**attempt)))
            else:
                self._count(api, "ok")
                self._failed[api] = 0
                return answer
        raise AssertionError("the last attempt answers or raises")

    def _bucket(self, api: str) -> TokenBucket:
        with self._lock:
            return self._buckets.setdefault(api, TokenBucket(self.calls_per_s, self.clock))

    def _count(self, api: str, outcome: str) -> None:
        with self._lock:
            self.counts[api, outcome] += 1

    def _gave_up(self, api: str) -> None:
        """Each API by itself: who may not list metrics may still read them."""
        self._failed[api] += 1
        if self._failed[api] >= _BREAKS_AFTER:
            doublings = min(self._failed[api] - _BREAKS_AFTER, _MOST_DOUBLINGS)
            rest_s = min(_BREAK_S * 2**doublings, _LONGEST_BREAK_S)
            self._open_until_s[api] = self.clock() + rest_s
