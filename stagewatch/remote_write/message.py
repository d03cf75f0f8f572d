"""Families as one remote-write 1.0 message; messages one after the other are one message, too."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from collector.remote_write_messages import TimeSeries, WriteRequest
from domain.labels import Labels, labels_of
from stagewatch.summary.family import Family, Sample

__all__ = ["STALE", "series_of", "write_request"]

(STALE,) = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))
"""The NaN by which Prometheus knows that a series has ended."""

_NAME: Final = "__name__"


def series_of(families: Iterable[Family], labels: Mapping[str, str]) -> dict[Labels, Sample]:
    """Every series and its sample. Labels of a sample go before those that all get."""
    return {
        labels_of({**labels, **dict(sample.labels), _NAME: family.name}): sample
        for family in families
        for sample in family.samples
    }


def write_request(series: Mapping[Labels, Sample], gone: Iterable[Labels], *, at_s: float) -> bytes:
    """All at one instant, but for those that have one of their own; those `gone` end there."""
    at_ms = math.floor(at_s * 1000)
    request = WriteRequest()
    request.timeseries.extend(
        _series(labels, each.value, at_ms if each.at_s is None else math.floor(each.at_s * 1000))
        for labels, each in series.items()
    )
    request.timeseries.extend(_series(labels, STALE, at_ms) for labels in sorted(gone))
    told: bytes = request.SerializeToString()
    return told


def _series(labels: Labels, value: float, at_ms: int) -> bytes:
    series = TimeSeries()
    for name, held in labels:  # why in this order: Prometheus wants them sorted
        series.labels.add(name=name, value=held)
    series.samples.add(value=value, timestamp=at_ms)
    told: bytes = series.SerializeToString()
    return told
