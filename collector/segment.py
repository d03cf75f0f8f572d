"""Legs of requests as one blob: columns behind each other, to the last bit of every float.

A blob is: a byte of version, a byte that says whether the columns are compressed (zlib over byte
planes: 0.7 of the bytes, ten times the time, so only compacted segments are), the number of legs
as uint32, the length of each column as uint32, the columns.
"""

import json
import zlib
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from collector.legs import IDS, SECONDS, TOKENS, LegTable
from domain.errors import StoreError

__all__ = ["decode", "encode"]

_VERSION: Final = 2
_RAW, _PACKED = 0, 1
_HEAD = np.dtype("<u4")
_FIXED: Final[tuple[tuple[str, np.dtype[Any]], ...]] = (
    ("series_id", np.dtype("<i4")),
    ("kind", np.dtype("u1")),
    ("outcome", np.dtype("u1")),
    ("streamed", np.dtype("u1")),
    ("room", np.dtype("<i8")),
    ("start_at_ns", np.dtype("<i8")),
    ("end_at_ns", np.dtype("<i8")),
    *((name, np.dtype("<f8")) for name in SECONDS),
    *((name, np.dtype("<i4")) for name in TOKENS),
)
_LOOSE: Final = len(IDS)
_COLUMNS: Final = _LOOSE + len(_FIXED) + 1  # and the finish reasons
_INT32_MAX: Final = 2**31 - 1


def encode(table: LegTable, *, packed: bool = False) -> bytes:
    """The blob of these legs."""
    columns = [getattr(table, name) for name in IDS]  # never packed: they are searched for
    for name, kind in _FIXED:
        column = _column(table, name)
        if name in TOKENS:
            column = np.minimum(column, _INT32_MAX)
        column = column.astype(kind)
        columns.append(_pack(column) if packed else column.tobytes())
    columns.append(_reasons(table))
    sizes = np.array([len(table), *map(len, columns)], _HEAD)
    head = bytes((_VERSION, _PACKED if packed else _RAW)) + sizes.tobytes()
    return head + b"".join(columns)


def decode(blob: bytes) -> LegTable:
    """The legs of a blob."""
    if len(blob) < 2 or blob[0] != _VERSION:
        raise StoreError(
            f"a segment has version {blob[:1].hex()}, and this Stagewatch reads {_VERSION}",
            where="table segment",
            remedy="Update Stagewatch.",
        )
    packed = blob[1] == _PACKED
    sizes = np.frombuffer(blob, _HEAD, _COLUMNS + 1, 2).tolist()
    n, at = sizes[0], 2 + _HEAD.itemsize * (_COLUMNS + 1)
    parts = []
    for size in sizes[1:]:
        parts.append(blob[at : at + size])
        at += size
    found = {
        name: _unpack(part, kind, n) if packed else np.frombuffer(part, kind)
        for (name, kind), part in zip(_FIXED, parts[_LOOSE:-1], strict=True)
    }
    return LegTable(
        **dict(zip(IDS, parts, strict=False)),
        series_id=found["series_id"].astype(np.int64),
        kind=found["kind"],
        outcome=found["outcome"],
        streamed=found["streamed"],
        room=found["room"],
        start_at_ns=found["start_at_ns"],
        end_at_ns=found["end_at_ns"],
        seconds={name: found[name] for name in SECONDS},
        tokens={name: found[name].astype(np.int64) for name in TOKENS},
        finish=_finish(parts[-1], n),
    )


def _column(table: LegTable, name: str) -> NDArray[Any]:
    if name in table.seconds:
        return table.seconds[name]
    if name in table.tokens:
        return table.tokens[name]
    column: NDArray[Any] = getattr(table, name)
    return column


def _reasons(table: LegTable) -> bytes:
    """The distinct reasons, and per leg a place among them; nothing where nobody gave one."""
    distinct = sorted(set(table.finish))
    if distinct in ([], [""]):
        return b""
    place = {reason: index for index, reason in enumerate(distinct)}
    head = json.dumps(distinct).encode()
    places = np.array([place[reason] for reason in table.finish], "<u4").tobytes()
    return len(head).to_bytes(4, "little") + head + places


def _finish(part: bytes, n: int) -> list[str]:
    if not part:
        return [""] * n
    size = int.from_bytes(part[:4], "little")
    distinct = json.loads(part[4 : 4 + size])
    return [distinct[place] for place in np.frombuffer(part, "<u4", n, 4 + size).tolist()]


def _pack(column: NDArray[Any]) -> bytes:
    planes = column.view(np.uint8).reshape(-1, column.dtype.itemsize).T
    return zlib.compress(planes.tobytes(), 1)


def _unpack(part: bytes, kind: np.dtype[Any], n: int) -> NDArray[Any]:
    planes = np.frombuffer(zlib.decompress(part), np.uint8).reshape(kind.itemsize, n)
    return np.ascontiguousarray(planes.T).view(kind).ravel()
