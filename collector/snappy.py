"""Snappy's block format, inflated no further than allowed: the length it declares is read first."""

import cramjam

from collector.body import too_large
from collector.otlp_status import Reason, Refusal

__all__ = ["unsnappy"]

_LONGEST_VARINT = 5


def unsnappy(body: bytes, *, limit_bytes: int, where: str) -> bytes:
    """The whole body, or a refusal. A block inflates to what it declares, or not at all."""
    declared_bytes = _declared_bytes(body, where)
    if declared_bytes > limit_bytes:
        raise too_large(where, limit_bytes, once=" once decompressed")
    into = bytearray(declared_bytes)  # why: the decompressor can write no further than this
    try:
        written = cramjam.snappy.decompress_raw_into(body, into)
    except cramjam.DecompressionError as error:
        raise _malformed(f"the body is not whole snappy: {error}", where) from error
    if written != declared_bytes:
        raise _malformed("the body holds less than it declares", where)
    return bytes(into)


def _declared_bytes(body: bytes, where: str) -> int:
    value = 0
    for place, byte in enumerate(body[:_LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value
    raise _malformed("the body does not begin as snappy does", where)


def _malformed(problem: str, where: str) -> Refusal:
    return Refusal(
        problem,
        reason=Reason.MALFORMED,
        where=where,
        remedy="Send snappy's block format, as Prometheus does; the framed format is another one.",
    )
