"""Which reading processes there are: one for all GPUs, and one for each GPU that hangs too long."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from threading import Event
from typing import Any, Final

from exporters.gpu.fleet import Fleet
from exporters.gpu.orders import Orders
from exporters.gpu.reading_process import ReadingProcess

__all__ = ["Supervisor"]

_LOG = logging.getLogger(__name__)
_TICK_S: Final = 0.2
_FIRST_WAIT_S: Final = 0.25
_LONGEST_WAIT_S: Final = 10.0
_MOST_ABANDONED: Final = 16
_MOST_DOUBLINGS: Final = 10
_ALL: Final = ""


@dataclass(slots=True)
class _Slot:
    """One place for a process: for all GPUs, or for one alone."""

    orders: Orders
    process: ReadingProcess | None = None
    started_at_s: float = 0.0
    failures: int = 0
    not_before_s: float = 0.0


class Supervisor:
    """Starts reading processes, and replaces those that end or hang."""

    def __init__(
        self,
        fleet: Fleet,
        orders: Orders,
        *,
        replace_after_s: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.abandoned: list[ReadingProcess] = []
        self._fleet = fleet
        self._orders = orders
        self._replace_after_s = replace_after_s
        self._now = now
        self._slots: dict[str, _Slot] = {_ALL: _Slot(orders)}
        self._released_until_s = 0.0
        self._lock = threading.Lock()

    @property
    def pids(self) -> list[int]:
        """The processes that read now."""
        return [slot.process.pid for slot in self._slots.values() if slot.process is not None]

    def run(self, stop: Event) -> None:
        """Until `stop`; then all reading processes are ended."""
        while not stop.wait(_TICK_S):
            self.tick()
        self.close()

    def release(self, for_s: float) -> None:
        """Let go of the driver for a while: an open device blocks its upgrade."""
        with self._lock:
            self._released_until_s = self._now() + for_s
            for slot in self._slots.values():
                self._end(slot)
            self._fleet.lost_driver("released", self._now())

    def close(self) -> None:
        with self._lock:
            for slot in self._slots.values():
                self._end(slot)

    def tick(self) -> None:
        """One look at everything."""
        now_s = self._now()
        with self._lock:
            self._fleet.withdraw(now_s)
            if now_s < self._released_until_s:
                return
            self.abandoned = [each for each in self.abandoned if not each.ended]
            self._isolate(now_s)
            self._bring_home(now_s)
            for name, slot in self._slots.items():
                if self._is_silent(slot, now_s):
                    self._replace(name, "silent", now_s)
                self._look_after(name, slot, now_s)

    def _look_after(self, name: str, slot: _Slot, now_s: float) -> None:
        if slot.process is not None and slot.process.ended:
            reason = slot.process.last_word or "crashed"
            self._end(slot)
            if now_s - slot.started_at_s > _LONGEST_WAIT_S:
                slot.failures = 0
            doublings = min(slot.failures, _MOST_DOUBLINGS)
            wait_s = min(_FIRST_WAIT_S * 2**doublings, _LONGEST_WAIT_S)
            slot.failures += 1
            slot.not_before_s = now_s + wait_s
            self._fleet.replaced[reason] += 1
            if reason == "crashed":
                self._hear(name, {"kind": "driver", "up": False, "reason": "reader_crashed"})
            _LOG.info("a reading process ended (%s); the next one in %.1f s", reason, wait_s)
        if slot.process is None and now_s >= slot.not_before_s:
            if len(self.abandoned) >= _MOST_ABANDONED:
                return
            slot.process = ReadingProcess(slot.orders, partial(self._hear, name))
            slot.started_at_s = now_s
            _LOG.info("reading process %d started for %s", slot.process.pid, name or "all GPUs")

    def _hear(self, name: str, message: Mapping[str, Any]) -> None:
        """Of the driver only the process of all GPUs speaks for all."""
        if name != _ALL and message["kind"] == "driver":
            self._fleet.driver_of_one(name, message)
        else:
            self._fleet.take(message, self._now())

    def _isolate(self, now_s: float) -> None:
        """GPUs that hang go into processes of their own, so that nothing they hold hurts others."""
        overdue = self._fleet.overdue(now_s, self._replace_after_s)
        main = self._slots[_ALL]
        hung = {each for each in overdue if each not in self._slots}
        if hung and now_s - main.started_at_s > self._replace_after_s:
            for each in sorted(hung):
                self._slots[each] = _Slot(replace(self._orders, only=self._names(each)))
                _LOG.warning("GPU %s hangs; it gets a reading process of its own", each)
            self._replace(_ALL, "hung", now_s)
        for each in overdue - hung:
            if now_s - self._slots[each].started_at_s > self._replace_after_s:
                self._replace(each, "hung", now_s)

    def _bring_home(self, now_s: float) -> None:
        """A GPU that answered alone for long enough is read with the others again."""
        well = [name for name in self._slots if name != _ALL and self._is_well(name, now_s)]
        for name in well:
            self._end(self._slots.pop(name))
            _LOG.warning("GPU %s answers again", name)
        if well:
            self._replace(_ALL, "reunited", now_s)

    def _is_silent(self, slot: _Slot, now_s: float) -> bool:
        """A process always has something to say, be it that a GPU hangs; this one stands still."""
        process = slot.process
        return process is not None and now_s - process.heard_at_s > self._replace_after_s

    def _is_well(self, name: str, now_s: float) -> bool:
        """It has answered alone for long enough, or has told its true name by now."""
        gpu = self._fleet.gpus.get(name)
        long_enough = now_s - self._slots[name].started_at_s > self._replace_after_s
        return gpu is None or (long_enough and not self._fleet.state(gpu, now_s))

    def _replace(self, name: str, reason: str, now_s: float) -> None:
        """End a process; the next tick starts its successor."""
        slot = self._slots[name]
        self._fleet.replaced[reason] += 1
        self._end(slot)
        slot.started_at_s = now_s
        if name == _ALL:
            alone = [part for each in self._slots if each for part in self._names(each)]
            slot.orders = replace(self._orders, skip=tuple(alone))

    def _names(self, gpu_id: str) -> tuple[str, ...]:
        """A GPU by UUID and by index: one that hangs at once never says its UUID."""
        gpu = self._fleet.gpus.get(gpu_id)
        return (gpu_id, f"index-{gpu.index}") if gpu is not None else (gpu_id,)

    def _end(self, slot: _Slot) -> None:
        process, slot.process = slot.process, None
        if process is not None and not process.end():
            self.abandoned.append(process)
            _LOG.error("reading process %d hangs in the driver and cannot be ended", process.pid)
