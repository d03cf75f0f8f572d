"""The processes on a board or MIG instance, believed only where the list agrees with itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from exporters.gpu.nvml import Nvml, ProcessList, Unavailable

__all__ = ["Held", "Processes", "agree"]

_PROC = Path("/proc")
_COMPUTE = "nvmlDeviceGetComputeRunningProcesses_v3"
_COMPUTE_OLD = "nvmlDeviceGetComputeRunningProcesses_v2"
_SHARED = "nvmlDeviceGetMPSComputeRunningProcesses_v3"


@dataclass(frozen=True, slots=True)
class Held:
    """One process and the memory it holds, None where the driver does not say."""

    pid: int
    bytes: int | None


class Processes:
    """Asks one board or instance who computes there."""

    def __init__(self, nvml: Nvml) -> None:
        self._list = ProcessList(nvml)

    def read(self, handle: Any, total_bytes: float | None) -> tuple[Held, ...]:
        """Raises Unavailable, `inconsistent` where the list cannot be true."""
        found = {pid: Held(pid, size) for pid, size in self._listed(handle)}
        listed = tuple(found.values())
        if not agree(listed, total_bytes, most_pid=_most_pid(), seen=_seen(listed)):
            raise Unavailable("inconsistent")
        return listed

    def _listed(self, handle: Any) -> list[tuple[int, int | None]]:
        computing = self._told(_COMPUTE, handle)
        if computing is None:
            computing = self._list.read(_COMPUTE_OLD, handle)
        return [*computing, *(self._told(_SHARED, handle) or ())]

    def _told(self, call: str, handle: Any) -> list[tuple[int, int | None]] | None:
        """None where the driver has no such list."""
        try:
            return self._list.read(call, handle)
        except Unavailable as missing:
            if missing.reason == "not_found":
                return []
            if missing.reason != "not_supported":
                raise
            return None


def agree(
    listed: Iterable[Held], total_bytes: float | None, *, most_pid: int, seen: frozenset[int]
) -> bool:
    """Some drivers of the R535 age changed the record without its version, and garble all but one.

    Then a pid is 0 or none of the kernel's, or is unknown while another is known, or memory adds up
    to more than there is. Where no pid is known at all, this is a namespace without the host's.
    """
    held = list(listed)
    if any(not 0 < one.pid <= most_pid for one in held):
        return False
    if seen and len(seen) < len(held):
        return False
    return total_bytes is None or sum(one.bytes or 0 for one in held) <= total_bytes


@lru_cache(maxsize=1)
def _most_pid() -> int:
    try:
        return int((_PROC / "sys/kernel/pid_max").read_text())
    except (OSError, ValueError):
        return 4_194_304


def _seen(listed: Iterable[Held]) -> frozenset[int]:
    return frozenset(one.pid for one in listed if one.pid > 0 and (_PROC / str(one.pid)).exists())
