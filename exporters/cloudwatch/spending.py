"""What a day's calls asked AWS to bill, on disk: a restart does not begin the day anew."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import TypeGuard

from exporters.delivery.folder import replace_file

__all__ = ["Spending"]

_LOG = logging.getLogger(__name__)
_DAY_S = 86_400
_LARGEST = 10**12
_LARGEST_BYTES = 1000


class _UnbelievableError(Exception):
    """A file that is not what was written."""


class Spending:
    """Billed metrics of one account, region and day (UTC). Processes that share the file share it.

    It is written before a call, so that no end of the process forgets one. `is_doubtful` until
    `assume` says what to count for a file that could not be believed.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._day = -1
        self._metrics = 0
        self._unsaved = 0
        self._failing = False
        self._lock = Lock()  # the page asks from other accounts' threads
        self.is_doubtful = False
        self.assumed = 0

    def today(self, now_s: float) -> int:
        """What was billed today, by all who share the file as far as we saw."""
        with self._lock:
            self._turn(now_s)
            self._save(0)  # why each time: others may have spent since
            return self._metrics

    def add(self, metrics: int, now_s: float) -> None:
        """Before they are asked for; or fewer than none, where nothing came of it."""
        with self._lock:
            self._turn(now_s)
            self._save(metrics)

    def assume(self, metrics: int, now_s: float) -> None:
        """Count these for the part of the day that nobody remembers."""
        with self._lock:
            self.is_doubtful = False
            self._turn(now_s)
            self.assumed = metrics
            self._save(metrics)

    def _turn(self, now_s: float) -> None:
        """A round that began before midnight, and ends after, is spent on the new day."""
        day = int(now_s // _DAY_S)
        if day not in (self._day, self._day - 1):
            self._day = day
            self._metrics = self._unsaved = self.assumed = 0

    def _save(self, metrics: int) -> None:
        self._unsaved += metrics
        self._metrics = max(self._metrics + metrics, 0)
        if self._path is None:
            return
        try:
            with _alone(self._path):
                before = self._read(self._path)
                total = max(before + self._unsaved, 0)
                if self._unsaved:
                    told = json.dumps({"day": self._day, "metrics": total})
                    replace_file(self._path, told.encode())
                self._metrics, self._unsaved = total, 0
        except OSError as error:
            self._say(error)
        else:
            self._failing = False

    def _read(self, path: Path) -> int:
        """Of today; a file that cannot be believed is put aside, said, and doubted."""
        try:
            with path.open("rb") as file:
                raw = file.read(_LARGEST_BYTES)
            day, metrics = _parsed(raw, self._day)
        except FileNotFoundError:
            return 0
        except _UnbelievableError as error:
            _LOG.warning(
                "%s cannot be believed: %s. What was spent today is not known; it is counted as if "
                "every series had been asked for at its fastest since midnight (UTC)",
                path,
                error,
            )
            self.is_doubtful = True
            path.unlink()
            return 0
        if day > self._day:  # somebody else's day has begun
            self._day = day
            return metrics
        return metrics if day == self._day else 0

    def _say(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            _LOG.warning(
                "%s cannot be written: %s. A restart would forget what was spent today",
                self._path,
                error.strerror,
            )


def _parsed(raw: bytes, today: int) -> tuple[int, int]:
    try:
        told = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise _UnbelievableError("it is no JSON") from error
    if not isinstance(told, dict):
        raise _UnbelievableError("it is no object of JSON")
    day, metrics = told.get("day"), told.get("metrics")
    if not (_is_count(day) and _is_count(metrics)):
        raise _UnbelievableError("it names no day and number")
    if day > today + 1:
        raise _UnbelievableError("it is of a day that is yet to come")
    return day, metrics


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _LARGEST


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Nobody else reads and writes the file in this block."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
