"""OTLP spans to columns of legs: the known attributes only, the rest of a bad span is kept.

What a span is says `collector.span_names`. A stage that is negative, NaN, infinite or longer than
36 h becomes None and is counted; a span without ids or with impossible time stamps is refused with
its reason. Spans of one shape are read together (`collector.lockstep`); only what is unusual costs
one object per attribute.
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
    SPAN_ID,
    TRACE_ID,
    Floats,
    LegTable,
    concat,
)
from collector.lockstep import Alike, SpanBytes, framed, walk
from collector.semantics import (
    FINISH,
    GAPS,
    LONGEST_S,
    OUTCOME,
    ROOM,
    STREAMED,
    labels_in,
    number_in,
    text_in,
)
from collector.series import SeriesIds
from collector.span_columns import (
    ABSENT,
    WIDTH,
    Rows,
    Times,
    columns_of,
    ending_in,
    number_at,
    sound,
)
from collector.span_names import DECISIVE, WITHIN, SpanName, name_of
from domain.labels import MAX_LABEL_LENGTH, labels_of
from domain.leg import LegKind

__all__ = ["SpanReader", "Spans"]

_KIND = {kind: place for place, kind in enumerate(KINDS)}
_BLANK: Final = [ABSENT] * WIDTH
_NO_PARENT: Final = bytes(SPAN_ID)
_LONGEST_NS: Final = int(LONGEST_S * 1e9)
_SAME: Final = frozenset((*OUTCOME, *FINISH, *STREAMED, ROOM, *DECISIVE))
_SHAPES: Final = 12  # in one resource of one export; what is rarer is read one by one
_FEW: Final = 4
_BY_ROLE: Final = {
    "prefill": LegKind.PREFILL,
    "decode": LegKind.DECODE,
    "frontend": LegKind.FRONTEND,
}
_ROLES: Final = {kind: role for role, kind in _BY_ROLE.items()}
_UNLABELLED: Final = frozenset((LegKind.CLIENT, LegKind.LINK))


@dataclass(slots=True)
class Spans:
    """What an export holds. `gaps` are a leg's gaps between tokens, which no leg keeps."""

    table: LegTable
    gaps: Mapping[int, Floats]
    refused: Counter[str]
    counts: Counter[str]


@dataclass(slots=True)
class _Origin:
    """A resource: its labels, and the series its spans belong to by what they say themselves.

    `process` is the service it names itself, whatever it is called here.
    """

    labels: Mapping[str, str]
    process: str
    series: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)


