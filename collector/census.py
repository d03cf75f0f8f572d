"""How many messages a protobuf body holds, counted before it is decoded.

Decoded, an empty span costs 177 bytes and stands on the wire in 2: a body of 8 MB would take 740 MB.
A walk over lengths alone finds that out in about a microsecond per span; small bodies are let be.
"""

from collections.abc import Iterator, Sequence

import numpy as np

__all__ = ["METRICS_PATH", "TRACES_PATH", "Path", "census", "crowded_json", "hollow"]

Path = Sequence[frozenset[int]]
"""Field numbers, one set per level."""

TRACES_PATH: Path = (frozenset({1}), frozenset({2}), frozenset({2}))
"""From an export to its resources, scopes and spans."""

METRICS_PATH: Path = (*TRACES_PATH, frozenset({5, 7, 9, 10, 11}), frozenset({1}))
"""The same to scopes and metrics, then to any kind of data and its points."""

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_SPARE = 10_000
_SMALL_BYTES = 512 * 1024  # takes 46 MB at the very worst


def census(body: bytes, path: Path, *, limit: int) -> int:
    """Messages along the path, `limit + 1` at most. ValueError where lengths cannot be right."""
    if len(body) < _SMALL_BYTES:
        return 0
    return _census(body, 0, len(body), path, limit)


def _census(body: bytes, start: int, end: int, path: Path, limit: int) -> int:
    wanted, deeper = path[0], path[1:]
    n = 0
    for field, inner, inner_end in _messages(body, start, end):
        if field in wanted:
            n += 1
            if deeper and inner_end > inner:
                n += _census(body, inner, inner_end, deeper, limit - n)
            if n > limit:
                return limit + 1
    return n


def _messages(body: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Field number, start and end of each length-delimited field."""
    at = start
    while at < end:
        tag = body[at]
        if tag < 0x80:
            at += 1
        else:
            tag, at = _varint(body, at, end)
        kind = tag & 7
        if kind == _LENGTH:
            length, at = _varint(body, at, end)
            if at + length > end:
                raise ValueError("a length reaches beyond the end")
            yield tag >> 3, at, at + length
            at += length
        elif kind == _VARINT:
            _, at = _varint(body, at, end)
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise ValueError("a wire type that OTLP does not have")


def _varint(body: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = body[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            break
    raise ValueError("a number without an end")


def hollow(body: bytes) -> bool:
    """Whether it is mostly empty messages, such as attributes without key and value."""
    if len(body) < 6 * _SPARE:
        return False
    wire = np.frombuffer(body, np.uint8)
    empty = np.count_nonzero(((wire[:-1] & 7) == _LENGTH) & (wire[1:] == 0))
    return bool(empty > len(body) // 6)


def crowded_json(body: bytes) -> bool:
    """Whether it opens more objects and lists than an export of its length can need."""
    return body.count(b"{") + body.count(b"[") > len(body) // 8 + _SPARE
