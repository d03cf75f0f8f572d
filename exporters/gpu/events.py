"""Events that the driver reports by itself: XID errors above all, each with its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from exporters.gpu.nvml import Nvml, Unavailable

__all__ = ["Events"]

_XID = 0x8
_WORDS: Final = {
    0x800: "dram_retirement_failure",
    0x1000: "poison",
    0x2000: "fatal_poison",
    0x4000: "gpu_unavailable",
    0x8000: "recovery_action",
}
_WAIT_MS = 1000
_LARGEST_XID = 9999


class Events:
    """One event set for all boards of a process, and the thread that waits on it."""

    def __init__(self, nvml: Nvml, emit: Callable[[Mapping[str, Any]], None]) -> None:
        self._nvml = nvml
        self._emit = emit
        self._uuids: dict[int, str] = {}
        self._set: Any = None
        try:
            self._set = nvml.ask("nvmlEventSetCreate")
        except Unavailable:
            return
        threading.Thread(target=self._run, name="events", daemon=True).start()

    def register(self, uuid: str, handle: Any) -> str:
        """Listen to one more board; the word why that cannot be, or nothing."""
        if self._set is None:
            return "not_supported"
        try:
            supported = self._nvml.ask("nvmlDeviceGetSupportedEventTypes", handle)
            wanted = (_XID | sum(_WORDS)) & int(supported)
            self._nvml.ask("nvmlDeviceRegisterEvents", handle, wanted, self._set)
        except Unavailable as missing:
            return missing.reason
        self._uuids[self._nvml.address(handle)] = uuid
        return ""

    def _run(self) -> None:
        while True:
            try:
                event = self._nvml.ask("nvmlEventSetWait_v2", self._set, _WAIT_MS)
            except Unavailable as missing:
                if missing.reason != "timeout":
                    time.sleep(_WAIT_MS / 1000)  # the driver went; the process will be replaced
                continue
            uuid = self._uuids.get(self._nvml.address(event.device))
            if uuid is not None:
                self._emit({"kind": "event", "id": uuid, **_told(event), "at_ns": time.time_ns()})


def _told(event: Any) -> dict[str, Any]:
    kind = int(event.eventType)
    number = int(event.eventData)
    if kind == _XID and number <= _LARGEST_XID:
        return {"xid": number}
    # why: each word is a series, and garbage has as many as it likes
    return {"event": "garbled" if kind == _XID else _WORDS.get(kind, "unknown")}
