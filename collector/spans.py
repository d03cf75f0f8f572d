"""OTLP spans to columns of legs: the known attributes only, the rest of a bad span is kept.

A stage that is negative, NaN, infinite or longer than 36 h becomes None and is counted; a span
without ids or with impossible time stamps is refused with its reason. Spans of one shape are read
together (`collector.lockstep`); only what is unusual costs one object per attribute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import numpy as np
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.legs import (
    KINDS,
    SECONDS,
    SPAN_ID,
    TRACE_ID,
    Floats,
    LegTable,
    concat,
)
from collector.lockstep import Alike, SpanBytes, framed, walk
from collector.semantics import (
    ATTRIBUTE_LABELS,
    FINISH,
    GAPS,
    LONGEST_S,
    NUMBERS,
    OUTCOME,
    labels_in,
    number_in,
    text_in,
)
from collector.series import SeriesIds
from collector.span_columns import (
    ABSENT,
    MOST_TOKENS,
    WIDTH,
    Rows,
    Times,
    columns_of,
    finish_in,
    outcome_in,
    sound,
)
from domain.labels import MAX_LABEL_LENGTH, labels_of
from domain.request import LegKind

__all__ = ["SpanReader", "Spans"]

_KIND = {kind: place for place, kind in enumerate(KINDS)}
_BLANK: Final = [ABSENT] * WIDTH
_REQUEST: Final = "llm_request"
_LONGEST_NS: Final = int(LONGEST_S * 1e9)
_TEXTS: Final = frozenset((*ATTRIBUTE_LABELS, *OUTCOME, *FINISH, GAPS))
_WANTED: Final = frozenset(key.encode() for key in (*NUMBERS, GAPS))  # gaps are read one by one
_SAME: Final = frozenset(key.encode() for key in (*ATTRIBUTE_LABELS, *OUTCOME, *FINISH))
_SHAPES: Final = 8  # in one resource of one export; what is rarer is read one by one
_FEW: Final = 4
_SOURCES: Final = {True: "client", False: "span"}


@dataclass(slots=True)
class Spans:
    """What an export holds. `gaps` are a leg's gaps between tokens, which no leg keeps."""

    table: LegTable
    gaps: Mapping[int, Floats]
    refused: Counter[str]
    counts: Counter[str]


@dataclass(slots=True)
class _Origin:
    """A resource: its labels, and the series its spans belong to by what they say themselves."""

    labels: Mapping[str, str]
    series: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Reading:
    """One export while it is read."""

    rows: Rows
    tables: list[LegTable]
    refused: Counter[str]
    counts: Counter[str]
    times: Times


