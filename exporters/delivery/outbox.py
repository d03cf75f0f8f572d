"""What waits to be sent: on disk, in memory while the disk takes nothing, and what was lost.

Beyond its bytes or its age the oldest goes first, and every export that goes unsent is counted.
"""

import gzip
import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from domain.errors import ConfigError
from domain.labels import Labels
from exporters.delivery.export import Export, Waiting
from exporters.delivery.frame import Found, Record
from exporters.delivery.loss import LossBook, Losses
from exporters.delivery.memory import Memory
from exporters.delivery.spool import Spool

__all__ = ["Outbox"]

_LOG = logging.getLogger(__name__)
_SECOND_NS = 1_000_000_000
_TRY_AGAIN_S = 5.0
_QUIET_S = 60.0


class Outbox:
    """Safe to use from any thread. Only the first opening of its folder may raise ConfigError."""

    def __init__(
        self,
        folder: Path | None,
        *,
        max_bytes: int,
        max_age_s: float,
        memory: Memory | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.on_arrival: Callable[[], None] = lambda: None
        self._folder, self._max_bytes = folder, max_bytes
        self._max_age_ns, self._now_ns = int(max_age_s * _SECOND_NS), now_ns
        self._lock = threading.Lock()
        self._book = LossBook()
        self._memory = memory if memory is not None else Memory()
        self._flight: list[Found | Record] = []
        self._spool: Spool | None = None
        self._trouble = ""
        self._told_at_s = self._try_at_s = -_QUIET_S
        self._open()
        self._say_what_was_found()

    def __len__(self) -> int:
        """Exports that wait."""
        with self._lock:
            on_disk = len(self._spool.journal) if self._spool is not None else 0
            return on_disk + self._memory.exports.total()

    def waiting(self, owner: Labels) -> Waiting:
        with self._lock:
            exports, size = self._memory.exports[owner], self._memory.bytes_of[owner]
            if self._spool is not None:
                on_disk, bytes_on_disk = self._spool.journal.waiting(owner)
                exports, size = exports + on_disk, size + bytes_on_disk
            age_s = self._oldest_age_s() if exports else 0.0
        return Waiting(exports=exports, size_bytes=size, oldest_age_s=age_s)

    def owners(self) -> set[Labels]:
        """Whoever has anything waiting, or has lost something."""
        with self._lock:
            on_disk = self._spool.journal.owners() if self._spool is not None else set[Labels]()
            return {*on_disk, *self._memory.exports, *(owner for owner, _ in self._book.lost)}

    def lost(self) -> Losses:
        """Since this process began."""
        with self._lock:
            return Counter(self._book.lost)

    def held_bytes(self) -> tuple[int, int]:
        """All that waits: bytes on disk, bytes in memory."""
        with self._lock:
            on_disk = self._spool.journal.waiting_bytes() if self._spool is not None else 0
            return on_disk, self._memory.size_bytes

    def memo(self, owner: Labels) -> bytes | None:
        """What the last process wanted us to know."""
        with self._lock:
            return self._spool.memos.read(owner) if self._spool is not None else None

    def put(self, export: Export) -> None:
        """Keep an export until it is sent."""
        record = Record(
            number=0,
            put_at_ns=self._now_ns(),
            at_ns=export.at_ns,
            owner=export.owner,
            packed=gzip.compress(export.body, 1, mtime=0),
            plain_bytes=len(export.body),
            traces=export.traces,
            has_memo=export.memo is not None,
        )
        with self._lock:
            if not self._put_on_disk(record, export.memo):
                self._keep(record)
        self.on_arrival()

    def take(self, max_bytes: int) -> list[Record]:
        """The oldest records; `settle` each in turn, then `release` what is left."""
        with self._lock:
            self._drop_old()
            found = self._from_disk(max_bytes)
            if found:
                self._flight = list(found)
                return [each.record for each in found]
            if self._book.untold:
                word = self._book.record(self._now_ns())
                self._book.told()
                self._keep(word)
            records = self._memory.take(max_bytes)
            for record in records:
                self._forget(record)
            self._flight = list(records)
            return records

    def settle(self, *, refused: bool = False) -> None:
        """The oldest of what was taken was sent, or is refused for good."""
        with self._lock:
            first = self._flight.pop(0)
            if isinstance(first, Record):
                if refused:
                    self._book.note_record(first, "refused")
            elif self._spool is not None:
                try:
                    self._spool.settle(first, refused=refused)
                except OSError as error:  # at worst it is sent twice, which counts once
                    self._disk_failed(error)

    def release(self) -> None:
        """What was taken and not settled waits again."""
        with self._lock:
            self._memory.give_back(each for each in self._flight if isinstance(each, Record))
            self._flight = []
            if self._spool is not None:
                self._spool.is_sending = False

    def sync(self) -> None:
        """Bring to the disk itself what was written since the last call."""
        with self._lock:
            files = self._spool.journal.unsynced() if self._spool is not None else []
        for file in files:  # why without the lock: a slow disk must not hold up the scrapes
            try:
                os.fsync(file)
            except OSError as error:
                with self._lock:
                    self._disk_failed(error)
            finally:
                os.close(file)

    def close(self) -> None:
        with self._lock:
            if self._spool is not None:
                try:
                    self._spool.close()
                except OSError as error:
                    _LOG.warning("the spool was not closed properly: %s", error)
                self._spool = None
            self._folder = None

    def _put_on_disk(self, record: Record, memo: bytes | None) -> bool:
        """False while the disk takes nothing, or older records are just being sent from memory."""
        if self._spool is None and not self._open_again():
            return False
        if self._spool is None or any(isinstance(each, Record) for each in self._flight):
            return False
        try:
            self._move_to_disk(self._spool)
            self._spool.put(record, memo)
            self._spool.tell()
        except OSError as error:
            self._disk_failed(error)
            return False
        self._disk_works()
        return True

    def _move_to_disk(self, spool: Spool) -> None:
        """What waits in memory goes first."""
        while (oldest := self._memory.oldest) is not None:
            spool.put(oldest)
            self._memory.pop()
            self._forget(oldest)  # a memo that is older than this export is no good any more

    def _from_disk(self, max_bytes: int) -> list[Found]:
        if self._spool is None:
            return []
        try:
            found = self._spool.take(max_bytes)
        except OSError as error:
            self._disk_failed(error)
            return []
        self._spool.is_sending = bool(found)
        return found

    def _drop_old(self) -> None:
        before_ns = self._now_ns() - self._max_age_ns
        if self._spool is not None:
            try:
                self._spool.drop_older(before_ns)
            except OSError as error:
                self._disk_failed(error)
        while self._memory.oldest is not None and self._memory.oldest.put_at_ns < before_ns:
            self._let_go(self._memory.pop(), "too_old")

    def _keep(self, record: Record) -> None:
        """In memory, where the oldest goes for it."""
        for dropped in self._memory.append(record):
            self._let_go(dropped, "spool_full")

    def _let_go(self, record: Record, reason: str) -> None:
        self._forget(record)
        self._book.note_record(record, reason)

    def _forget(self, record: Record) -> None:
        """The memo on disk is older than an export that is about to leave memory."""
        if record.has_memo and self._spool is not None:
            try:
                self._spool.memos.forget(record.owner)
            except OSError as error:
                self._disk_failed(error)

    def _oldest_age_s(self) -> float:
        puts_ns = [self._memory.oldest.put_at_ns] if self._memory.oldest is not None else []
        if self._spool is not None:
            try:
                at_ns = self._spool.journal.oldest_put_at_ns()
            except OSError as error:
                self._disk_failed(error)
                at_ns = None
            puts_ns += [at_ns] if at_ns is not None else []
        return max((self._now_ns() - min(puts_ns)) / _SECOND_NS, 0.0) if puts_ns else 0.0

    def _open(self) -> None:
        if self._folder is None:
            return
        try:
            self._spool = Spool(
                self._folder, self._book, max_bytes=self._max_bytes, now_ns=self._now_ns
            )
        except OSError as error:
            self._try_at_s = time.monotonic() + _TRY_AGAIN_S
            self._disk_failed(error)

    def _open_again(self) -> bool:
        """A folder that could not be opened at the start, tried now and then."""
        if self._folder is None or time.monotonic() < self._try_at_s:
            return False
        try:
            self._open()
        except ConfigError as error:
            self._try_at_s = time.monotonic() + _TRY_AGAIN_S
            self._disk_failed(error)
        return self._spool is not None

    def _disk_failed(self, error: Exception) -> None:
        """Said once, and again when it still fails after it has worked for a while."""
        self.counts["disk_failures"] += 1
        if not self._trouble and time.monotonic() - self._told_at_s >= _QUIET_S:
            self._told_at_s = time.monotonic()
            _LOG.warning(
                "%s takes no exports (%s): they wait in memory, where a killed process loses them. "
                "Make room there, or set `spool_dir` to a directory that can be written.",
                self._folder,
                error,
            )
        self._trouble = str(error)

    def _disk_works(self) -> None:
        if self._trouble:
            _LOG.warning("exports wait in %s again", self._folder)
        self._trouble = ""

    def _say_what_was_found(self) -> None:
        if self._spool is None:
            return
        journal, damaged = self._spool.journal, self._spool.damaged
        say = _LOG.warning if len(journal) or damaged else _LOG.info
        say(
            "%s: %d exports (%d bytes) of an earlier process wait to be sent%s",
            self._folder,
            len(journal),
            journal.waiting_bytes(),
            f"; {damaged} are damaged and lost" if damaged else "",
        )
