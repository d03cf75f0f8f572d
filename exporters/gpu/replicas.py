"""Whom the GPUs serve: replicas of engines, by the configuration or by the processes on a GPU."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from domain.labels import Labels, value_of
from exporters.gpu.plan import Replica

__all__ = ["Device", "command_lines", "resolve", "serves"]

_LONGEST: Final = 16 * 1024
_MOST_ANCESTORS: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A board or MIG instance as engines and kubelets may call it."""

    uuid: str
    index: int | None = None  # of a board; an instance has none
    minor: int | None = None
    parent: str = ""
    gi: int | None = None
    pids: tuple[int, ...] = ()


def resolve(name: str, devices: Iterable[Device]) -> Device | None:
    """What `CUDA_VISIBLE_DEVICES` takes: an index, a UUID, or a prefix of one that is unique."""
    known = list(devices)
    text = name.strip()
    if text.isdecimal():
        return next((each for each in known if each.index == int(text)), None)
    exact = next((each for each in known if each.uuid == text), None)
    if exact is not None or not text:
        return exact
    begun = [each for each in known if each.uuid.startswith(text)]
    return begun[0] if len(begun) == 1 else None


def serves(
    replicas: Iterable[Replica],
    devices: Iterable[Device],
    command_lines: Callable[[int], Iterable[str]],
) -> tuple[list[tuple[str, Labels]], list[str]]:
    """Pairs of GPU and replica; and what of the configuration fits nothing, a sentence each."""
    known = list(devices)
    found: list[tuple[str, Labels]] = []
    unknown: list[str] = []
    for replica in replicas:
        for name in replica.gpus:
            device = resolve(name, known)
            if device is None:
                who = value_of(replica.series, "replica")
                unknown.append(f"{who}: no GPU here is called {name!r}")
            else:
                found.append((device.uuid, replica.series))
        if replica.process is not None:
            found += [(uuid, replica.series) for uuid in _by(replica.process, known, command_lines)]
    return found, unknown


def _by(
    pattern: str, devices: Iterable[Device], command_lines: Callable[[int], Iterable[str]]
) -> Iterator[str]:
    """GPUs with a process that matches, or whose parent does: workers are children of a server."""
    wanted = re.compile(pattern)
    for device in devices:
        lines = (line for pid in device.pids for line in command_lines(pid))
        if any(wanted.search(line) for line in lines):
            yield device.uuid


def command_lines(pid: int, proc: Path = Path("/proc")) -> Iterator[str]:
    """The command line of a process and of those above it; nothing where we may not look."""
    for _ in range(_MOST_ANCESTORS):
        try:
            with (proc / str(pid) / "cmdline").open("rb") as file:
                line = file.read(_LONGEST)
            status = (proc / str(pid) / "status").read_text(errors="replace")
        except OSError:
            return
        yield line.replace(b"\0", b" ").decode(errors="replace").strip()
        parent = re.search(r"^PPid:\s*(\d+)", status, re.MULTILINE)
        pid = int(parent[1]) if parent else 0
        if pid <= 1:
            return
