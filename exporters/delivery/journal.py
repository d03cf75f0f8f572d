"""Records on disk, in order: appended to files, read from the oldest on, removed when settled.

Every record has a number and a file is named after its first, so that what is missing can be
counted. What was appended survives the end of the process at any instant; of a power cut, what was
written since the last `sync` may be missing.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from domain.labels import Labels
from exporters.delivery.frame import (
    HEADER_BYTES,
    Found,
    Record,
    decode,
    encode,
    scan,
    size_in,
)
from exporters.delivery.recovery import Gap, recover
from exporters.delivery.segment import Segment, path_of
from exporters.delivery.span import Span, merged, uncovered

__all__ = ["Batch", "Journal"]

_SENT = struct.Struct("<QI")
_PARTS = 16  # files that a full spool has about
_SMALLEST, _LARGEST = 4 * 1024, 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Batch:
    """The oldest records, all of one file; or a gap that stands before them, to be skipped."""

    found: tuple[Found, ...] = ()
    gap: Span | None = None


class Journal:
    """The spool's files. One thread at a time; any call may raise what the disk says."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self._folder = folder
        self._segment_bytes = min(max(max_bytes // _PARTS, _SMALLEST), _LARGEST)
        # why one file less: the file that is being sent is not dropped, and losses are written
        self._room_bytes = max_bytes - self._segment_bytes
        found = recover(folder, self._read_sent())
        self._segments, self._next, self._head = found.segments, found.following, found.head
        self._gaps = merged([*found.counted, *(gap.span for gap in found.gaps)])
        self.gaps: tuple[Gap, ...] = found.gaps
        self.memos_at_ns: dict[Labels, int] = found.memos_at_ns
        self._place: tuple[Path, int] | None = None  # a file, and where in it the head lies
        self._writing: int | None = None
        self._reading: tuple[Path, int] | None = None
        self._sent_file: int | None = None
        self._unsynced = self._new_file = False
        self._peeked: tuple[int, int] | None = None
        self._tidy()

    def __len__(self) -> int:
        return sum(each.exports.total() for each in self._segments)

    @property
    def disk_bytes(self) -> int:
        return sum(each.disk_bytes for each in self._segments)

    def waiting(self, owner: Labels) -> tuple[int, int]:
        """Exports and bytes of that owner."""
        return (
            sum(each.exports[owner] for each in self._segments),
            sum(each.bytes_of[owner] for each in self._segments),
        )

    def waiting_bytes(self) -> int:
        return sum(each.bytes_of.total() for each in self._segments)

    def owners(self) -> set[Labels]:
        return {owner for each in self._segments for owner in each.exports}

    def oldest_put_at_ns(self) -> int | None:
        """When the oldest record that waits was put here."""
        if self._peeked is None or self._peeked[0] != self._head:
            first = next(self._records(), None)
            self._peeked = None if first is None else (self._head, first.record.put_at_ns)
        return None if self._peeked is None else self._peeked[1]

    def fits(self, record: Record) -> bool:
        """Whether there could be room for it at all."""
        return len(encode(record)) <= self._room_bytes

    def is_full(self, record: Record) -> bool:
        """Whether this record would be more than there is room for."""
        return self.disk_bytes + len(encode(record)) > self._room_bytes

    def append(self, record: Record) -> None:
        """Whole, or not at all."""
        frame = encode(record.numbered(self._next))
        if self._writing is None or self._segments[-1].file_bytes >= self._segment_bytes:
            self._begin()
        tail = self._segments[-1]
        try:
            self._write(frame)
        except OSError:
            self._abandon()
            raise
        end = tail.file_bytes + len(frame)
        tail.add(Found(record=record, offset=tail.file_bytes, end=end))
        tail.file_bytes = end
        self._next += 1
        tail.until = self._next
        self._unsynced = True

    def read(self, max_bytes: int, *, put_before_ns: int | None = None) -> Batch:
        """The oldest records: at least one if any waits, else as many as these plain bytes hold.

        With `put_before_ns` only those that were put here before.
        """
        taken: list[Found] = []
        room, expected, is_damaged = max_bytes, self._head, True
        for found in self._records():
            is_damaged = False
            if found.record.number != expected:
                return Batch(tuple(taken)) if taken else Batch(gap=(expected, found.record.number))
            if put_before_ns is not None and found.record.put_at_ns >= put_before_ns:
                break
            room -= found.record.plain_bytes
            if taken and room < 0:
                break
            taken.append(found)
            expected += 1
        segment = self._segment_at_head()
        if is_damaged and segment is not None:
            return Batch(gap=(self._head, segment.until))
        return Batch(tuple(taken))

    def rest_of_file(self) -> Span:
        """What is left of the oldest file, should it be given up."""
        segment = self._segment_at_head()
        return (self._head, self._head if segment is None else segment.until)

    def uncounted(self, gap: Span) -> int:
        """How many records of a gap nobody has counted as lost yet."""
        return sum(until - first for first, until in uncovered(gap, self._gaps))

    def settle(self, found: Found) -> None:
        """The oldest record need not be kept any more."""
        segment = self._segment_at_head()
        if segment is not None:
            segment.settle(found)
            self._place = (segment.path, found.end)
        self._move_to(found.record.number + 1)

    def skip(self, gap: Span) -> None:
        """What is missing is not waited for."""
        self._move_to(gap[1])

    def droppable(self, *, is_sending: bool) -> Segment | None:
        """The oldest file that can go: not the one that is being sent."""
        held = self._segment_at_head() if is_sending else None
        able = [each for each in self._segments if each is not held]
        if len(able) == 1 and able[0] is self._segments[-1]:
            self._close_writing()
        return able[0] if able else None

    def remove(self, segment: Segment) -> None:
        """That file and all that waits in it."""
        if segment is self._segments[-1]:
            self._close_writing()
        if segment is self._segment_at_head():
            self._move_to(segment.until)
            return
        self._segments.remove(segment)
        self._gaps = merged([*self._gaps, (segment.first, segment.until)])
        segment.path.unlink(missing_ok=True)

    def unsynced(self) -> list[int]:
        """Descriptors of what was written since the last call, for the caller to sync and close."""
        found: list[int] = []
        if self._unsynced and self._writing is not None:
            found.append(os.dup(self._writing))
        if self._new_file:
            found.append(os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY))
        self._unsynced = self._new_file = False
        return found

    def close(self) -> None:
        self._close_writing()
        self._close_reading()
        if self._sent_file is not None:
            os.close(self._sent_file)
            self._sent_file = None

    def _records(self) -> Iterator[Found]:
        """Whole records from the head on, to the end of the file that it lies in."""
        segment = self._segment_at_head()
        if segment is None:
            return
        try:
            file = self._open_reading(segment.path)
        except (FileNotFoundError, IsADirectoryError):  # somebody removed it
            return
        at_place = self._place is not None and self._place[0] == segment.path
        offset = self._place[1] if self._place is not None and at_place else 0
        while offset < segment.file_bytes:
            found = _at(file, offset) or _search(file, offset, segment.file_bytes)
            if found is None:
                return
            offset = found.end
            if found.record.number >= self._head:
                yield found

    def _segment_at_head(self) -> Segment | None:
        """The file that the head lies in, or the first one after it."""
        return next((each for each in self._segments if self._head < each.until), None)

    def _move_to(self, head: int) -> None:
        self._head = max(head, self._head)
        self._peeked = None
        self._tidy()  # why first: on a full disk this makes the room to note it
        self._write_sent()

    def _tidy(self) -> None:
        """Files that hold nothing to be sent go, but not the one that is written."""
        for each in list(self._segments):
            if each.until <= self._head and (
                self._writing is None or each is not self._segments[-1]
            ):
                self._segments.remove(each)
                if self._reading is not None and self._reading[0] == each.path:
                    self._close_reading()  # an open file keeps its room
                each.path.unlink(missing_ok=True)
        self._gaps = [gap for gap in self._gaps if gap[1] > self._head]

    def _begin(self) -> None:
        self._close_writing()
        path = path_of(self._folder, self._next)
        self._writing = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        self._segments.append(Segment(path, self._next, self._next))
        self._new_file = True

    def _write(self, frame: bytes) -> None:
        if self._writing is None:
            raise AssertionError("a file is begun before it is written")
        left = memoryview(frame)
        while left:
            left = left[os.write(self._writing, left) :]

    def _abandon(self) -> None:
        """After a failed write: nothing of it stays, or its file is never written again."""
        tail, file = self._segments[-1], self._writing
        self._writing = None
        if file is not None:
            try:
                os.ftruncate(file, tail.file_bytes)
            finally:
                os.close(file)
        if tail.until == tail.first:
            self._segments.remove(tail)
            tail.path.unlink(missing_ok=True)

    def _close_writing(self) -> None:
        if self._writing is not None:
            file, self._writing = self._writing, None
            try:
                os.fdatasync(file)
            finally:
                os.close(file)

    def _open_reading(self, path: Path) -> int:
        if self._reading is None or self._reading[0] != path:
            self._close_reading()
            self._reading = (path, os.open(path, os.O_RDONLY | os.O_CLOEXEC))
        return self._reading[1]

    def _close_reading(self) -> None:
        if self._reading is not None:
            os.close(self._reading[1])
            self._reading = None

    def _read_sent(self) -> int:
        """Where the head was; 0 when that cannot be read: what is sent again is not counted again."""
        try:
            raw = (self._folder / "sent").read_bytes()
        except OSError:
            return 0
        if len(raw) < _SENT.size or zlib.crc32(raw[:8]) != _SENT.unpack(raw[: _SENT.size])[1]:
            return 0
        return int(_SENT.unpack(raw[: _SENT.size])[0])

    def _write_sent(self) -> None:
        if self._sent_file is None:
            path = self._folder / "sent"
            self._sent_file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        raw = struct.pack("<Q", self._head)
        os.pwrite(self._sent_file, _SENT.pack(self._head, zlib.crc32(raw)), 0)


def _at(file: int, offset: int) -> Found | None:
    """The record that begins exactly there."""
    size = size_in(os.pread(file, HEADER_BYTES, offset))
    if size is None:
        return None
    end = offset + HEADER_BYTES + size
    record = decode(os.pread(file, end - offset, offset))
    return None if record is None else Found(record=record, offset=offset, end=end)


def _search(file: int, offset: int, until: int) -> Found | None:
    """The next record after damage."""
    data = os.pread(file, until - offset, offset)
    found = next(scan(data), None)
    if found is None:
        return None
    return Found(record=found.record, offset=offset + found.offset, end=offset + found.end)
