"""One GPU as the parent knows it: its last reading, how far its counters are, whether it is there."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from domain.metric import METRICS, Kind

__all__ = ["Folded", "Gpu", "metric_of", "parts_of"]

Values = Mapping[str, float]
_REMEMBERED = 64
_SAME_NS = 10_000_000_000


def metric_of(key: str) -> str:
    """`gpu_throttle/hw_thermal` is a series of gpu_throttle."""
    return key.partition("/")[0]


def parts_of(told: Mapping[str, Any], uuid: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The board and each of its MIG instances, by UUID."""
    yield uuid, told
    for instance in told.get("instances", ()):
        yield str(instance["uuid"]), instance


@dataclass(slots=True)
class Folded:
    """What a gauge said between two exports: mean, or the extreme that its kind keeps."""

    value: float
    readings: int = 1

    def add(self, kind: Kind, value: float) -> None:
        if kind is Kind.MAXIMUM:
            self.value = max(self.value, value)
        elif kind is Kind.MINIMUM:
            self.value = min(self.value, value)
        else:
            self.value += (value - self.value) / (self.readings + 1)
        self.readings += 1


@dataclass(slots=True)
class _Count:
    """A counter of the driver: its last state, what we show, and what is still to be sent."""

    raw: float
    shown: float
    since_ns: int
    pending: float = 0.0

    def to(self, raw: float) -> None:
        """A counter that stepped back (driver reload, wrap) grew by nobody knows what: nothing."""
        if raw >= self.raw:
            self.pending += raw - self.raw
            self.shown += raw - self.raw
        self.raw = raw


@dataclass(slots=True)
class Gpu:
    """Everything about one GPU but the time: that is an argument."""

    id: str
    index: int
    labels: dict[str, str] = field(default_factory=dict)
    told: Mapping[str, Any] | None = None
    read_at_s: float | None = None
    heard_at_s: float | None = None
    at_ns: int = 0
    took_s: float = 0.0
    down: str = ""
    hangs_in: str = ""
    counts: dict[tuple[str, str], _Count] = field(default_factory=dict)
    folded: dict[tuple[str, str], Folded] = field(default_factory=dict)
    rejected: Counter[tuple[str, str]] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    sent: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    event_at_ns: dict[str, int] = field(default_factory=dict)
    told_once: dict[str, deque[tuple[str, int]]] = field(default_factory=dict)

    def read(self, message: Mapping[str, Any], deadline_s: float) -> None:
        """Take in one reading, or the word why there is none."""
        self.index = int(message["index"])
        self.heard_at_s = float(message["begun_s"])
        if message["took_s"] > deadline_s:  # the answer of a hang: too old to be shown
            return
        self.hangs_in = ""
        if "down" in message:
            self.down = str(message["down"])
            self.forget()
            return
        self.down = ""
        self.told, self.read_at_s = message, self.heard_at_s
        self.at_ns, self.took_s = int(message["at_ns"]), float(message["took_s"])
        for uuid, part in parts_of(message, self.id):
            self._take(uuid, part)

    def _take(self, uuid: str, part: Mapping[str, Any]) -> None:
        for key, value in part["levels"].items():
            place = self.folded.get((uuid, key))
            if place is None:
                self.folded[uuid, key] = Folded(value)
            else:
                place.add(METRICS[metric_of(key)].kind, value)
        for key, value in part["totals"].items():
            count = self.counts.get((uuid, key))
            if count is None:
                self.counts[uuid, key] = _Count(value, value, self.at_ns)
            else:
                count.to(value)
        for name, number in part["rejected"].items():
            self.rejected[uuid, name] += number

    def happened(self, message: Mapping[str, Any]) -> None:
        """An XID or another event: counted, and when the last one was.

        Driver and kernel log tell of the same XID once each, in any order: the second is no other.
        """
        word = f"xid/{message['xid']}" if "xid" in message else f"event/{message['event']}"
        at_ns, source = int(message["at_ns"]), str(message.get("source", "driver"))
        if self._is_known(word, at_ns, source):
            return
        self.told_once.setdefault(source, deque(maxlen=_REMEMBERED)).append((word, at_ns))
        self.events[word] += 1
        self.event_at_ns[word] = max(at_ns, self.event_at_ns.get(word, 0))

    def _is_known(self, word: str, at_ns: int, source: str) -> bool:
        """Another source told it shortly before; then that is used up."""
        for other, told in self.told_once.items():
            for each in told if other != source else ():
                if each[0] == word and abs(each[1] - at_ns) <= _SAME_NS:
                    told.remove(each)
                    return True
        return False

    def forget(self) -> None:
        """Withdraw the values; what was counted is kept."""
        self.told = None
        self.folded.clear()

    def state(self, now_s: float, deadline_s: float) -> str:
        """Empty while it answers in time; else one word why not."""
        if self.down:
            return self.down
        if self.read_at_s is not None and now_s - self.read_at_s <= deadline_s:
            return ""
        if self.hangs_in:
            return "hung"
        return "stale" if self.heard_at_s is not None else "starting"
