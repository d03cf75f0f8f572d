"""How much disk requests and series take, as the sizing guide says it; no bar, figures to plan with.

An hour of a real engine's request spans on ten replicas, and what of it each tier keeps. Then the
chart of a page over it, from disk.
"""

import random
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from benchmarks.ingest import bodies
from collector.query import Selection, Window
from collector.reader import StoreReader
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer

__all__ = ["main"]

_REPLICAS = 10
_PER_SECOND = 8
_SPAN_S = 3600
_NOW_S = 1_795_966_800  # on the hour


def _an_hour() -> Iterator[ExportTraceServiceRequest]:
    """The recorded requests, spread over the hour and the replicas."""
    rng = random.Random(1)  # noqa: S311 - ids for a benchmark
    step_ns = 1_000_000_000 // _PER_SECOND
    sent, wanted = 0, _SPAN_S * _PER_SECOND
    while sent < wanted:
        for body in bodies(rng, first_at_s=_NOW_S):
            request = ExportTraceServiceRequest.FromString(body)
            replica = f"r{(sent // 512) % _REPLICAS}"
            for each in request.resource_spans[0].resource.attributes:
                if each.key == "service.instance.id":
                    each.value.string_value = replica
            spans = request.resource_spans[0].scope_spans[0].spans
            for span in spans:
                took_ns = span.end_time_unix_nano - span.start_time_unix_nano
                at_ns = (_NOW_S - _SPAN_S) * 1_000_000_000 + sent * step_ns
                span.start_time_unix_nano, span.end_time_unix_nano = at_ns - took_ns, at_ns
                sent += 1
            yield request
            if sent >= wanted:
                return


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        opened = open_store(path)
        n = 0
        with Writer(opened, CollectorSettings(), now=lambda: float(_NOW_S)) as writer:
            for request in _an_hour():
                writer.traces(request)
                n += len(request.resource_spans[0].scope_spans[0].spans)
            writer.settle()
        opened.close()
        sizes = _sizes(path)
        print(f"{n} requests on {_REPLICAS} replicas in an hour")
        for name, size in sorted(sizes.items(), key=lambda each: -each[1])[:8]:
            print(f"  {name:28} {size:12,} bytes  {size / n:8.1f} per request")
        print(f"  all                          {sum(sizes.values()):12,} bytes")
        print(f"a page's chart over it       {_chart_s(path) * 1000:8.1f} ms")
    return 0


def _sizes(path: Path) -> dict[str, int]:
    """Bytes by table; of tiles by tier."""
    (file,) = path.glob("*.db")
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name").fetchall()
    connection.close()
    return {name: int(size) for name, size in found}


def _chart_s(path: Path) -> float:
    reader = StoreReader(path)
    asked = Selection(
        window=Window(since_s=_NOW_S - _SPAN_S, until_s=_NOW_S), step_s=60, by=("replica",)
    )
    try:
        begun = time.perf_counter()
        reader.latency("ttft", asked)
        return time.perf_counter() - begun
    finally:
        reader.close()


if __name__ == "__main__":
    raise SystemExit(main())
