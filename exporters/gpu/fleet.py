"""All GPUs of the node as the reading processes told of them, and the driver's own state."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from exporters.gpu.gpu import Gpu

__all__ = ["Fleet"]


class Fleet:
    """Takes messages from any thread. A GPU that was seen once is never forgotten."""

    def __init__(
        self, *, deadline_s: float, changed: Callable[[Gpu], None] = lambda _: None
    ) -> None:
        self.lock = threading.RLock()
        self.gpus: dict[str, Gpu] = {}
        self.driver_down = "starting"
        self.driver_version = ""
        self.driver_since_s: float | None = None
        self.promised = 0
        self.replaced: Counter[str] = Counter()
        self.pids: dict[str, tuple[int, ...]] = {}
        self._deadline_s = deadline_s
        self._changed = changed

    def take(self, message: Mapping[str, Any], now_s: float) -> None:
        """One message of a reading process."""
        with self.lock:
            kind = message["kind"]
            if kind == "driver":
                self._driver(message, now_s)
                return
            gpu = self._gpu(str(message["id"]), int(message.get("index", -1)))
            if kind == "identity":
                gpu.labels = dict(message["labels"])
                if message["events"]:
                    gpu.labels["events"] = str(message["events"])
                self.gpus.pop(f"index-{message['index']}", None)
            elif kind == "gpu":
                gpu.read(message, self._deadline_s)
                self._note_pids(gpu)
            elif kind == "overdue":
                gpu.hangs_in = str(message["call"])
            elif kind == "event":
                gpu.happened(message)
            self._changed(gpu)

    def lost_driver(self, reason: str, now_s: float) -> None:
        """The driver is gone or let go: nothing that was read is true any more."""
        with self.lock:
            if not self.driver_down:
                self.driver_since_s = now_s
            self.driver_down = reason
            for gpu in self.gpus.values():
                gpu.forget()
                gpu.read_at_s = gpu.heard_at_s = None
                gpu.down = gpu.hangs_in = ""
                self._changed(gpu)

    def driver_of_one(self, name: str, message: Mapping[str, Any]) -> None:
        """What a process that reads one GPU says of the driver holds for that GPU alone."""
        with self.lock:
            gpu = self.gpus.get(name)
            if gpu is not None and not message["up"]:
                gpu.down = str(message["reason"])
                gpu.forget()
                self._changed(gpu)

    def state(self, gpu: Gpu, now_s: float) -> str:
        """Empty while a GPU answers; else why not."""
        if self.driver_down:
            return self.driver_down
        word = gpu.state(now_s, self._deadline_s)
        if word in ("stale", "starting") and not self._promised(gpu, now_s):
            return "missing"
        return word

    def _promised(self, gpu: Gpu, now_s: float) -> bool:
        """Whether the driver of now may still tell of it: it is new, or told of it already."""
        since_s = self.driver_since_s if self.driver_since_s is not None else now_s
        heard = gpu.heard_at_s is not None and gpu.heard_at_s >= since_s
        return heard or now_s - since_s <= self._deadline_s

    def all_up(self, now_s: float) -> bool:
        """Whether every GPU that the driver counts answers."""
        with self.lock:
            up = [gpu for gpu in self.gpus.values() if not self.state(gpu, now_s)]
            return len(up) == len(self.gpus) >= self.promised

    def withdraw(self, now_s: float) -> None:
        """Let go of the values of every GPU that does not answer in time."""
        with self.lock:
            for gpu in self.gpus.values():
                if gpu.told is not None and self.state(gpu, now_s):
                    gpu.forget()
                    self._changed(gpu)

    def overdue(self, now_s: float, after_s: float) -> set[str]:
        """GPUs of which nothing at all was heard for that long."""
        with self.lock:
            return {
                gpu.id
                for gpu in self.gpus.values()
                if gpu.hangs_in and gpu.heard_at_s is not None and now_s - gpu.heard_at_s > after_s
            } | {gpu.id for gpu in self.gpus.values() if gpu.hangs_in and gpu.heard_at_s is None}

    def _driver(self, message: Mapping[str, Any], now_s: float) -> None:
        if message["up"]:
            self.driver_down = ""
            self.driver_version = str(message["version"])
            self.promised = int(message["count"])
            self.driver_since_s = now_s
        else:
            self.lost_driver(str(message["reason"]), now_s)

    def _gpu(self, name: str, index: int) -> Gpu:
        """A GPU that cannot say who it is any more is the one known by its index."""
        if name.startswith("index-"):
            for gpu in self.gpus.values():
                if gpu.index == index and not gpu.id.startswith("index-"):
                    return gpu
        return self.gpus.setdefault(name, Gpu(name, index))

    def _note_pids(self, gpu: Gpu) -> None:
        told = gpu.told or {}
        self.pids[gpu.id] = tuple(told.get("pids", ()))
        for instance in told.get("instances", ()):
            self.pids[str(instance["uuid"])] = tuple(instance["pids"])
