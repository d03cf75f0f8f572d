"""One sender's samples of one target, put together again into whole scrapes.

A Prometheus spreads a scrape over several queues; each of them delivers what it has in order. So a
scrape is whole once every series that we know has spoken at its time or later. It is given out at
once then, unless series came or went: others may come with them, and some time is left to them.
A scrape that lacks series is never given out: its counters are cumulative, so the next one tells
what it would have told. What comes after its scrape was given out is late, and dropped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from collector.intake import Overloaded
from collector.native_histogram import NativeHistogram
from domain.labels import Labels

__all__ = ["UP", "Flow", "Patience", "Scrape", "Stream", "Value"]

UP: Final = "up"
_MOST_WAITING: Final = 1000
_GONE: Final = 5
_RETRY_S: Final = 1.0

Value = float | NativeHistogram


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long parts of a scrape are waited for: when series come or go, and when some are missing."""

    settle_s: float
    patience_s: float


@dataclass(slots=True, eq=False)
class Stream:
    """One series as one sender writes it. `flow` is None once it was forgotten."""

    name: str
    labels: Labels
    flow: Flow | None
    first_at_ms: int = 0
    newest_at_ms: int = -1
    heard_s: float = 0.0
    own: tuple[frozenset[str], Labels] | None = None  # what is the engine's, without these names


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrape:
    """Everything a target said at one instant; `is_up` is false where it did not answer.

    `late` are the first words of series that nobody knew of, and that belong to scrapes given out
    before: instant and value.
    """

    at_ms: int
    values: Mapping[Stream, Value]
    is_up: bool = True
    late: Mapping[Stream, tuple[int, Value]] = field(default_factory=dict)


@dataclass(slots=True)
class _Part:
    """A scrape as far as it has come. `newer_since_s`: when a later one was first heard of."""

    values: dict[Stream, Value] = field(default_factory=dict)
    newer_since_s: float | None = None
    is_down: bool = False


class Flow:
    """What came and is not given out yet. Not safe to share: whoever holds several has the lock."""

    def __init__(self, patience: Patience) -> None:
        self.counts: Counter[str] = Counter()
        self.done_at_ms = -1
        self.heard_s = 0.0
        self._patience = patience
        self._parts: dict[int, _Part] = {}
        self._alive: set[Stream] = set()
        self._late: dict[Stream, tuple[int, Value]] = {}
        self._changed_at_ms = -1
        self._is_calm = False  # after a scrape in which nothing was expected to come or go
        self._is_learning = True  # what was sent before we listened, we cannot know

    @property
    def waiting(self) -> int:
        """Scrapes that are not given out yet."""
        return len(self._parts)

    @property
    def held(self) -> int:
        """Their samples."""
        return sum(len(part.values) for part in self._parts.values())

    def put(self, stream: Stream, at_ms: int, value: Value | None, now_s: float) -> None:
        """A sample; None ends the series. The same sample again changes nothing."""
        if at_ms <= self.done_at_ms:
            self.counts["late_samples"] += 1
            if value is not None and stream.newest_at_ms < 0:
                self._late[stream] = (at_ms, value)
        else:
            part = self._parts.get(at_ms) or self._begin(at_ms, now_s)
            if value is not None:
                part.values[stream] = value
                part.is_down = part.is_down or (stream.name == UP and value == 0)
        stream.heard_s = self.heard_s = now_s
        if at_ms <= stream.newest_at_ms:
            return
        stream.newest_at_ms = at_ms
        if (stream in self._alive) != (value is not None):
            self._come_or_go(stream, at_ms, value)

    def forget(self, stream: Stream) -> None:
        """Expect nothing of it any more."""
        self._alive.discard(stream)
        self._late.pop(stream, None)
        stream.flow = None

    def next(self, now_s: float) -> Scrape | None:
        """The oldest scrape, if it is whole or known to be down; what never will be is skipped."""
        while self._parts:
            at_ms = min(self._parts)
            part = self._parts[at_ms]
            if part.is_down:
                self._is_calm = False
                return self._give(at_ms, is_up=False)
            if self._is_plain(at_ms, part):
                return self._give(at_ms)
            waited_s = now_s - part.newer_since_s if part.newer_since_s is not None else -1.0
            lagging = {one for one in self._alive if one.newest_at_ms < at_ms}
            if waited_s < (self._patience.patience_s if lagging else self._patience.settle_s):
                return None
            if not lagging and not self._lacks_any(at_ms, part):
                self._is_calm = at_ms >= self._changed_at_ms
                self._is_learning = False
                return self._give(at_ms)
            self._skip(at_ms, [one for one in lagging if self._is_gone(one, now_s)])
        return None

    def _begin(self, at_ms: int, now_s: float) -> _Part:
        if len(self._parts) >= _MOST_WAITING:
            raise Overloaded(_RETRY_S)
        newest = max(self._parts, default=-1)
        for other_ms, part in self._parts.items():
            if other_ms < at_ms and part.newer_since_s is None:
                part.newer_since_s = now_s
        self._parts[at_ms] = _Part(newer_since_s=now_s if at_ms < newest else None)
        return self._parts[at_ms]

    def _come_or_go(self, stream: Stream, at_ms: int, value: Value | None) -> None:
        if value is None:
            self._alive.discard(stream)
        else:
            self._alive.add(stream)
            stream.first_at_ms = at_ms
        self._changed_at_ms = max(self._changed_at_ms, at_ms)

    def _is_plain(self, at_ms: int, part: _Part) -> bool:
        """Exactly the series that were there before, and nothing to wait for."""
        if not self._is_calm or at_ms <= self._changed_at_ms:
            return False
        return len(part.values) == len(self._alive)

    def _lacks_any(self, at_ms: int, part: _Part) -> bool:
        """Whether a series is missing that was there by then; while we learn, that is there at all."""
        return any(
            one not in part.values and (self._is_learning or one.first_at_ms <= at_ms)
            for one in self._alive
        )

    def _is_gone(self, stream: Stream, now_s: float) -> bool:
        """Nobody said that it ended, but it has been silent for long."""
        return now_s - stream.heard_s > _GONE * self._patience.patience_s

    def _skip(self, at_ms: int, gone: Sequence[Stream]) -> None:
        """Go on without this scrape, and without what is gone."""
        if gone:
            self._alive.difference_update(gone)
            self._changed_at_ms = max(self._changed_at_ms, at_ms)
        self.counts["skipped_first_scrapes" if self._is_learning else "partial_scrapes"] += 1
        self.done_at_ms = at_ms
        del self._parts[at_ms]

    def _give(self, at_ms: int, *, is_up: bool = True) -> Scrape:
        self.done_at_ms = at_ms
        late, self._late = self._late, {}
        values = self._parts.pop(at_ms).values
        return Scrape(at_ms=at_ms, values=values, is_up=is_up, late=late)
