"""A folder that belongs to one process: made when missing, closed to others, locked while held."""

import fcntl
import os
from pathlib import Path

from domain.errors import ConfigError

__all__ = ["hold", "replace_file"]

_OURS_ALONE = 0o700


def hold(folder: Path) -> int:
    """Locks the folder until the answer is closed. ConfigError when another process holds it."""
    folder.mkdir(parents=True, exist_ok=True, mode=_OURS_ALONE)
    folder.chmod(_OURS_ALONE)
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip()
        os.close(lock)
        raise ConfigError(
            f"another exporter{f' (process {holder})' if holder else ''} keeps its exports there",
            where=f"spool_dir {folder}",
            remedy="End that one, or give this one a `spool_dir` of its own.",
        ) from error
    except OSError:
        os.close(lock)
        raise
    _sign(lock)
    return lock


def replace_file(path: Path, content: bytes) -> None:
    """The old content or the new, never half of one."""
    beside = path.with_name(path.name + ".new")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


def _sign(lock: int) -> None:
    """Who holds it, for the one who is turned away; a full disk is no reason not to hold it."""
    try:
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    except OSError:
        return
