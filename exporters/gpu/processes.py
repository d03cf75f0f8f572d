"""The processes on a board or MIG instance, believed only where the list agrees with itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from exporters.gpu.nvml import Nvml, Unavailable

__all__ = ["Held", "agree", "processes"]

_PROC = Path("/proc")
_LISTS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3")
_OLD_LIST = "nvmlDeviceGetComputeRunningProcesses_v2"


@dataclass(frozen=True, slots=True)
class Held:
    """One process and the memory it holds, None where the driver does not say."""

    pid: int
    bytes: int | None


def processes(nvml: Nvml, handle: Any, total_bytes: float | None) -> tuple[Held, ...]:
    """Who computes there. Raises Unavailable, `inconsistent` where the list cannot be true."""
    found: dict[int, Held] = {}
    for call in _LISTS:
        for one in _listed(nvml, call, handle):
            found[int(one.pid)] = Held(int(one.pid), one.usedGpuMemory)
    listed = tuple(found.values())
    if not agree(listed, total_bytes, most_pid=_most_pid(), seen=_seen(listed)):
        raise Unavailable("inconsistent")
    return listed


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


def _listed(nvml: Nvml, call: str, handle: Any) -> list[Any]:
    try:
        return list(nvml.ask(call, handle))
    except Unavailable as missing:
        if missing.reason == "not_found":
            return []
        if missing.reason != "not_supported":
            raise
        if call != _LISTS[0]:
            return []
        return list(nvml.ask(_OLD_LIST, handle))


@lru_cache(maxsize=1)
def _most_pid() -> int:
    try:
        return int((_PROC / "sys/kernel/pid_max").read_text())
    except (OSError, ValueError):
        return 4_194_304


def _seen(listed: Iterable[Held]) -> frozenset[int]:
    return frozenset(one.pid for one in listed if one.pid > 0 and (_PROC / str(one.pid)).exists())
