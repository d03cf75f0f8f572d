"""Files into the collector: OTLP dumps, request tables and engine pages, each as exports of OTLP.

Whatever the file, what goes in is what a sender would have sent: so the same file twice, or in
other pieces, changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span

from collector import otlp_json
from collector.intake import Intake, Outcome, Overloaded
from collector.legs import SPAN_ID, TRACE_ID
from collector.request_tables import SUFFIXES, rows_of, spans_of
from domain.errors import InputError

__all__ = ["Imported", "Pages", "exports_of", "import_files"]

Export = ExportTraceServiceRequest | ExportMetricsServiceRequest
Pages = Callable[[Sequence[Path]], Iterable[ExportMetricsServiceRequest]]
"""Reads Prometheus pages in their order; the exporters' work, handed in from above."""

_SPANS: Final = 512  # in one export
_PAGES: Final = (".prom", ".om")
_REMEDY: Final = (
    "Known are OTLP (.bin, .pb, .json), request tables (.jsonl, .csv, .parquet), .prom."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of a file. `taken` counts spans or points, known ones too."""

    path: Path
    taken: int
    rejected: int
    message: str


def import_files(
    paths: Iterable[Path],
    intake: Intake,
    *,
    pages: Pages | None = None,
    labels: Mapping[str, str] | None = None,
) -> Iterator[Imported]:
    """Send each file, in order. `labels` say whose a request table is, such as its service.

    Neighbouring pages belong together: their counters are differenced in order.
    """
    waiting = list(paths)
    while waiting:
        group = [waiting.pop(0)]
        while group[0].suffix in _PAGES and waiting and waiting[0].suffix in _PAGES:
            group.append(waiting.pop(0))
        yield _send(group, intake, exports_of(group, pages=pages, labels=labels or {}))


def exports_of(
    paths: Sequence[Path], *, pages: Pages | None, labels: Mapping[str, str]
) -> Iterator[Export]:
    """The exports in a file, or in pages that follow each other."""
    path = paths[0]
    if not all(each.is_file() for each in paths):
        missing = next(each for each in paths if not each.is_file())
        raise InputError("there is no such file", where=str(missing), remedy="Check its name.")
    if path.suffix in (".bin", ".pb"):
        yield from _small(_protobuf(path))
    elif path.suffix == ".json":
        yield from _small(_json(path.read_bytes(), str(path)))
    elif path.suffix in SUFFIXES and not _is_otlp_lines(path):
        yield from _table(path, labels)
    elif path.suffix == ".jsonl":
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            yield from _small(_json(line, f"{path}, line {number}"))
    elif path.suffix in _PAGES and pages is not None:
        yield from pages(paths)
    else:
        raise InputError("nothing here reads such a file", where=str(path), remedy=_REMEDY)


def _send(paths: Sequence[Path], intake: Intake, exports: Iterator[Export]) -> Imported:
    taken = rejected = 0
    messages: list[str] = []
    for export in exports:
        outcome = _offer(intake, export)
        rejected += outcome.rejected
        taken += _size(export) - outcome.rejected
        if outcome.message and outcome.message not in messages:
            messages.append(outcome.message)
    return Imported(path=paths[-1], taken=taken, rejected=rejected, message="; ".join(messages[:5]))


def _offer(intake: Intake, export: Export) -> Outcome:
    while True:
        try:
            if isinstance(export, ExportTraceServiceRequest):
                return intake.traces(export)
            return intake.metrics(export)
        except Overloaded as overloaded:
            time.sleep(overloaded.retry_after_s)


def _size(export: Export) -> int:
    if isinstance(export, ExportTraceServiceRequest):
        return sum(len(s.spans) for r in export.resource_spans for s in r.scope_spans)
    return sum(
        len(getattr(metric, metric.WhichOneof("data") or "gauge").data_points)
        for resource in export.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    )


def _protobuf(path: Path) -> Export:
    """Both signals have the same outer shape: what decides is whether the ids are ids."""
    body = path.read_bytes()
    try:
        traces = ExportTraceServiceRequest.FromString(body)
    except DecodeError:
        traces = None
    if traces is not None and _are_spans(traces):
        return traces
    try:
        metrics = ExportMetricsServiceRequest.FromString(body)
    except DecodeError:
        metrics = None
    if metrics is not None and _are_metrics(metrics):
        return metrics
    raise InputError(
        "it is neither an ExportTraceServiceRequest nor an ExportMetricsServiceRequest",
        where=str(path),
        remedy="Check that the file is whole and was written as protobuf.",
    )


def _are_spans(traces: ExportTraceServiceRequest) -> bool:
    spans = [span for r in traces.resource_spans for s in r.scope_spans for span in s.spans]
    return bool(spans) and all(
        len(span.trace_id) == TRACE_ID and len(span.span_id) == SPAN_ID for span in spans
    )


def _are_metrics(metrics: ExportMetricsServiceRequest) -> bool:
    found = [m for r in metrics.resource_metrics for s in r.scope_metrics for m in s.metrics]
    return bool(found) and all(metric.name for metric in found)


def _json(body: bytes, where: str) -> Export:
    if b'"resourceMetrics"' in body or b'"resource_metrics"' in body:
        return otlp_json.parse(body, ExportMetricsServiceRequest, where=where)
    return otlp_json.parse(body, ExportTraceServiceRequest, where=where)


def _is_otlp_lines(path: Path) -> bool:
    if path.suffix != ".jsonl":
        return False
    with path.open("rb") as file:
        first = file.readline()
    return b'"resourceSpans"' in first or b'"resourceMetrics"' in first


def _table(path: Path, labels: Mapping[str, str]) -> Iterator[ExportTraceServiceRequest]:
    spans: list[Span] = []
    for span in spans_of(rows_of(path), where=str(path)):
        spans.append(span)
        if len(spans) == _SPANS:
            yield _of_client(spans, labels)
            spans = []
    if spans:
        yield _of_client(spans, labels)


def _of_client(spans: Iterable[Span], labels: Mapping[str, str]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    into = request.resource_spans.add()
    for name, value in {"service": "client", **labels}.items():
        into.resource.attributes.add(key=f"stagewatch.{name}").value.string_value = value
    into.scope_spans.add().spans.extend(spans)
    return request


def _small(export: Export) -> Iterator[Export]:
    """The same in exports of a size that senders use."""
    if isinstance(export, ExportMetricsServiceRequest):
        for resource in export.resource_metrics:
            yield ExportMetricsServiceRequest(resource_metrics=[resource])
        return
    for resource_spans in export.resource_spans:
        for scope_spans in resource_spans.scope_spans:
            for at in range(0, len(scope_spans.spans), _SPANS):
                part = ResourceSpans(resource=resource_spans.resource)
                into = part.scope_spans.add()
                into.scope.CopyFrom(scope_spans.scope)
                into.spans.extend(scope_spans.spans[at : at + _SPANS])
                yield ExportTraceServiceRequest(resource_spans=[part])
