"""Page files of one target in order, as the exports that a sidecar would have sent."""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import chain, islice
from pathlib import Path

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from domain.errors import InputError
from domain.labels import labels_of
from exporters.engine.engines import WANTED
from exporters.engine.failure import ScrapeError
from exporters.engine.otlp import export_request
from exporters.engine.reading import Reading
from exporters.engine.target import TargetState
from exporters.engine.text import PageParser

__all__ = ["export_requests", "read_pages", "readings"]

_SCRAPED_AT = re.compile(r"^# scraped_at_unix (\d{1,12}(?:\.\d{1,12})?)[ \t]*$", re.MULTILINE)
_FIRST_CHARS = 4096
_SECOND_NS = 1_000_000_000


def read_pages(paths: Iterable[Path]) -> Iterator[tuple[str, int]]:
    """Each file's text and when it was scraped: by our comment line, else by the file's own time."""
    for path in paths:
        try:
            text = path.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise InputError(
                "is not text", where=str(path), remedy="Import pages as the engine served them."
            ) from error
        told = _SCRAPED_AT.search(text[:_FIRST_CHARS])
        at_ns = int(Decimal(told[1]) * _SECOND_NS) if told else path.stat().st_mtime_ns
        yield text, at_ns


def readings(pages: Iterable[tuple[str, int]], labels: Mapping[str, str]) -> Iterator[Reading]:
    """What each page of one target says.

    The first of several is where counting begins; an only one tells all since the engine started.
    """
    several = iter(pages)
    first = list(islice(several, 2))
    state = TargetState(labels_of(labels), from_zero=len(first) == 1)
    parser = PageParser(WANTED.__contains__)
    before_ns = 0
    for number, (text, at_ns) in enumerate(chain(first, several), start=1):
        if at_ns <= before_ns:
            raise InputError(
                "it is not newer than the page before it",
                where=f"page {number}",
                remedy="Give the pages of one target in order, each with its own time: a first "
                "line `# scraped_at_unix <seconds>`.",
            )
        before_ns = at_ns
        try:
            page = parser.parse(text, where=f"page {number}")
        except ScrapeError as failure:
            yield state.failed(failure, at_ns)
        else:
            yield state.observe(page, at_ns)


def export_requests(
    pages: Iterable[tuple[str, int]], labels: Mapping[str, str]
) -> Iterator[ExportMetricsServiceRequest]:
    """One export per page. `labels` are the target's: `service` at least, `replica`, `role`."""
    for reading in readings(pages, labels):
        yield export_request(reading)
