"""A writer on a store of its own, and what then stands in the tables, whatever the order it came in."""

import json
import sqlite3
from contextlib import closing, contextmanager

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector import segment, words
from collector.schema import TIERS_S
from collector.settings import CollectorSettings
from collector.store import file_of, open_store
from collector.writer import Writer
from domain.distribution import Distribution
from domain.metric import METRICS
from tests.paths import RECORDED

__all__ = [
    "DELTA",
    "NOW_S",
    "OVERLOAD",
    "distribution",
    "gauge_of",
    "histogram_of",
    "legs_in",
    "metrics",
    "number",
    "overload",
    "rows",
    "span",
    "sum_of",
    "tables",
    "traces",
    "writing",
]

OVERLOAD = RECORDED / "vllm" / "overload"
NOW_S = 1_795_966_000.0  # two minutes after the recording
DELTA = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
SECOND_NS = 1_000_000_000


@contextmanager
def writing(path, *, now=lambda: NOW_S, **settings):
    store = open_store(path)
    try:
        with Writer(store, CollectorSettings(**settings), now=now) as writer:
            yield writer
    finally:
        store.close()


def rows(path, query, *parameters):
    with closing(sqlite3.connect(file_of(path))) as connection:
        return connection.execute(query, parameters).fetchall()


def tables(path):
    """Every tile and every dirty mark, by labels instead of numbers, cells instead of words."""
    labels = dict(rows(path, "SELECT id, labels FROM series"))
    found = {}
    for tier in TIERS_S:
        for metric, at_s, series, *counts, exact, low, high in rows(
            path,
            f"SELECT * FROM histogram_{tier}",  # noqa: S608
        ):
            sides = [words.compact(side) for side in (exact, low, high)]
            found[f"histogram_{tier}", metric, at_s, labels[series]] = (*counts, *sides)
        for metric, at_s, series, *values in rows(path, f"SELECT * FROM number_{tier}"):  # noqa: S608
            found[f"number_{tier}", metric, at_s, labels[series]] = tuple(values)
    return found, sorted(rows(path, "SELECT * FROM dirty"))


def distribution(path, metric, tier=10, **where):
    """All values of a metric in one tier."""
    low, high = [], []
    sums, exact_only = [], True
    for n, sum_ns, exact, low_side, high_side, text in rows(
        path,
        f"SELECT n, sum_ns, exact, low, high, labels FROM histogram_{tier}"  # noqa: S608
        " JOIN series ON series.id = series_id WHERE metric = ?",
        METRICS[metric].number,
    ):
        labels = dict(json.loads(text))
        if all(labels.get(name) == value for name, value in where.items()):
            low += [exact, low_side]
            high += [exact, high_side]
            sums.append(sum_ns)
            exact_only = exact_only and not low_side
            assert n == words.decode([exact, low_side]).sum()
    sum_s = None if None in sums else sum(sums) / 1e9
    return Distribution(words.decode(low), words.decode(high), exact=exact_only, sum_s=sum_s)


def number(path, metric, tier=10):
    """(readings, sum) of a counter or gauge in one tier."""
    found = rows(
        path,
        f"SELECT sum(n), sum(sum) FROM number_{tier} WHERE metric = ?",  # noqa: S608
        METRICS[metric].number,
    )
    return tuple(found[0])


def legs_in(path):
    """Every stored leg."""
    labels = {
        n: tuple(map(tuple, json.loads(text)))
        for n, text in rows(path, "SELECT id, labels FROM series")
    }
    tables = [segment.decode(blob) for (blob,) in rows(path, "SELECT columns FROM segment")]
    return [table.leg(row, labels) for table in tables for row in range(len(table))]


def overload():
    """The twelve exports as they came."""
    return [
        ExportTraceServiceRequest.FromString(path.read_bytes())
        for path in sorted((OVERLOAD / "spans").glob("*.bin"))
    ]


def span(number=1, *, end_s=NOW_S - 30, lasts_s=2.0, kind=Span.SPAN_KIND_SERVER, **attributes):
    """A span like vLLM's; `number` makes its ids. Attribute names have `__` for the dot."""
    end_at_ns = int(end_s * SECOND_NS)
    made = Span(
        trace_id=number.to_bytes(16, "big"),
        span_id=(number << 4 | kind).to_bytes(8, "big"),
        name="llm_request",
        kind=kind,
        start_time_unix_nano=end_at_ns - int(lasts_s * SECOND_NS),
        end_time_unix_nano=end_at_ns,
    )
    for name, value in attributes.items():
        into = made.attributes.add(key=name.replace("__", ".")).value
        if isinstance(value, str):
            into.string_value = value
        elif isinstance(value, int):
            into.int_value = value
        else:
            into.double_value = value
    return made


def traces(*spans, **resource):
    request = ExportTraceServiceRequest()
    into = request.resource_spans.add()
    for name, value in {"service.name": "chat", **resource}.items():
        into.resource.attributes.add(key=name).value.string_value = value
    into.scope_spans.add().spans.extend(spans)
    return request


def metrics(*found, **resource):
    request = ExportMetricsServiceRequest()
    into = request.resource_metrics.add()
    for name, value in {"service.name": "chat", **resource}.items():
        into.resource.attributes.add(key=name).value.string_value = value
    into.scope_metrics.add().metrics.extend(found)
    return request


def _labelled(point, labels):
    for name, value in labels.items():
        point.attributes.add(key=name).value.string_value = value


def histogram_of(into, values_s, *, start_s, end_s, scale=6, bound="", with_sum=True, **labels):
    """An exponential point of these values in an OTLP metric."""
    into.exponential_histogram.aggregation_temporality = DELTA
    point = into.exponential_histogram.data_points.add(
        scale=scale,
        count=len(values_s),
        start_time_unix_nano=int(start_s * SECOND_NS),
        time_unix_nano=int(end_s * SECOND_NS),
    )
    values = np.array(values_s)
    positive = values[values > 0]
    point.zero_count = int((values == 0).sum())
    if len(positive):
        index = np.ceil(np.log2(positive) * 2.0**scale).astype(int) - 1
        point.positive.offset = int(index.min())
        point.positive.bucket_counts.extend(np.bincount(index - index.min()).tolist())
    if with_sum:
        point.sum = float(values.sum())
    if bound:
        labels = {**labels, "stagewatch.bound": bound}
    _labelled(point, labels)
    return into


def sum_of(into, value, *, start_s, end_s, temporality=DELTA, **labels):
    into.sum.aggregation_temporality = temporality
    into.sum.is_monotonic = True
    point = into.sum.data_points.add(
        as_double=value,
        start_time_unix_nano=int(start_s * SECOND_NS),
        time_unix_nano=int(end_s * SECOND_NS),
    )
    _labelled(point, labels)
    return into


def gauge_of(into, value, *, at_s, **labels):
    point = into.gauge.data_points.add(as_double=value, time_unix_nano=int(at_s * SECOND_NS))
    _labelled(point, labels)
    return into
