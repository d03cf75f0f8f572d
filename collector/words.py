"""Histogram sides as bytes that merge by concatenation: uint32 words, cell << 20 | count.

Little-endian, 12 bits of cell and 20 of count; a larger count repeats its word. Any number of
blobs, joined, are the blob of all their values: so an upsert in SQL is `blob || excluded.blob`.
"""

from collections.abc import Iterable

import numpy as np

from domain.grid import CELLS, Cells

__all__ = ["COUNT_MAX", "compact", "decode", "encode"]

COUNT_MAX = (1 << 20) - 1
_WORD = np.dtype("<u4")


def encode(side: Cells) -> bytes:
    """The counts of one side."""
    held = side.nonzero()[0]
    counts = side[held]
    if len(counts) and counts.max() > COUNT_MAX:
        words = -(-counts // COUNT_MAX)
        held = held.repeat(words)
        rest = counts - (words - 1) * COUNT_MAX
        counts = np.full(int(words.sum()), COUNT_MAX, np.int64)
        counts[words.cumsum() - 1] = rest
    return bytes((held << 20 | counts).astype(_WORD).tobytes())


def decode(blobs: Iterable[bytes]) -> Cells:
    """The counts of all blobs together."""
    words = np.frombuffer(b"".join(blobs), _WORD)
    # why weights are safe: float64 adds integers exactly up to 2^53
    dense = np.bincount(words >> 20, weights=words & COUNT_MAX, minlength=CELLS)
    return dense.astype(np.int64)[:CELLS]


def compact(blob: bytes) -> bytes:
    """The same counts in as few words as they need."""
    return encode(decode((blob,)))
