"""The numbers we keep: one table of names, units and how they add up.

The same names travel as OTLP metrics, stand on `/metrics` and are asked for in the API.
"""

from dataclasses import dataclass
from enum import StrEnum

__all__ = ["BOUND_ATTRIBUTE", "COUNTERS", "GAUGES", "LATENCIES", "METRICS", "Kind", "Metric"]

BOUND_ATTRIBUTE = "stagewatch.bound"
"""On an OTLP point: `low` or `high`, one side of a pair; absent on an exact distribution."""


class Kind(StrEnum):
    """How values of a metric add up over replicas and over time."""

    LATENCY = "latency"  # a distribution: adds
    COUNTER = "counter"  # increments: sum over both
    LEVEL = "level"  # sum over replicas, last or mean over time
    RATIO = "ratio"  # mean over both, never a sum


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """`name` is what people type; `full_name` is what travels."""

    number: int  # the key in the store: never reuse, never renumber
    name: str
    full_name: str
    kind: Kind
    unit: str
    help: str


def _latency(number: int, name: str, text: str) -> Metric:
    return Metric(
        number=number,
        name=name,
        full_name=f"stagewatch_{name}_seconds",
        kind=Kind.LATENCY,
        unit="s",
        help=text,
    )


def _counter(number: int, name: str, text: str) -> Metric:
    return Metric(
        number=number,
        name=name,
        full_name=f"stagewatch_{name}_total",
        kind=Kind.COUNTER,
        unit="1",
        help=text,
    )


def _gauge(number: int, name: str, kind: Kind, text: str) -> Metric:
    suffix = "_ratio" if kind is Kind.RATIO else ""
    return Metric(
        number=number,
        name=name,
        full_name=f"stagewatch_{name}{suffix}",
        kind=kind,
        unit="1",
        help=text,
    )


_ALL = (
    _latency(1, "ttft", "Arrival (server) or sending (client) to the first output token."),
    _latency(2, "tpot", "Per request: decode time over output tokens minus one."),
    _latency(3, "itl", "Gap between two consecutive output tokens."),
    _latency(4, "itl_max", "The longest gap between tokens inside one answer."),
    _latency(5, "e2e", "Arrival or sending to the last token."),
    _latency(6, "network", "Client TTFT minus server TTFT of the same request."),
    _latency(7, "overhead", "What the engine's own stages leave unexplained of its E2E."),
    _latency(8, "queue", "Waiting for the scheduler."),
    _latency(9, "prefill", "Scheduled to first token."),
    _latency(10, "kv_transfer", "Hand-over of the KV cache from prefill to decode."),
    _latency(11, "decode", "First token to last token."),
    _latency(12, "ttft_estimated", "TTFT put together from parts by an engine that has none."),
    _latency(13, "dns", "Probe: resolving the host's name."),
    _latency(14, "connect", "Probe: one TCP handshake, the least a round trip takes."),
    _latency(15, "tls", "Probe: the TLS handshake."),
    _latency(16, "first_byte", "Probe: request sent to the first byte of the answer."),
    _counter(101, "requests_started", "Requests that produced a first token."),
    _counter(102, "requests_finished", "Requests that ended, by finish reason."),
    _counter(103, "prompt_tokens", "Prompt tokens processed."),
    _counter(104, "generation_tokens", "Output tokens produced."),
    _counter(105, "preemptions", "Requests thrown out of the running batch."),
    _counter(106, "engine_steps", "Scheduler iterations: the engine's sign of life."),
    _counter(107, "prefix_cache_queries", "Prompt tokens looked up in the prefix cache."),
    _counter(108, "prefix_cache_hits", "Prompt tokens found in the prefix cache."),
    _counter(109, "refused_sums", "Interval sums that contradicted their counts."),
    _counter(110, "counter_resets", "Restarts seen in a source's counters."),
    _counter(111, "failed_scrapes", "Scrapes that gave nothing usable, by reason."),
    _counter(112, "schema_drift", "Families that vanished while their target was up."),
    _counter(113, "requests_failed", "Requests that ended in an error or were cut off."),
    _counter(114, "requests_cancelled", "Requests that the client gave up."),
    _counter(115, "requests_rejected", "Requests that were wrong in themselves (HTTP 4xx)."),
    _counter(116, "refused_families", "Families of a page that contradicted themselves."),
    _counter(117, "suspect_families", "Families whose numbers cannot be true, by metric."),
    _counter(118, "kv_transfers_failed", "Hand-overs of the KV cache that failed."),
    _counter(119, "exports_dropped", "Exports that were given up before they arrived, by reason."),
    _counter(120, "probes", "Probes sent, by how they ended."),
    _counter(121, "probe_tokens", "Tokens that probes sent and received."),
    _counter(122, "prefill_requests", "Requests that a prefill engine filled: nobody's answers."),
    _gauge(201, "up", Kind.LEVEL, "1 when the source answered, 0 when it did not."),
    _gauge(202, "requests_running", Kind.LEVEL, "Requests in the running batch."),
    _gauge(203, "requests_waiting", Kind.LEVEL, "Requests in the queue."),
    _gauge(204, "kv_cache_usage", Kind.RATIO, "Used share of the KV cache."),
    _gauge(205, "engine_stalled", Kind.LEVEL, "1 while requests are there and nothing moves."),
    _gauge(206, "kv_cache_capacity", Kind.LEVEL, "Size of the KV cache, in blocks or tokens."),
    _gauge(207, "not_reported", Kind.LEVEL, "1 for a metric that the source does not have."),
    _gauge(208, "spooled_bytes", Kind.LEVEL, "Exports on a sidecar's disk that wait to be sent."),
    _gauge(209, "spooled_age", Kind.LEVEL, "Age of the oldest export that waits (s)."),
    _gauge(210, "buffering", Kind.LEVEL, "Probe: 1 where answers arrive in lumps, 0 where not."),
    _gauge(211, "probe_spending", Kind.LEVEL, "Probe: spent this month, in US dollars."),
)

METRICS = {metric.name: metric for metric in _ALL}
LATENCIES = tuple(metric.name for metric in _ALL if metric.kind is Kind.LATENCY)
COUNTERS = tuple(metric.name for metric in _ALL if metric.kind is Kind.COUNTER)
GAUGES = tuple(m.name for m in _ALL if m.kind in (Kind.LEVEL, Kind.RATIO))
