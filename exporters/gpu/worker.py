"""The reading process: one thread for each GPU, what they read as JSON lines to the parent.

It ends when its parent does, or when only a new process can talk to the driver again. It imports
the standard library and the driver's bindings, nothing else.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from exporters.gpu.board import Board
from exporters.gpu.dcgm import dcgm_present
from exporters.gpu.events import Events
from exporters.gpu.failure import DRIVER_GONE
from exporters.gpu.identity import identity
from exporters.gpu.nvml import Nvml, Unavailable
from exporters.gpu.orders import Orders

__all__ = ["main"]

_LOG = logging.getLogger(__name__)
_WATCH_S: Final = 0.1
_CENSUS_S: Final = 5.0
_DCGM_EVERY_S: Final = 60.0
_ALIVE_S: Final = 1.0
_MOST_GPUS: Final = 256
_GONE = 4  # the exit status of a process that the driver left


class _Voice:
    """Messages to the parent, one line each, whole."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def say(self, message: Mapping[str, Any]) -> None:
        line = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        with self._lock:
            while line:
                line = line[os.write(self._descriptor, line) :]


@dataclass(slots=True)
class _Worker:
    nvml: Nvml
    orders: Orders
    voice: _Voice
    events: Events
    activity_off: str = ""
    seats: list[_Seat] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)
    doubt: threading.Event = field(default_factory=threading.Event)

    def count(self) -> int:
        return _count(self.nvml)

    def take(self, uuid: str, index: int) -> bool:
        """A GPU has one seat, however the driver counts."""
        with self.lock:
            return self.taken.setdefault(uuid, index) == index


class _Seat(threading.Thread):
    """Reads one GPU on a grid that does not drift. What hangs here hangs alone."""

    def __init__(self, worker: _Worker, index: int) -> None:
        super().__init__(name=f"gpu {index}", daemon=True)
        self.index = index
        self.begun_s: float | None = None
        self._worker = worker
        self._board: Board | None = None

    @property
    def id(self) -> str:
        return self._board.uuid if self._board is not None else f"index-{self.index}"

    @property
    def asking(self) -> str:
        return self._board.asking if self._board is not None else "handle"

    def run(self) -> None:
        interval_s = self._worker.orders.interval_s
        next_s = time.monotonic()
        while True:
            self.begun_s = time.monotonic()
            if not self._once(self.begun_s):
                self.begun_s = None
                return
            self.begun_s = None
            ticks = (time.monotonic() - next_s) // interval_s + 1
            next_s += ticks * interval_s
            time.sleep(max(next_s - time.monotonic(), 0.0))

    def _once(self, begun_s: float) -> bool:
        """One reading; false when this GPU is for another process."""
        at_ns = time.time_ns()
        try:
            if self._board is None and not self._find():
                return False
            told = self._read()
        except Unavailable as missing:
            told = {"down": missing.reason, "call": "handle"}
        except Exception:  # noqa: BLE001 - what one GPU answers must not end its readings
            _LOG.exception("a fault of ours while reading GPU %s", self.id)
            told = {"down": "reader_fault", "call": self.asking}
        if "down" in told:
            self._worker.doubt.set()
        head = {"kind": "gpu", "id": self.id, "index": self.index, "at_ns": at_ns}
        took_s = time.monotonic() - begun_s
        self._worker.voice.say({**head, "begun_s": begun_s, "took_s": took_s, **told})
        return True

    def _read(self) -> dict[str, Any]:
        if self._board is None:
            return {"down": "gpu_not_found", "call": "handle"}
        self._board.activity_off = self._worker.activity_off
        return self._board.read()

    def _find(self) -> bool:
        """The GPU of this seat: that of its index, or one that has no seat. Raises Unavailable."""
        worker, place = self._worker, f"index-{self.index}"
        if not worker.orders.wants(place):
            return False
        for index in (self.index, *range(worker.count())):
            handle = worker.nvml.ask("nvmlDeviceGetHandleByIndex", index)
            uuid = worker.nvml.text("nvmlDeviceGetUUID", handle)
            if not worker.take(uuid, self.index):
                continue
            if not worker.orders.wants(uuid, place):
                return False
            self._board = Board(worker.nvml, uuid)
            worker.voice.say(
                {
                    "kind": "identity",
                    "id": uuid,
                    "index": index,
                    "labels": identity(worker.nvml, handle),
                    "events": worker.events.register(uuid, handle),
                }
            )
            return True
        raise Unavailable("gpu_not_found")


