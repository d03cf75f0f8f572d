"""Recordings as exports: which file is whose, and where it goes."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import httpx
from google.protobuf.message import Message
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from collector.importing import import_files
from collector.intake import Intake, Outcome, Overloaded
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from domain.errors import InputError, StagewatchError
from exporters.engine.pages import export_requests, read_pages

__all__ = ["Report", "Sender", "Wishes", "into_collector", "into_store"]

_PAGES = (".prom", ".om")
_OTLP = (".bin", ".pb", ".json")
_TARGET = re.compile(r"^\d+-(?:before|during|after(?:-idle)?)-(?P<name>(?!idle$)[\w.]+)$")
_TIMEOUT_S = 60.0
_TRY_AGAIN = (429, 502, 503, 504)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What the person says of the files: the data often do not."""

    service: str | None = None
    replica: str | None = None
    roles: Mapping[str, str] = field(default_factory=dict)
    renames: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of a file, or of pages that belong together."""

    path: Path
    whole: bool
    words: str


def into_store(files: Sequence[Path], data_dir: Path, wishes: Wishes) -> Iterator[Report]:
    """Offline: into a store that no collector is writing."""
    store = open_store(data_dir)
    try:
        with Writer(store, CollectorSettings()) as writer:
            yield from _import(files, writer, wishes)
            writer.settle()
    finally:
        store.close()


def into_collector(
    files: Sequence[Path], url: str, token: str | None, wishes: Wishes
) -> Iterator[Report]:
    """Over OTLP/HTTP, as any sender would."""
    with Sender.to(url, token) as sender:
        yield from _import(files, sender, wishes)


def _import(files: Sequence[Path], intake: Intake, wishes: Wishes) -> Iterator[Report]:
    named = _Named(intake, wishes)
    for group in _groups(files):
        try:
            yield from _one(group, named, named.with_service())
        except (StagewatchError, OSError) as error:
            yield Report(path=group[0], whole=False, words=f"not imported: {error}")


def _one(group: Sequence[Path], named: "_Named", wishes: Wishes) -> Iterator[Report]:
    page_labels = _page_labels(group[0], wishes) if group[0].suffix in _PAGES else {}

    def pages(paths: Sequence[Path]) -> Iterable[ExportMetricsServiceRequest]:
        return export_requests(_in_order(paths), page_labels)

    labels = {"service": wishes.service} if wishes.service else {}
    for imported in import_files(group, named, pages=pages, labels=labels):
        noun = "points" if page_labels else "spans or points"
        told = f" as service {page_labels['service']!r}" if page_labels else ""
        words = f"{imported.taken} {noun} taken{told}"
        if imported.rejected:
            words += f", {imported.rejected} refused"
        if imported.message:
            words += f" ({imported.message})"
        name = group[0] if len(group) == 1 else Path(f"{group[0]} … {group[-1].name}")
        yield Report(path=name, whole=not imported.rejected, words=words)


def _groups(files: Sequence[Path]) -> Iterator[list[Path]]:
    """Pages of one engine together, every other file alone; OTLP first, which names its service."""

    def whose(path: Path) -> object:
        return (path.resolve().parent, _target(path)) if path.suffix in _PAGES else path

    pages = sorted((p for p in files if p.suffix in _PAGES), key=lambda p: (str(whose(p)), p.name))
    others = [path for path in files if path.suffix not in _PAGES]
    yield from ([path] for path in sorted(others, key=lambda path: path.suffix not in _OTLP))
    for _, group in groupby(pages, key=whose):
        yield list(group)


def _in_order(paths: Sequence[Path]) -> Iterator[tuple[str, int]]:
    """By the time of the page; of pages of the same instant (two formats of one) the first."""
    last_ns = -1
    for text, at_ns in sorted(read_pages(paths), key=lambda page: page[1]):
        if at_ns > last_ns:
            yield text, at_ns
        last_ns = at_ns


def _target(path: Path) -> str:
    found = _TARGET.match(path.stem)
    return found["name"] if found else ""


def _page_labels(path: Path, wishes: Wishes) -> dict[str, str]:
    target = _target(path)
    folder = path.resolve().parent.name
    service = wishes.service or folder
    role = wishes.roles.get(target) or next(
        (role for role in ("prefill", "decode") if target.startswith(role)), ""
    )
    labels = {
        "service": wishes.renames.get(service, service),
        "replica": wishes.replica or target or folder,
        "role": role,
    }
    return {name: value for name, value in labels.items() if value}


@dataclass(frozen=True, slots=True)
class _Named:
    """An intake that adds to each resource what the person said of it."""

    intake: Intake
    wishes: Wishes
    seen: set[str] = field(default_factory=set)

    def with_service(self) -> Wishes:
        """What the person said; what else comes along belongs to the one service of the spans."""
        if self.wishes.service is not None or len(self.seen) != 1:
            return self.wishes
        return replace(self.wishes, service=next(iter(self.seen)))

    def traces(self, request: ExportTraceServiceRequest) -> Outcome:
        for spans in request.resource_spans:
            self._name(spans.resource)
        return self.intake.traces(request)

    def metrics(self, request: ExportMetricsServiceRequest) -> Outcome:
        for metrics in request.resource_metrics:
            self._name(metrics.resource)
        return self.intake.metrics(request)

    def _name(self, resource: Resource) -> None:
        service = next(
            (a.value.string_value for a in resource.attributes if a.key == "service.name"), ""
        )
        self.seen.update({self.wishes.renames.get(service, service)} - {""})
        told = {"role": self.wishes.roles, "service": self.wishes.renames}
        for label, by_service in told.items():
            if service in by_service:
                attribute = resource.attributes.add(key=f"stagewatch.{label}")
                attribute.value.string_value = by_service[service]


@dataclass(frozen=True, slots=True)
class Sender:
    """A collector over HTTP."""

    client: httpx.Client
    url: str

    @classmethod
    @contextmanager
    def to(cls, url: str, token: str | None) -> Iterator["Sender"]:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(base_url=url, headers=headers, timeout=_TIMEOUT_S) as client:
            yield cls(client, url)

    def traces(self, request: ExportTraceServiceRequest) -> Outcome:
        told = ExportTraceServiceResponse.FromString(self._post("/v1/traces", request))
        return Outcome(told.partial_success.rejected_spans, told.partial_success.error_message)

    def metrics(self, request: ExportMetricsServiceRequest) -> Outcome:
        told = ExportMetricsServiceResponse.FromString(self._post("/v1/metrics", request))
        success = told.partial_success
        return Outcome(success.rejected_data_points, success.error_message)

    def _post(self, path: str, request: Message) -> bytes:
        try:
            answer = self.client.post(
                path,
                content=request.SerializeToString(),
                headers={"content-type": "application/x-protobuf"},
            )
        except httpx.HTTPError as error:
            raise InputError(
                f"the collector cannot be reached ({error})",
                where=self.url,
                remedy="Start `stagewatch up`, or give --data-dir to import without one.",
            ) from error
        if answer.status_code in _TRY_AGAIN:
            raise Overloaded(float(answer.headers.get("retry-after", "1")))
        if answer.status_code != httpx.codes.OK:
            raise InputError(
                f"the collector answered {answer.status_code}",
                where=self.url,
                remedy="See its log for the reason; 401 asks for --token.",
            )
        return answer.content
