"""Records as bytes in a file: a mark, a length, a checksum, then what was kept.

A record that was not written to its end is recognised, and so is one that changed afterwards: the
search goes on at the next mark whose checksum is right.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from domain.labels import Labels, labels_of
from exporters.delivery.span import Span

__all__ = [
    "HEADER_BYTES",
    "Found",
    "Loss",
    "Record",
    "decode",
    "encode",
    "scan",
    "size_in",
    "torn",
]

Loss = tuple[Labels, str, int]
"""Whose exports were lost, why, and how many."""

_MARK = b"SWX1"
_HEADER = struct.Struct("<4sII")  # mark, bytes that follow, their CRC-32
_FIXED = struct.Struct("<QQQIH")  # number, put_at_ns, at_ns, plain_bytes, bytes of the JSON
HEADER_BYTES = _HEADER.size
_LONGEST = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An export that waits: `packed` is its gzip, `number` its place in the order of the spool.

    `traces`: it holds spans. `has_memo`: a memo of the owner belongs to it. `lost` is not empty
    where the export tells of losses; `gone` are the numbers that it speaks of.
    """

    number: int
    put_at_ns: int
    at_ns: int
    owner: Labels
    packed: bytes
    plain_bytes: int
    traces: bool = False
    has_memo: bool = False
    lost: tuple[Loss, ...] = ()
    gone: tuple[Span, ...] = ()

    def numbered(self, number: int) -> "Record":
        return replace(self, number=number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A record and the place of its bytes."""

    record: Record
    offset: int
    end: int


def encode(record: Record) -> bytes:
    """The bytes that are appended, all at once."""
    said: dict[str, Any] = {"owner": record.owner}
    if record.traces:
        said["traces"] = True
    if record.has_memo:
        said["memo"] = True
    if record.lost:
        said |= {"lost": record.lost, "gone": record.gone}
    told = json.dumps(said, separators=(",", ":")).encode()
    fixed = _FIXED.pack(
        record.number, record.put_at_ns, record.at_ns, record.plain_bytes, len(told)
    )
    payload = fixed + told + record.packed
    return _HEADER.pack(_MARK, len(payload), zlib.crc32(payload)) + payload


def size_in(header: bytes) -> int | None:
    """How many bytes follow this header; None if it is none."""
    if len(header) < HEADER_BYTES:
        return None
    mark, size, _ = _HEADER.unpack(header[:HEADER_BYTES])
    return size if mark == _MARK and _FIXED.size <= size <= _LONGEST else None


def decode(frame: bytes) -> Record | None:
    """The record of a whole frame; None if it is not what was written."""
    size = size_in(frame)
    if size is None or len(frame) != HEADER_BYTES + size:
        return None
    payload = memoryview(frame)[HEADER_BYTES:]
    if zlib.crc32(payload) != _HEADER.unpack(frame[:HEADER_BYTES])[2]:
        return None
    number, put_at_ns, at_ns, plain_bytes, told_bytes = _FIXED.unpack(payload[: _FIXED.size])
    body_at = _FIXED.size + told_bytes
    try:
        said = json.loads(bytes(payload[_FIXED.size : body_at]))
        return Record(
            number=number,
            put_at_ns=put_at_ns,
            at_ns=at_ns,
            owner=_labels(said["owner"]),
            packed=bytes(payload[body_at:]),
            plain_bytes=plain_bytes,
            traces=said.get("traces", False),
            has_memo=said.get("memo", False),
            lost=tuple((_labels(own), why, int(n)) for own, why, n in said.get("lost", ())),
            gone=tuple((int(first), int(until)) for first, until in said.get("gone", ())),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None  # the checksum is right, so another version wrote it: as good as damaged


def scan(data: bytes, offset: int = 0) -> Iterator[Found]:
    """Every whole record from there on, over whatever is damaged between them."""
    while 0 <= offset < len(data):
        size = size_in(data[offset : offset + HEADER_BYTES])
        end = offset + HEADER_BYTES + (size or 0)
        record = decode(data[offset:end]) if size is not None else None
        if record is None:
            offset = data.find(_MARK, offset + 1)
            continue
        yield Found(record=record, offset=offset, end=end)
        offset = end


def torn(data: bytes, offset: int) -> bool:
    """Whether what stands there is the beginning of one record, and nothing else."""
    rest = data[offset:]
    size = size_in(rest)
    if size is None:
        return len(rest) < HEADER_BYTES and _MARK.startswith(rest[: len(_MARK)])
    return len(rest) < HEADER_BYTES + size


def _labels(pairs: Any) -> Labels:
    return labels_of((str(name), str(value)) for name, value in pairs)