def main(orders_json: str) -> None:
    """Until the parent goes or the driver does."""
    told: dict[str, Any] = json.loads(orders_json)
    lists = {name: tuple(told[name]) for name in ("only", "skip")}
    orders = Orders(**{**told, **lists})
    voice = _Voice(os.dup(sys.stdout.fileno()))
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # why: a driver may print what it likes
    threading.Thread(target=_end_with_parent, daemon=True).start()
    nvml = _started(voice)
    worker = _Worker(nvml, orders, voice, Events(nvml, voice.say), _activity_off(orders))
    threading.Thread(target=_census, args=(worker,), name="census", daemon=True).start()
    while True:
        voice.say({"kind": "alive"})
        said_at_s = time.monotonic()
        while time.monotonic() - said_at_s < _ALIVE_S:
            _watch(worker)
            time.sleep(_WATCH_S)


def _count(nvml: Nvml) -> int:
    """How many GPUs there are; a number that no machine has is none. Raises Unavailable."""
    count = int(nvml.ask("nvmlDeviceGetCount"))
    if count > _MOST_GPUS:
        raise Unavailable("impossible_count")
    return count


def _started(voice: _Voice) -> Nvml:
    try:
        nvml = Nvml()
    except ImportError:
        _gone(voice, "bindings_missing")
    try:
        nvml.ask("nvmlInit")
        version = nvml.text("nvmlSystemGetDriverVersion")
        count = _count(nvml)
    except Unavailable as missing:
        _gone(voice, missing.reason)
    voice.say({"kind": "driver", "up": True, "version": version, "count": count})
    return nvml


def _gone(voice: _Voice, reason: str) -> NoReturn:
    """Say why, and go: function pointers of the old library must not be used again."""
    voice.say({"kind": "driver", "up": False, "reason": reason})
    os._exit(_GONE)


def _end_with_parent() -> None:
    """The parent holds the other end of our standard input and never writes to it."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    os._exit(0)


def _activity_off(orders: Orders) -> str:
    if orders.activity == "off":
        return "switched_off"
    return "dcgm_present" if orders.activity == "auto" and dcgm_present(orders.dcgm_port) else ""


def _census(worker: _Worker) -> None:
    """A seat for each GPU, also one that comes later; and whether the driver is still ours."""
    looked_at_s = time.monotonic()
    while True:
        try:
            count = worker.count()
        except Unavailable as missing:
            broken = missing.reason in DRIVER_GONE or missing.reason == "unknown_error"
            if broken:
                _gone(worker.voice, missing.reason)
            count = len(worker.seats)
        for index in range(len(worker.seats), count):
            seat = _Seat(worker, index)
            worker.seats.append(seat)
            seat.start()
        if time.monotonic() - looked_at_s >= _DCGM_EVERY_S:
            looked_at_s = time.monotonic()
            worker.activity_off = _activity_off(worker.orders)
        worker.doubt.wait(_CENSUS_S)
        time.sleep(_WATCH_S)
        worker.doubt.clear()


def _watch(worker: _Worker) -> None:
    """Name the question that a GPU does not answer in time."""
    now_s = time.monotonic()
    for seat in list(worker.seats):
        begun_s = seat.begun_s
        if begun_s is not None and now_s - begun_s > worker.orders.deadline_s / 2:
            worker.voice.say(
                {
                    "kind": "overdue",
                    "id": seat.id,
                    "index": seat.index,
                    "call": seat.asking,
                    "begun_s": begun_s,
                }
            )


if __name__ == "__main__":
    main(sys.argv[1])
