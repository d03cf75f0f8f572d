"""What sources want back after a restart, in step with their exports through any end of the process.

A memo is written beside the old one, then its export is appended, then it takes the old one's
place. Whoever dies in between left either both or none: the spool knows which.
"""

import hashlib
import os
import struct
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from domain.labels import Labels
from exporters.delivery.folder import replace_file

__all__ = ["Memos"]

_HEAD = struct.Struct("<IQ")  # CRC-32 of the rest, at_ns
_LARGEST_BYTES = 64 * 1024 * 1024
_KEPT_S = 30 * 86_400
_START = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class _Memo:
    at_ns: int
    content: bytes


class Memos:
    """The memos of one spool. After a power cut they are forgotten, unless they were closed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "memos"
        self._boot = folder / "boot"
        self._folder.mkdir(mode=0o700, exist_ok=True)

    def open(self, newest_at_ns: Mapping[Labels, int]) -> None:
        """Settle what the last process left. `newest_at_ns`: of the exports that are in the spool."""
        started = _machine_start()
        believed = self._last_start() in (b"", started)
        if not self._note(started) or not believed:
            self._forget_all()
        for owner, at_ns in newest_at_ns.items():
            beside = _read(self._next_of(owner))
            if beside is not None and beside.at_ns == at_ns:
                self.confirm(owner)
            now = _read(self._path_of(owner))
            if now is not None and now.at_ns < at_ns:  # a memo of before its owner's last export
                self.forget(owner)
        for path in self._folder.glob("*.next"):
            path.unlink()
        for path in self._folder.glob("*.memo"):
            if time.time() - path.stat().st_mtime > _KEPT_S:  # nobody is called that any more
                path.unlink()

    def close(self) -> None:
        """All of it on the disk, so that it outlives the machine's end too."""
        for path in self._folder.glob("*.memo"):
            file = os.open(path, os.O_RDONLY)
            try:
                os.fsync(file)
            finally:
                os.close(file)
        self._note(b"")

    def read(self, owner: Labels) -> bytes | None:
        memo = _read(self._path_of(owner))
        return memo.content if memo is not None and memo.content else None

    def prepare(self, owner: Labels, at_ns: int, content: bytes) -> None:
        """Before the export of this instant is appended."""
        rest = struct.pack("<Q", at_ns) + content
        self._next_of(owner).write_bytes(struct.pack("<I", zlib.crc32(rest)) + rest)

    def confirm(self, owner: Labels) -> None:
        """After it was appended."""
        self._next_of(owner).replace(self._path_of(owner))

    def forget(self, owner: Labels) -> None:
        for path in (self._path_of(owner), self._next_of(owner)):
            path.unlink(missing_ok=True)

    def _path_of(self, owner: Labels) -> Path:
        name = hashlib.sha256(repr(owner).encode()).hexdigest()[:32]
        return self._folder / f"{name}.memo"

    def _next_of(self, owner: Labels) -> Path:
        return self._path_of(owner).with_suffix(".next")

    def _last_start(self) -> bytes:
        """Of the machine when the last process began; empty when that one ended well, or is new."""
        try:
            return self._boot.read_bytes()
        except FileNotFoundError:
            return b""

    def _note(self, started: bytes) -> bool:
        """False where a full disk does not take it, and it does not stand there already."""
        try:
            replace_file(self._boot, started)
        except OSError:
            return self._last_start() == started
        return True

    def _forget_all(self) -> None:
        for path in self._folder.iterdir():
            path.unlink()


def _read(path: Path) -> _Memo | None:
    """None where there is none, or not what was written."""
    try:
        with path.open("rb") as file:
            raw = file.read(_LARGEST_BYTES)
    except OSError:
        return None
    if len(raw) < _HEAD.size:
        return None
    crc, at_ns = _HEAD.unpack(raw[: _HEAD.size])
    return _Memo(at_ns, raw[_HEAD.size :]) if zlib.crc32(raw[4:]) == crc else None


def _machine_start() -> bytes:
    """Another text after every start of this machine; the same where nobody can tell."""
    try:
        return _START.read_bytes().strip()
    except OSError:
        return b"unknown"
