"""A folder in which exports wait through the end of the process, within its bytes and their age.

Whatever is dropped is told by a record before it goes, so that a process that dies in between
neither loses count nor counts twice.
"""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from domain.labels import Labels
from exporters.delivery.folder import hold
from exporters.delivery.frame import Found, Record
from exporters.delivery.journal import Batch, Journal
from exporters.delivery.loss import LossBook
from exporters.delivery.memos import Memos
from exporters.delivery.recovery import Gap
from exporters.delivery.span import Span

__all__ = ["Spool"]

_LOG = logging.getLogger(__name__)
_BATCH_BYTES = 1024 * 1024
_PATIENCE = 10


class Spool:
    """Any call may raise OSError; one thread at a time. Another process in the folder: ConfigError."""

    def __init__(
        self,
        folder: Path,
        book: LossBook,
        *,
        max_bytes: int,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self.is_sending = False
        self._book, self._now_ns = book, now_ns
        self._lock = hold(folder)
        try:
            self.memos = Memos(folder)
            self.journal = Journal(folder, max_bytes=max_bytes)
            self.memos.open(self.journal.memos_at_ns)
        except BaseException:
            os.close(self._lock)
            raise
        self._gaps = list(self.journal.gaps)
        self._last_owner: Labels = ()
        self._failed_reads = 0
        self.damaged = sum(until - first for first, until in (gap.span for gap in self._gaps))

    def put(self, record: Record, memo: bytes | None = None) -> None:
        """Keep it, and the memo that goes with it; or drop it, counted, where there is no room."""
        self._last_owner = record.owner
        self._count_gaps(record.owner)
        if self._make_room(record):
            self._remember(record, memo, append=True)
        else:
            self._remember(record, memo, append=False)
            self._book.note_record(record, "spool_full")
            self.tell()

    def take(self, max_bytes: int) -> list[Found]:
        """The oldest records, at least one if any waits; they stay until they are settled."""
        batch = self._read(max_bytes)
        while batch.gap is not None:
            self._pass(batch.gap)
            batch = self._read(max_bytes)
        return list(batch.found)

    def settle(self, found: Found, *, refused: bool = False) -> None:
        """It was sent, or refused for good."""
        if refused:
            self._book.note_record(found.record, "refused")
            self._tell_of((found.record.number, found.record.number + 1))
        self.journal.settle(found)

    def drop_older(self, put_before_ns: int) -> None:
        """What has waited too long."""
        while True:
            batch = self.journal.read(_BATCH_BYTES, put_before_ns=put_before_ns)
            if batch.gap is not None:
                self._pass(batch.gap)
                continue
            if not batch.found:
                return
            for each in batch.found:
                self._book.note_record(each.record, "too_old")
            self._tell_of((batch.found[0].record.number, batch.found[-1].record.number + 1))
            for each in batch.found:
                self.journal.settle(each)

    def tell(self) -> None:
        """A record of all losses that none tells yet. They stay untold when the disk is full."""
        if not self._book.untold:
            self._book.gone.clear()
            return
        try:
            self.journal.append(self._book.record(self._now_ns()))
        except OSError as error:
            _LOG.info("losses are told later: %s", error)
        else:
            self._book.told()

    def _tell_of(self, span: Span) -> None:
        self._book.gone.append(span)
        self.tell()

    def close(self) -> None:
        try:
            self.journal.close()
            self.memos.close()
        finally:
            os.close(self._lock)

    def _read(self, max_bytes: int) -> Batch:
        """A file that again and again cannot be read is given up."""
        try:
            batch = self.journal.read(max_bytes)
        except OSError:
            self._failed_reads += 1
            if self._failed_reads < _PATIENCE:
                raise
            batch = Batch(gap=self.journal.rest_of_file())
        self._failed_reads = 0
        return batch

    def _make_room(self, record: Record) -> bool:
        """False where no dropping makes enough of it."""
        if not self.journal.fits(record):
            return False
        while self.journal.is_full(record):
            oldest = self.journal.droppable(is_sending=self.is_sending)
            if oldest is None:
                return False
            self._book.note(oldest.waiting("spool_full"))
            self._book.untold.update(oldest.lost)
            self._book.gone += oldest.gone  # what it tells of is still missing, for the same reason
            self._tell_of((oldest.first, oldest.until))
            self.journal.remove(oldest)
        return True

    def _remember(self, record: Record, memo: bytes | None, *, append: bool) -> None:
        if memo is not None:
            self.memos.prepare(record.owner, record.at_ns, memo)
        if append:
            self.journal.append(record)
        if memo is None:
            return
        try:
            self.memos.confirm(record.owner)
        except (
            OSError
        ) as error:  # the export is kept: from here on it is an old memo that would harm
            _LOG.warning("what to remember of %s is not kept: %s", dict(record.owner), error)
            self.memos.forget(record.owner)

    def _pass(self, gap: Span) -> None:
        """Over records that are missing: counted, unless they were counted when we began."""
        missing = self.journal.uncounted(gap)
        if missing:
            _LOG.warning("the spool is damaged: %d exports cannot be read", missing)
            self._book.note(Counter({(self._last_owner, "corrupt"): missing}))
            self._tell_of(gap)
        self.journal.skip(gap)

    def _count_gaps(self, owner: Labels) -> None:
        """What was missing when we began is put down to whoever stood next to it."""
        while self._gaps:
            gap: Gap = self._gaps.pop()
            first, until = gap.span
            self._book.note(Counter({(gap.owner or owner, "corrupt"): until - first}))
            self._tell_of(gap.span)
