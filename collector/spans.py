"""OTLP spans to columns of legs: the known attributes only, the rest of a bad span is kept.

A stage that is negative, NaN, infinite or longer than 36 h becomes None and is counted; a span
without ids or with impossible time stamps is refused with its reason. Spans of one shape are read
together (`collector.lockstep`); only what is unusual costs one object per attribute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from collector.legs import (
    KINDS,
    OUTCOMES,
    SECONDS,
    SPAN_ID,
    TOKENS,
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
    OUTCOME_WORDS,
    labels_in,
    number_in,
    text_in,
)
from collector.series import SeriesIds
from domain.labels import MAX_LABEL_LENGTH, labels_of
from domain.request import LegKind, Outcome

__all__ = ["SpanReader", "Spans", "Times"]

_KIND = {kind: place for place, kind in enumerate(KINDS)}
_OUTCOME = {outcome: place for place, outcome in enumerate(OUTCOMES)}
_OK, _FAILED, _CANCELLED = (_OUTCOME[o] for o in (Outcome.OK, Outcome.FAILED, Outcome.CANCELLED))
_NAN: Final = float("nan")
_WIDTH: Final = len(SECONDS) + len(TOKENS)
_BLANK: Final = [_NAN] * _WIDTH
_TTFT, _E2E, _PREFILL, _DECODE = (
    SECONDS.index(name) for name in ("ttft_s", "e2e_s", "prefill_s", "decode_s")
)
_OUTPUT: Final = len(SECONDS) + TOKENS.index("output_tokens")
_REQUEST: Final = "llm_request"
_LONGEST_NS: Final = int(LONGEST_S * 1e9)
_MOST_TOKENS: Final = 1e12
_LONGEST_REASON: Final = 64
_TEXTS: Final = frozenset((*ATTRIBUTE_LABELS, *OUTCOME, *FINISH, GAPS))
_WANTED: Final = frozenset(key.encode() for key in (*NUMBERS, GAPS))  # gaps are read one by one
_SAME: Final = frozenset(key.encode() for key in (*ATTRIBUTE_LABELS, *OUTCOME, *FINISH))
_SHAPES: Final = 8  # in one resource of one export; what is rarer is read one by one
_FEW: Final = 4
_SOURCES: Final = {True: "client", False: "span"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Which ends of spans and points are believed."""

    oldest_at_ns: int
    newest_at_ns: int


@dataclass(slots=True)
class Spans:
    """What an export holds. `gaps` are a leg's gaps between tokens, which no leg keeps."""

    table: LegTable
    gaps: Mapping[int, Floats]
    refused: Counter[str]
    counts: Counter[str]


@dataclass(slots=True)
class _Rows:
    """The columns while they grow."""

    trace_ids: list[bytes] = field(default_factory=list)
    span_ids: list[bytes] = field(default_factory=list)
    series_id: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    outcome: list[int] = field(default_factory=list)
    start_at_ns: list[int] = field(default_factory=list)
    end_at_ns: list[int] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)
    finish: list[str] = field(default_factory=list)
    gaps: dict[int, Floats] = field(default_factory=dict)


@dataclass(slots=True)
class _Origin:
    """A resource: its labels, and the series its spans belong to by what they say themselves."""

    labels: Mapping[str, str]
    series: dict[tuple[object, ...], tuple[int, int]] = field(default_factory=dict)