class _Shape:
    """What spans of one row of the table are read for; nothing where they are no legs."""

    def __init__(self, row: SpanName | None) -> None:
        self.row = row
        texts = row.texts | _SAME if row else _SAME
        # why gaps: they make a span unusual, so that it is read one by one
        numbers = (*row.numbers, GAPS) if row else ()
        self.same = frozenset(key.encode() for key in texts)
        self.wanted = frozenset(key.encode() for key in numbers)


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
        self._shapes: dict[SpanName | None, _Shape] = {}

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
            shape = self._shape(body[spans.starts[rows[0]] : spans.ends[rows[0]]])
            alike = walk(body, spans, rows, wanted=shape.wanted, same=shape.same)
            if not len(alike.rows) or alike.rows[0] != rows[0]:
                alone.append(int(rows[0]))
                rows = rows[1:]
            rows = rows[np.isin(rows, alike.rows, invert=True)]
            alone.extend(self._take_alike(alike, shape.row, origin, into))
        return [*alone, *rows.tolist()]

    def _shape(self, body: bytes) -> _Shape:
        span = Span.FromString(body)
        told = {attribute.key: attribute.value for attribute in span.attributes}
        row = name_of(span.name, span.kind, told)
        return self._shapes.setdefault(row, _Shape(row))

    def _take_alike(
        self, alike: Alike, row: SpanName | None, origin: _Origin, into: _Reading
    ) -> list[int]:
        """Columns of these spans; the rows of those with something impossible."""
        if row is None:
            into.counts["ignored_spans_total"] += len(alike.rows)
            return []
        if not len(alike.rows):
            return []
        if not sound(alike, into.times).all():
            return [int(place) for place in alike.rows]
        texts = [_attribute(key, rest) for key, rest in alike.texts.items()]
        place = self._series(origin, row, alike.name.decode(), texts, into.counts)
        ending = ending_in(_speaking(row, place[1]), texts)
        into.tables.append(columns_of(alike, row, ending, place, into.counts))
        return []

    def _read_one(self, span: Span, origin: _Origin, into: _Reading) -> None:
        told = {attribute.key: attribute.value for attribute in span.attributes}
        row = name_of(span.name, span.kind, told)
        if row is None:
            into.counts["ignored_spans_total"] += 1
        elif reason := _impossible(span, into.times):
            into.refused[reason] += 1
        else:
            self._add(span, row, origin, into)

    def _add(self, span: Span, row: SpanName, origin: _Origin, into: _Reading) -> None:
        numbers, texts, rows = _BLANK.copy(), list[KeyValue](), into.rows
        start_at_ns, end_at_ns = span.start_time_unix_nano, span.end_time_unix_nano
        if row.length is not None:
            numbers[row.length] = (end_at_ns - start_at_ns) / 1e9
        for attribute in span.attributes:
            place = row.numbers.get(attribute.key)
            if place is None:
                texts.append(attribute)
                continue
            told = number_in(attribute.value)
            value = None if told is None else number_at(place, told, row)
            if value is not None:
                numbers[place] = value
            elif told is not None:
                into.counts["rejected_values_total"] += 1
        series_id, kind = self._series(origin, row, span.name, texts, into.counts)
        for attribute in texts:
            if attribute.key == GAPS and len(gaps := _gaps(attribute.value)):
                rows.gaps[len(rows.trace_ids)] = gaps
        is_error = span.status.code == Status.STATUS_CODE_ERROR
        rows.endings.append(ending_in(_speaking(row, kind), texts, error=is_error))
        rows.trace_ids.append(span.trace_id)
        rows.span_ids.append(span.span_id)
        rows.parent_ids.append(
            span.parent_span_id if len(span.parent_span_id) == SPAN_ID else _NO_PARENT
        )
        rows.series_id.append(series_id)
        rows.kind.append(kind)
        rows.start_at_ns.append(start_at_ns)
        rows.end_at_ns.append(end_at_ns)
        rows.numbers.append(numbers)

    def _origin(self, resource: bytes) -> _Origin:
        key = blake2b(resource, digest_size=16).digest()
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) > 10_000:
                self._origins.clear()
            attributes = Resource.FromString(resource).attributes
            labels = {"service": "unknown_service", **labels_in(attributes)}
            named = (text_in(a.value) for a in attributes if a.key == "service.name")
            process = next(named, "")[:MAX_LABEL_LENGTH]
            origin = self._origins[key] = _Origin(labels, process)
        return origin

    def _series(
        self,
        origin: _Origin,
        row: SpanName,
        name: str,
        texts: Sequence[KeyValue],
        counts: Counter[str],
    ) -> tuple[int, int]:
        own = tuple(
            (row.labels.get(a.key, ""), text_in(a.value)[:MAX_LABEL_LENGTH])
            for a in texts
            if a.key in row.labels or a.key == row.replica
        )
        role = row.role_in(name)
        key = (row, role, own)
        found = origin.series.get(key)
        if found is None:
            if len(origin.series) > 10_000:
                origin.series.clear()
            found = origin.series[key] = self._resolve(origin, row, role, own, counts)
        return found

    def _resolve(
        self,
        origin: _Origin,
        row: SpanName,
        role: str,
        own: Sequence[tuple[str, str]],
        counts: Counter[str],
    ) -> tuple[int, int]:
        labels = {**origin.labels, **{name: text for name, text in own if text and name}}
        service = labels["service"]
        renamed = labels["service"] = self._services.get(service, service)
        if "replica" not in labels:
            worker = next((text for name, text in own if not name), "")
            labels["replica"] = worker if origin.process in ("", renamed) else origin.process
        told = labels.get("role") or role or self._roles.get(service) or self._roles.get(renamed)
        kind = row.leg or _BY_ROLE.get(told or "", LegKind.SERVER)
        if kind is LegKind.CLIENT and told == "frontend":
            kind = LegKind.LINK  # why: what a gateway asks for, somebody asked it for
        if kind is LegKind.CLIENT:
            # why: who only tests must not pass for a user
            labels["source"] = "probe" if labels.get("source") == "probe" else "client"
        else:
            labels["source"] = "span"
            labels["role"] = (_ROLES.get(kind) if row.leg else told) or ""
        if kind in _UNLABELLED:
            labels["role"] = origin.labels.get("role", "")
        return self._ids.id_of(labels_of(labels), counts), _KIND[kind]


def _speaking(row: SpanName, kind: int) -> SpanName:
    """Whose word on the outcome counts: a gateway's own calls have none."""
    return WITHIN if kind == _KIND[LegKind.LINK] else row


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


def _gaps(value: AnyValue) -> Floats:
    gaps = np.array([each.double_value for each in value.array_value.values])
    return gaps[(gaps >= 0) & (gaps <= LONGEST_S)]