class SpanReader:
    """Reads exports; remembers resources, so that each is resolved once."""

    def __init__(
        self, ids: SeriesIds, *, roles: Mapping[str, str], services: Mapping[str, str]
    ) -> None:
        self._ids = ids
        self._roles = roles
        self._services = services
        self._origins: dict[bytes, _Origin] = {}

    def forget(self) -> None:
        """Series were renumbered."""
        self._origins.clear()

    def read(self, body: bytes, times: Times) -> Spans:
        """Every leg of a serialised ExportTraceServiceRequest."""
        rows, tables = Rows(), list[LegTable]()
        into = _Reading(rows, tables, Counter(), Counter(), times)
        for spans in framed(body):
            origin = self._origin(spans.resource)
            for row in self._read_alike(body, spans, origin, into):
                span = Span.FromString(body[spans.starts[row] : spans.ends[row]])
                self._read_one(span, origin, into)
        tables.insert(0, rows.table())  # why first: gaps are by row of this one
        return Spans(concat(tables), rows.gaps, into.refused, into.counts)

    def _read_alike(
        self, body: bytes, spans: SpanBytes, origin: _Origin, into: _Reading
    ) -> list[int]:
        """Read spans of one shape together; the rows that are left for one by one."""
        rows, alone = np.arange(len(spans.starts)), list[int]()
        for _ in range(_SHAPES):
            if len(rows) < _FEW:
                break
            alike = walk(body, spans, rows, wanted=_WANTED, same=_SAME)
            if not len(alike.rows) or alike.rows[0] != rows[0]:
                alone.append(int(rows[0]))
                rows = rows[1:]
            rows = rows[np.isin(rows, alike.rows, invert=True)]
            alone.extend(self._take_alike(alike, origin, into))
        return [*alone, *rows.tolist()]

    def _take_alike(self, alike: Alike, origin: _Origin, into: _Reading) -> list[int]:
        """Columns of these spans; the rows of those with something impossible."""
        client = alike.kind == Span.SPAN_KIND_CLIENT
        if not len(alike.rows):
            return []
        if not client and alike.kind != Span.SPAN_KIND_SERVER:
            into.counts["ignored_spans_total"] += len(alike.rows)
            return []
        if not alike.numbers and not alike.texts and (client or alike.name != _REQUEST.encode()):
            into.counts["ignored_spans_total"] += len(alike.rows)
            return []
        if not sound(alike, into.times).all():
            return [int(row) for row in alike.rows]
        texts = [_attribute(key, rest) for key, rest in alike.texts.items()]
        place = self._series(origin, texts, client=client, counts=into.counts)
        into.tables.append(columns_of(alike, texts, place, into.counts))
        return []

    def _read_one(self, span: Span, origin: _Origin, into: _Reading) -> None:
        if span.kind not in (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT):
            into.counts["ignored_spans_total"] += 1
        elif reason := _impossible(span, into.times):
            into.refused[reason] += 1
        else:
            self._add(span, origin, into.rows, into.counts)

    def _add(self, span: Span, origin: _Origin, rows: Rows, counts: Counter[str]) -> None:
        numbers, texts, known, told = _BLANK.copy(), None, NUMBERS.get, False
        for attribute in span.attributes:
            place = known(attribute.key)
            if place is not None:
                value = number_in(attribute.value)
                if value is None:
                    continue
                told = True
                if 0.0 <= value <= (LONGEST_S if place < len(SECONDS) else MOST_TOKENS):
                    numbers[place] = value
                else:
                    counts["rejected_values_total"] += 1
            elif attribute.key in _TEXTS:
                texts = texts or []
                texts.append(attribute)
        client = span.kind == Span.SPAN_KIND_CLIENT
        if not told and not texts and (client or span.name != _REQUEST):
            counts["ignored_spans_total"] += 1
            return
        series_id, kind = self._series(origin, texts or (), client=client, counts=counts)
        error = span.status.code == Status.STATUS_CODE_ERROR
        if texts:
            _take_texts(texts, rows)
        rows.finish.append(finish_in(texts or ()))
        rows.trace_ids.append(span.trace_id)
        rows.span_ids.append(span.span_id)
        rows.series_id.append(series_id)
        rows.kind.append(kind)
        rows.outcome.append(outcome_in(texts or (), error=error))
        rows.start_at_ns.append(span.start_time_unix_nano)
        rows.end_at_ns.append(span.end_time_unix_nano)
        rows.numbers.append(numbers)

    def _origin(self, resource: bytes) -> _Origin:
        key = blake2b(resource, digest_size=16).digest()
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) > 10_000:
                self._origins.clear()
            labels = {
                "service": "unknown_service",
                **labels_in(Resource.FromString(resource).attributes),
            }
            origin = self._origins[key] = _Origin(labels)
        return origin

    def _series(
        self, origin: _Origin, texts: Sequence[KeyValue], *, client: bool, counts: Counter[str]
    ) -> tuple[int, int]:
        own = [
            (a.key, text_in(a.value)[:MAX_LABEL_LENGTH]) for a in texts if a.key in ATTRIBUTE_LABELS
        ]
        key = (client, *own)
        found = origin.series.get(key)
        if found is None:
            if len(origin.series) > 10_000:
                origin.series.clear()
            found = origin.series[key] = self._resolve(origin, own, client=client, counts=counts)
        return found

    def _resolve(
        self,
        origin: _Origin,
        own: Sequence[tuple[str, str]],
        *,
        client: bool,
        counts: Counter[str],
    ) -> tuple[int, int]:
        labels = dict(origin.labels)
        labels.update((ATTRIBUTE_LABELS[key], text) for key, text in own if text)
        service = labels["service"]
        renamed = labels["service"] = self._services.get(service, service)
        role = labels.get("role") or self._roles.get(service) or self._roles.get(renamed)
        kind = LegKind.CLIENT if client else LegKind.SERVER
        if not client and role in ("prefill", "decode"):
            kind = LegKind(role)
        if role and not client:
            labels["role"] = role
        labels["source"] = _SOURCES[client]
        return self._ids.id_of(labels_of(labels), counts), _KIND[kind]


def _attribute(key: bytes, rest: bytes) -> KeyValue:
    return KeyValue.FromString(bytes((0x0A, len(key))) + key + rest)


def _impossible(span: Span, times: Times) -> str | None:
    """Why no leg can be made of this span."""
    start, end = span.start_time_unix_nano, span.end_time_unix_nano
    if times.oldest_at_ns <= end <= times.newest_at_ns and 0 <= end - start <= _LONGEST_NS:
        trace_id, span_id = span.trace_id, span.span_id
        if len(trace_id) == TRACE_ID and len(span_id) == SPAN_ID and any(trace_id) and any(span_id):
            return None
        return "an id is missing or has a wrong length"
    if end < start:
        return "it ends before it starts"
    if end > times.newest_at_ns:
        return "it ends in the future"
    return "it is older than anything kept" if end < times.oldest_at_ns else "it lasts over 36 h"


def _take_texts(texts: Sequence[KeyValue], rows: Rows) -> None:
    for attribute in texts:
        if attribute.key == GAPS:
            gaps = _gaps(attribute.value)
            if len(gaps):
                rows.gaps[len(rows.trace_ids)] = gaps


def _gaps(value: AnyValue) -> Floats:
    gaps = np.array([each.double_value for each in value.array_value.values])
    return gaps[(gaps >= 0) & (gaps <= LONGEST_S)]