@dataclass(slots=True)
class _Reading:
    """One export while it is read."""

    rows: _Rows
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
        rows, tables = _Rows(), list[LegTable]()
        into = _Reading(rows, tables, Counter(), Counter(), times)
        for spans in framed(body):
            origin = self._origin(spans.resource)
            for row in self._read_alike(body, spans, origin, into):
                span = Span.FromString(body[spans.starts[row] : spans.ends[row]])
                self._read_one(span, origin, into)
        tables.insert(0, _table(rows))  # why first: gaps are by row of this one
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
        sound = _sound(alike, into.times)
        if not sound.all():
            return [int(row) for row in alike.rows]
        texts = [_attribute(key, rest) for key, rest in alike.texts.items()]
        series_id, kind = self._series(origin, texts, client=client, counts=into.counts)
        into.tables.append(_columns(alike, texts, series_id, kind, client=client, counts=into.counts))
        return []

    def _read_one(self, span: Span, origin: _Origin, into: _Reading) -> None:
        if span.kind not in (Span.SPAN_KIND_SERVER, Span.SPAN_KIND_CLIENT):
            into.counts["ignored_spans_total"] += 1
        elif reason := _impossible(span, into.times):
            into.refused[reason] += 1
        else:
            self._add(span, origin, into.rows, into.counts)

    def _add(self, span: Span, origin: _Origin, rows: _Rows, counts: Counter[str]) -> None:
        numbers, texts, known = _BLANK.copy(), None, NUMBERS.get
        for attribute in span.attributes:
            place = known(attribute.key)
            if place is not None:
                value = number_in(attribute.value)
                if value is None:
                    continue
                if 0.0 <= value <= (LONGEST_S if place < len(SECONDS) else _MOST_TOKENS):
                    numbers[place] = value
                else:
                    counts["rejected_values_total"] += 1
            elif attribute.key in _TEXTS:
                texts = texts or []
                texts.append(attribute)
        client = span.kind == Span.SPAN_KIND_CLIENT
        if numbers == _BLANK and not texts and (client or span.name != _REQUEST):
            counts["ignored_spans_total"] += 1
            return
        series_id, kind = self._series(origin, texts or (), client=client, counts=counts)
        outcome = _outcome(span, texts or (), numbers, client=client)
        if client:
            _complete(span, numbers)
        if texts:
            _take_texts(texts, rows)
        rows.finish.append(_finish(texts) if texts else "")
        rows.trace_ids.append(span.trace_id)
        rows.span_ids.append(span.span_id)
        rows.series_id.append(series_id)
        rows.kind.append(kind)
        rows.outcome.append(outcome)
        rows.start_at_ns.append(span.start_time_unix_nano)
        rows.end_at_ns.append(span.end_time_unix_nano)
        rows.numbers.append(numbers)

    def _origin(self, key: bytes) -> _Origin:
        origin = self._origins.get(key)
        if origin is None:
            if len(self._origins) > 10_000:
                self._origins.clear()
            labels = {"service": "unknown_service", **labels_in(Resource.FromString(key).attributes)}
            origin = self._origins[key] = _Origin(labels)
        return origin

    def _series(
        self, origin: _Origin, texts: Sequence[KeyValue], *, client: bool, counts: Counter[str]
    ) -> tuple[int, int]:
        own = [(a.key, text_in(a.value)) for a in texts if a.key in ATTRIBUTE_LABELS]
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
        labels.update((ATTRIBUTE_LABELS[k], text[:MAX_LABEL_LENGTH]) for k, text in own if text)
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


def _sound(alike: Alike, times: Times) -> NDArray[np.bool_]:
    """Which of these can be legs: the others are read one by one, for their reason."""
    start, end, n = alike.start_at_ns, alike.end_at_ns, len(alike.rows)
    if start is None or end is None or not alike.trace_ids or not alike.span_ids:
        return np.zeros(n, np.bool_)
    oldest, newest = max(times.oldest_at_ns, 0), max(times.newest_at_ns, 0)
    within = (end >= oldest) & (end <= newest) & (start <= end) & (end - start <= _LONGEST_NS)
    named = np.frombuffer(alike.trace_ids, np.uint8).reshape(n, TRACE_ID).any(axis=1)
    named &= np.frombuffer(alike.span_ids, np.uint8).reshape(n, SPAN_ID).any(axis=1)
    sound: NDArray[np.bool_] = within & named
    return sound


def _attribute(key: bytes, rest: bytes) -> KeyValue:
    return KeyValue.FromString(bytes((0x0A, len(key))) + key + rest)


