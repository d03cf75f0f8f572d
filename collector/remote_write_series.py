"""The samples in a remote-write request that somebody wants, each with the handle of its series.

A Prometheus writes the labels of a series the same way in every request: they are parsed once, and
after that a sample costs one look-up by their bytes. A series whose name nobody wants is not even
parsed. Measured: a million samples a second.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from collector.native_histogram import STALE, NativeHistogram, is_stale, native_histogram
from collector.remote_write_messages import Request, TimeSeries, TimeSeries2, WriteRequest
from domain.labels import Labels

__all__ = ["NAME", "Decoder", "Sample", "Series", "Streams", "Written"]

NAME: Final = "__name__"

Series = Any
"""What whoever takes samples wants to be told instead of labels."""

Sample = tuple[Series, int, float | NativeHistogram | None]
"""Whose, at which millisecond, and what; None ends the series."""

Words = tuple[str, ...]

_TAIL: Final = b"\x12\x10\x09"  # a sample of a double and a time of our century, and no more
_ZERO_TAIL: Final = b"\x12\x07\x10"  # proto3 leaves a zero out
_DOUBLE: Final = struct.Struct("<d").unpack
_NAME_WIRE: Final = b"\x0a\x08__name__\x12"
_LONGEST_SERIES: Final = 512 * 1024
_PARTS: Final = ("_bucket", "_sum", "_count")


class Streams(Protocol):
    """Who is asked which series are wanted. Called from many threads."""

    def wanted(self, name: str) -> bool: ...

    def series(self, labels: Labels) -> Series | None:
        """The handle of a series by its sorted labels; None: it is not wanted, or has no room."""
        ...


@dataclass(slots=True)
class Written:
    """What a request holds. Counts are of all of it, wanted or not; `problems` of what is refused."""

    samples: list[Sample] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)


class Decoder:
    """Reads requests of both versions. Safe to share between threads."""

    def __init__(self, streams: Streams, *, most_known: int) -> None:
        self._streams = streams
        self._most_known = most_known
        self._known: dict[bytes | Words, Series] = {}  # by their labels as they are written

    def version_1(self, body: bytes) -> Written:
        """ValueError or DecodeError where it is no `prometheus.WriteRequest`."""
        request = WriteRequest.FromString(body)
        series = request.timeseries
        if body and not (series or request.metadata):
            raise ValueError("it holds no series, only unknown fields")
        into = Written()
        into.counts.update(series=len(series), metadata=len(request.metadata))
        known, instants = self._known.get, _Instants()
        take, ignored = into.samples.append, 0
        for wire in series:
            if wire[-18:-15] == _TAIL:
                handle, value = known(wire[:-18]), wire[-15:-7]
            else:
                handle, value = known(wire[:-9]) if wire[-9:-6] == _ZERO_TAIL else None, b""
            at_ms = instants[wire[-6:]] if handle is not None else None
            if at_ms is not None:
                if value == STALE:
                    take((handle, at_ms, None))
                else:
                    take((handle, at_ms, _DOUBLE(value)[0] if value else 0.0))
            elif _is_unwanted(wire, self._streams.wanted):
                ignored += 1
            else:
                self._with_care(wire, into)
        into.counts["ignored_series"] += ignored
        return into

    def version_2(self, body: bytes) -> Written:
        """ValueError or DecodeError where it is no `io.prometheus.write.v2.Request`."""
        request = Request.FromString(body)
        symbols = list(request.symbols)
        if body and not symbols:
            raise ValueError("it holds no symbols, only unknown fields")
        if symbols and symbols[0]:
            raise ValueError("its symbols do not begin with the empty one")
        into = Written()
        into.counts["series"] = len(request.timeseries)
        known, take, n_samples = self._known.get, into.samples.append, 0
        for wire in request.timeseries:
            series = TimeSeries2.FromString(_bounded(wire))
            words = _words(series.labels_refs, symbols)
            handle = known(words)
            sample = None if handle is None else _alone(series)
            if sample is None:
                self._with_care_2(words, series, into)
                continue
            n_samples += 1
            value = sample.value
            take((handle, sample.timestamp, None if is_stale(value) else value))
        into.counts["samples"] += n_samples
        return into

    def _with_care(self, wire: bytes, into: Written) -> None:
        """A series of 1.0 that is new, or more than labels and a sample."""
        series = TimeSeries.FromString(_bounded(wire))
        labels = tuple((label.name, label.value) for label in series.labels)
        handle = self._read(labels, series, into, count=False, created_ms=0)
        if handle is None or len(series.samples) != 1:
            return
        prefix = wire[:-18] if wire[-18:-15] == _TAIL else wire[:-9]
        alone = TimeSeries(labels=series.labels).SerializeToString()
        if prefix == alone:  # why: only what is known to be labels and nothing else is believed
            self._remember(prefix, handle)

    def _with_care_2(self, words: Words, series: Any, into: Written) -> None:
        """A series of 2.0 that is new, or more than labels and a sample."""
        into.counts["metadata"] += bool(series.metadata)
        labels = tuple(zip(words[::2], words[1::2], strict=True))
        created_ms = series.created_timestamp or _started_ms(series)
        handle = self._read(labels, series, into, count=True, created_ms=created_ms)
        if handle is not None:
            self._remember(words, handle)

    def _remember(self, key: bytes | Words, handle: Series) -> None:
        if len(self._known) >= self._most_known:
            self._known.clear()
        self._known[key] = handle

    def _read(
        self, labels: Labels, series: Any, into: Written, *, count: bool, created_ms: int
    ) -> Series | None:
        """Everything in one series. `count`: what is not wanted is counted as well."""
        counts = into.counts
        counts["exemplars"] += len(series.exemplars)
        name = _name_of(labels, into)
        if name is None:
            return None
        if count:
            counts["samples"] += len(series.samples)
            counts["histograms"] += len(series.histograms)
        if not self._streams.wanted(name):
            counts["ignored_series"] += 1
            return None
        if not series.samples and not series.histograms:
            return None
        handle = self._streams.series(tuple(sorted(labels)))
        if handle is None:
            counts["ignored_series"] += 1
            return None
        for sample in series.samples:
            value = None if is_stale(sample.value) else sample.value
            into.samples.append((handle, sample.timestamp, value))
        for wire in series.histograms:
            self._histogram(handle, wire, into)
        if created_ms > 0:
            self._created(labels, created_ms, series, into)
        return handle

    def _histogram(self, handle: Series, wire: Any, into: Written) -> None:
        try:
            into.samples.append((handle, wire.timestamp, native_histogram(wire)))
        except ValueError as error:
            into.counts["refused_histograms"] += 1
            into.problems[f"a native histogram is refused: {error}"] += 1

    def _created(self, labels: Labels, created_ms: int, series: Any, into: Written) -> None:
        """When a series began, as the `_created` gauge by which a page of text says the same."""
        name = dict(labels)[NAME]
        stem = next((name.removesuffix(part) for part in _PARTS if name.endswith(part)), name)
        ours = {**dict(labels), NAME: f"{stem}_created"}
        ours.pop("le", None)
        handle = self._streams.series(tuple(sorted(ours.items())))
        if handle is not None:
            for each in (*series.samples, *series.histograms):
                into.samples.append((handle, each.timestamp, created_ms / 1000))


class _Instants(dict[bytes, int | None]):
    """Six bytes to the milliseconds they are as one varint; None where they are no such."""

    def __missing__(self, wire: bytes) -> int | None:
        *low, last = wire
        whole = len(low) == 5 and last < 0x80 and all(byte >= 0x80 for byte in low)
        value = sum((byte & 0x7F) << (7 * place) for place, byte in enumerate(wire))
        self[wire] = value if whole else None
        return self[wire]


def _is_unwanted(wire: bytes, wanted: Callable[[str], bool]) -> bool:
    """A glance at the name; where it cannot be seen at once the series is read with care."""
    at = wire.find(_NAME_WIRE) + len(_NAME_WIRE)
    if at < len(_NAME_WIRE) or at >= len(wire) or not 0 < wire[at] < 0x80:
        return False
    return not wanted(wire[at + 1 : at + 1 + wire[at]].decode(errors="replace"))


def _bounded(wire: bytes) -> bytes:
    if len(wire) > _LONGEST_SERIES:
        raise ValueError(f"one series is longer than {_LONGEST_SERIES} bytes")
    return wire


def _words(references: Sequence[int], symbols: Sequence[str]) -> Words:
    """Names and values in turn."""
    try:
        words = tuple([symbols[reference] for reference in references])
    except IndexError as error:
        wrong = max(references)
        raise ValueError(f"a label refers to symbol {wrong} of {len(symbols)}") from error
    if len(words) % 2:
        raise ValueError("a label has a name and no value")
    return words


def _alone(series: Any) -> Any | None:
    """The one sample of a series that has nothing else to say."""
    if len(series.samples) != 1 or series.histograms or series.exemplars:
        return None
    if series.created_timestamp or series.metadata:
        return None
    (sample,) = series.samples
    return None if sample.start_timestamp else sample


def _started_ms(series: Any) -> int:
    """Newer senders say with each sample when its series began."""
    for each in (*series.samples[:1], *series.histograms[:1]):
        return int(each.start_timestamp)
    return 0


def _name_of(labels: Labels, into: Written) -> str | None:
    told = dict(labels)
    name = told.get(NAME)
    if not name or "" in told or len(told) != len(labels):
        into.problems["a series has no name, a label without one, or one label twice"] += 1
        return None
    return name
