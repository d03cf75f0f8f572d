"""The MIG instances of a board: which there are, and what each of them says for itself.

Board metrics are told once per board. Memory belongs to a GPU instance and is told once for it,
under the first of its compute instances, which share it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from exporters.gpu.activity import Activity
from exporters.gpu.failure import LASTING
from exporters.gpu.nvml import Nvml, Unavailable
from exporters.gpu.processes import Processes
from exporters.gpu.questions import memory

__all__ = ["Instance", "Instances"]

_MOST_INSTANCES: Final = 64
_NOT_THERE: Final = ("not_found", "invalid_argument")  # a hole in the range, or gone just now


class Instance:
    """One MIG device."""

    def __init__(self, nvml: Nvml, handle: Any, asked: Processes, *, first: bool) -> None:
        self.handle = handle
        self.first = first
        self._nvml = nvml
        self._asked = asked
        self.pids: list[int] = []
        self.uuid = nvml.text("nvmlDeviceGetUUID", handle)
        self._name = nvml.text("nvmlDeviceGetName", handle)
        self._gpu_instance = int(nvml.ask("nvmlDeviceGetGpuInstanceId", handle))
        self._compute_instance = int(nvml.ask("nvmlDeviceGetComputeInstanceId", handle))
        self._activity: Activity | None = Activity(nvml, self._gpu_instance) if first else None

    def identity(self) -> dict[str, Any]:
        return {
            "uuid": self.uuid,
            "name": self._name,
            "gi": self._gpu_instance,
            "ci": self._compute_instance,
        }

    def ask(
        self, put: Callable[[Mapping[str, float]], None], board: Any, *, activity: bool
    ) -> dict[str, str]:
        """Fill a sheet; what is missing, and why."""
        absent: dict[str, str] = {}
        if self.first:
            self._try(absent, "gpu_memory", lambda: put(memory(self._nvml, self.handle)))
        self._try(absent, "gpu_processes", lambda: put(self._processes()))
        if self._activity is not None and activity:
            reader = self._activity
            if not self._try(absent, "gpu_activity", lambda: put(reader.read(board))):
                lasting = absent["gpu_activity"] in LASTING
                self._activity = None if lasting else Activity(self._nvml, self._gpu_instance)
        return absent

    def _try(self, absent: dict[str, str], name: str, ask: Callable[[], None]) -> bool:
        try:
            ask()
        except Unavailable as missing:
            absent[name] = missing.reason
            return False
        return True

    def _processes(self) -> dict[str, float]:
        held = self._asked.read(self.handle, None)
        self.pids = [one.pid for one in held]
        return {"gpu_processes": float(len(held))}


class Instances:
    """The MIG devices of one board, found anew when they changed."""

    def __init__(self, nvml: Nvml) -> None:
        self.on = False
        self._nvml = nvml
        self._asked = Processes(nvml)
        self._known: dict[str, Instance] = {}

    def present(self, board: Any) -> list[Instance]:
        """All there are; none when MIG is off or unknown to the board. Raises Unavailable."""
        self.on = self._is_on(board)
        if not self.on:
            self._known.clear()
            return []
        self._known = self._found(board)
        return list(self._known.values())

    def _is_on(self, board: Any) -> bool:
        try:
            current, _ = self._nvml.ask("nvmlDeviceGetMigMode", board)
        except Unavailable as missing:
            if missing.reason in LASTING:
                return False
            raise
        return bool(current == 1)

    def _found(self, board: Any) -> dict[str, Instance]:
        """By UUID: a handle may be used again for another instance."""
        found: dict[str, Instance] = {}
        seen: set[int] = set()
        most = min(int(self._nvml.ask("nvmlDeviceGetMaxMigDeviceCount", board)), _MOST_INSTANCES)
        for index in range(most):
            try:
                handle = self._nvml.ask("nvmlDeviceGetMigDeviceHandleByIndex", board, index)
                uuid = self._nvml.text("nvmlDeviceGetUUID", handle)
                gpu_instance = int(self._nvml.ask("nvmlDeviceGetGpuInstanceId", handle))
                first = gpu_instance not in seen
                known = self._known.get(uuid)
                if known is None or known.first != first:
                    known = Instance(self._nvml, handle, self._asked, first=first)
            except Unavailable as missing:
                if missing.reason in _NOT_THERE:
                    continue
                raise
            seen.add(gpu_instance)
            known.handle = handle
            found[uuid] = known
        return found