def _columns(
    alike: Alike,
    texts: Sequence[KeyValue],
    series_id: int,
    kind: int,
    *,
    client: bool,
    counts: Counter[str],
) -> LegTable:
    """Sound spans of one shape as legs."""
    n = len(alike.rows)
    start, end = (np.asarray(t).astype(np.int64) for t in (alike.start_at_ns, alike.end_at_ns))
    numbers = np.full((_WIDTH, n), _NAN)
    for key, values in alike.numbers.items():
        place = NUMBERS[key.decode()]
        fine = (values >= 0.0) & (values <= (LONGEST_S if place < len(SECONDS) else _MOST_TOKENS))
        counts["rejected_values_total"] += n - int(fine.sum())
        numbers[place] = np.where(fine, values, numbers[place])
    outcome = np.full(n, _OK, np.uint8)
    told = next((text_in(a.value).lower() for a in texts if a.key in OUTCOME), None)
    if told is not None:
        outcome[:] = _OUTCOME[OUTCOME_WORDS.get(told, Outcome.FAILED)]
    elif not client:
        never = (numbers[_OUTPUT] == 0) & ~(numbers[_TTFT] > 0)
        outcome[never] = _CANCELLED
        numbers[[[_TTFT], [_PREFILL], [_DECODE]], never] = _NAN
    if client:
        numbers[_E2E] = np.where(np.isnan(numbers[_E2E]), (end - start) / 1e9, numbers[_E2E])
        rest = np.where(numbers[_E2E] >= numbers[_TTFT], numbers[_E2E] - numbers[_TTFT], _NAN)
        numbers[_DECODE] = np.where(np.isnan(numbers[_DECODE]), rest, numbers[_DECODE])
    return _legs(
        numbers,
        trace_ids=alike.trace_ids,
        span_ids=alike.span_ids,
        series_id=np.full(n, series_id, np.int64),
        kind=np.full(n, kind, np.uint8),
        outcome=outcome,
        start_at_ns=start,
        end_at_ns=end,
        finish=[_finish(texts)] * n,
    )


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


def _outcome(
    span: Span, texts: Sequence[KeyValue], numbers: list[float], *, client: bool
) -> int:
    for attribute in texts:
        if attribute.key in OUTCOME:
            word = text_in(attribute.value).lower()
            return _OUTCOME[OUTCOME_WORDS.get(word, Outcome.FAILED)]
    if span.status.code == Status.STATUS_CODE_ERROR:
        return _FAILED
    if not client and numbers[_OUTPUT] == 0 and not numbers[_TTFT] > 0:
        # why: an engine that never produced a token says 0 for what it never reached (vllm#49135)
        for place in (_TTFT, _PREFILL, _DECODE):
            numbers[place] = _NAN
        return _CANCELLED
    return _OK


def _complete(span: Span, numbers: list[float]) -> None:
    """What a client's span says by its own length."""
    if numbers[_E2E] != numbers[_E2E]:  # noqa: PLR0124 - NaN: not said
        numbers[_E2E] = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9
    if numbers[_DECODE] != numbers[_DECODE] and numbers[_E2E] >= numbers[_TTFT]:  # noqa: PLR0124
        numbers[_DECODE] = numbers[_E2E] - numbers[_TTFT]


def _take_texts(texts: Sequence[KeyValue], rows: _Rows) -> None:
    for attribute in texts:
        if attribute.key == GAPS:
            gaps = _gaps(attribute.value)
            if len(gaps):
                rows.gaps[len(rows.trace_ids)] = gaps


def _gaps(value: AnyValue) -> Floats:
    gaps = np.array([each.double_value for each in value.array_value.values])
    return gaps[(gaps >= 0) & (gaps <= LONGEST_S)]


def _finish(texts: Sequence[KeyValue]) -> str:
    return next((text_in(a.value)[:_LONGEST_REASON] for a in texts if a.key in FINISH), "")


def _table(rows: _Rows) -> LegTable:
    return _legs(
        np.array(rows.numbers, np.float64).reshape(-1, _WIDTH).T,
        trace_ids=b"".join(rows.trace_ids),
        span_ids=b"".join(rows.span_ids),
        series_id=np.array(rows.series_id, np.int64),
        kind=np.array(rows.kind, np.uint8),
        outcome=np.array(rows.outcome, np.uint8),
        start_at_ns=np.array(rows.start_at_ns, np.int64),
        end_at_ns=np.array(rows.end_at_ns, np.int64),
        finish=rows.finish,
    )


def _legs(numbers: Floats, **columns: Any) -> LegTable:
    tokens = np.where(np.isnan(numbers[len(SECONDS) :]), -1.0, numbers[len(SECONDS) :])
    return LegTable(
        seconds=dict(zip(SECONDS, numbers, strict=False)),
        tokens=dict(zip(TOKENS, tokens.astype(np.int64), strict=True)),
        **columns,
    )
