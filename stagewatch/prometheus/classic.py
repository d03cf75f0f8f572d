"""Native histograms as the classic buckets that they are at their own edges.

An exponential histogram says how many values lie below any edge of its schema, so one layout for
all scrapes of a series loses nothing: a window of whole octaves, wide enough for durations and
widened where it must be. Schemas finer than the grid of our distributions are folded to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from collector.native_histogram import CUSTOM_BUCKETS, NativeHistogram
from domain.grid import CELLS_PER_OCTAVE, EDGES_S, OTEL_OFFSET, SCALE

__all__ = ["Classic", "Window", "classic"]

Classic = tuple[str, str | None, float]
"""The ending of a name, `le`, and the value."""

_FIRST_OCTAVE: Final = -10  # 1 ms
_LAST_OCTAVE: Final = 7  # 128 s
_OCTAVES: Final = (
    (1 - OTEL_OFFSET) // CELLS_PER_OCTAVE,
    (len(EDGES_S) - OTEL_OFFSET) // CELLS_PER_OCTAVE,
)

Window = tuple[int, int]
"""First and last octave with edges."""


def classic(
    histogram: NativeHistogram, window: Window | None
) -> tuple[list[Classic], Window] | None:
    """The samples of a page, and the window for the next one; None where it counts no durations.

    No durations are: values below 0, buckets that are not whole numbers, what comes and goes.
    """
    if histogram.is_gauge or histogram.negative_count or not _is_whole(histogram):
        return None
    if histogram.schema == CUSTOM_BUCKETS:
        edges, counts = histogram.edges, _custom(histogram)
        window = window or (_FIRST_OCTAVE, _LAST_OCTAVE)
    else:
        window = _widened(histogram, window or (_FIRST_OCTAVE, _LAST_OCTAVE))
        edges, counts = _exponential(histogram, window)
    if edges and edges[0] < 0:
        return None
    return list(_samples(histogram, edges, counts)), window


def _is_whole(histogram: NativeHistogram) -> bool:
    counts = (histogram.zero_count, *(n for _, n in histogram.buckets))
    return all(n == int(n) for n in counts)


def _samples(
    histogram: NativeHistogram, edges: Sequence[float], counts: Sequence[float]
) -> Iterator[Classic]:
    running = 0.0
    for edge, n in zip((*edges, math.inf), counts, strict=True):
        running += n
        yield "_bucket", "+Inf" if edge == math.inf else repr(edge), running
    # why the sum of the buckets: values that are no numbers count, and lie in none
    yield "_count", None, running
    if math.isfinite(histogram.sum):
        yield "_sum", None, histogram.sum


def _custom(histogram: NativeHistogram) -> list[float]:
    counts = [0.0] * (len(histogram.edges) + 1)
    for index, n in histogram.buckets:
        counts[index] = n
    return counts


def _exponential(
    histogram: NativeHistogram, window: Window
) -> tuple[tuple[float, ...], list[float]]:
    """Edges at the window's own steps, and the counts between them; what is zero lies lowest."""
    schema = min(histogram.schema, SCALE)
    fold = histogram.schema - schema
    first, last = (_at_octave(octave, schema) for octave in window)
    last = min(last, _OCTAVES[1] << schema if schema >= 0 else _OCTAVES[1] >> -schema)
    counts = [0.0] * (last - first + 2)
    for index, n in histogram.buckets:
        folded = -(-index >> fold)  # why up: an index names the upper edge of its bucket
        counts[min(max(folded - first, 0), len(counts) - 1)] += n
    counts[0] += histogram.zero_count
    return tuple(_edge(index, schema) for index in range(first, last + 1)), counts


def _at_octave(octave: int, schema: int) -> int:
    """The index whose upper edge is 2^octave; below schema 0 the next edge outside."""
    if schema >= 0:
        return octave << schema
    step = 1 << -schema
    return octave // step if octave < 0 else -(-octave // step)


def _edge(index: int, schema: int) -> float:
    """The very number of our grid, so that counts at it stay exact; below it the lowest."""
    place = (index << (SCALE - schema)) + OTEL_OFFSET - 1
    return float(EDGES_S[max(place, 0)])


def _widened(histogram: NativeHistogram, window: Window) -> Window:
    """Whole octaves around everything counted, as far as our grid reaches."""
    if not histogram.buckets:
        return window
    per_octave = 2.0**histogram.schema
    lowest, highest = histogram.buckets[0][0] - 1, histogram.buckets[-1][0]
    first = max(min(window[0], math.floor(lowest / per_octave)), _OCTAVES[0])
    last = min(max(window[1], math.ceil(highest / per_octave)), _OCTAVES[1])
    return first, max(last, first)
