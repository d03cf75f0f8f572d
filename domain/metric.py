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
    MAXIMUM = "maximum"  # the largest of all replicas, mean over time
    MINIMUM = "minimum"  # the smallest of all replicas, mean over time


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """`name` is what people type; `full_name` is what travels."""

    number: int  # the key in the store: never reuse, never renumber
    name: str
    full_name: str
    kind: Kind
    unit: str
    help: str

    @property
    def of_gpu(self) -> bool:
        """It belongs to a GPU and to no service."""
        return _GPU_NUMBERS[0] <= self.number <= _GPU_NUMBERS[1]

    @property
    def of_requests(self) -> bool:
        """It has to do with requests, unlike a GPU and the exports of a sidecar."""
        return not self.of_gpu and self.name not in _OF_EXPORTS


_GPU_NUMBERS = (300, 449)
_OF_EXPORTS = (
    "exports_dropped",
    "spooled_bytes",
    "spooled_age",
    "cloudwatch_spending",
    "cloudwatch_allowance",
)
_UNIT_WORDS = {
    "1": "",
    "By": "_bytes",
    "Cel": "_celsius",
    "Hz": "_hertz",
    "J": "_joules",
    "W": "_watts",
    "s": "_seconds",
}


def _latency(number: int, name: str, text: str) -> Metric:
    return Metric(
        number=number,
        name=name,
        full_name=f"stagewatch_{name}_seconds",
        kind=Kind.LATENCY,
        unit="s",
        help=text,
    )


def _counter(number: int, name: str, text: str, unit: str = "1") -> Metric:
    return Metric(
        number=number,
        name=name,
        full_name=f"stagewatch_{name}{_UNIT_WORDS[unit]}_total",
        kind=Kind.COUNTER,
        unit=unit,
        help=text,
    )


def _gauge(number: int, name: str, kind: Kind, text: str, unit: str = "1") -> Metric:
    suffix = "_ratio" if kind is Kind.RATIO else _UNIT_WORDS[unit]
    return Metric(
        number=number,
        name=name,
        full_name=f"stagewatch_{name}{suffix}",
        kind=kind,
        unit=unit,
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
    _gauge(212, "probe_allowance", Kind.LEVEL, "Probe: may be spent a month, in US dollars."),
    _gauge(213, "probe_month_tokens", Kind.LEVEL, "Probe: tokens in and out this month."),
    _gauge(214, "probe_token_allowance", Kind.LEVEL, "Probe: tokens that a month may take."),
    _gauge(215, "cloudwatch_spending", Kind.LEVEL, "Spent on GetMetricData today, in US dollars."),
    _gauge(216, "cloudwatch_allowance", Kind.LEVEL, "May be spent on it a day, in US dollars."),
    _gauge(220, "request_slots", Kind.LEVEL, "Requests that a replica works on at once, as set."),
    _gauge(221, "batch_profile", Kind.MAXIMUM, "Tuned for: 0 a chat, 1 bulk, as set."),
    _gauge(222, "requests_swapped", Kind.LEVEL, "Requests whose cache was moved to the host."),
    _gauge(
        223,
        "concurrency_knee",
        Kind.MAXIMUM,
        "Requests at once beyond which a ladder saw first tokens wait.",
    ),
    _gauge(
        224,
        "late_byte_rate",
        Kind.MINIMUM,
        "Bytes a second of an answer after its first 10 MB, as a client or gateway measured.",
        "By",
    ),
    _gauge(
        225,
        "first_chunk_share",
        Kind.RATIO,
        "Share of an answer's time after which its first chunk left a hop (the node).",
    ),
    _gauge(226, "chunks_per_answer", Kind.MINIMUM, "Chunks of a streamed answer at the client."),
    _counter(230, "process_cpu", "CPU time of the API server's process.", "s"),
    _counter(231, "host_memory_kills", "Processes that a node killed for want of memory."),
    _gauge(300, "gpu_driver_up", Kind.MINIMUM, "1 while the NVIDIA driver of a node answers."),
    _gauge(
        301, "gpu_info", Kind.LEVEL, "1 for each GPU or MIG instance; its labels say what it is."
    ),
    _gauge(302, "gpu_serves", Kind.LEVEL, "1 for each replica of an engine and a GPU it runs on."),
    _gauge(303, "gpu_pod_info", Kind.LEVEL, "1 for each pod and a GPU it was given."),
    _gauge(304, "gpu_up", Kind.MINIMUM, "1 while a GPU answers in time, 0 while it does not."),
    _gauge(305, "gpu_down", Kind.LEVEL, "1 for a GPU that does not answer, by reason."),
    _gauge(306, "gpu_pod_mapping_up", Kind.MINIMUM, "1 while the kubelet says which pod has what."),
    _gauge(
        307, "gpu_driver_down", Kind.LEVEL, "1 while a node's driver does not answer, by reason."
    ),
    _gauge(308, "gpu_index", Kind.MINIMUM, "Place of a GPU in the driver's order."),
    _gauge(
        310,
        "gpu_busy",
        Kind.RATIO,
        "Share of time with at least one kernel running. It does not say how much is computed:"
        " one thread of one kernel makes it 1.",
    ),
    _gauge(
        311,
        "gpu_memory_busy",
        Kind.RATIO,
        "Share of time in which memory was read or written. It is no bandwidth.",
    ),
    _gauge(
        312, "gpu_sm_active", Kind.RATIO, "Share of the multiprocessors' time with work on them."
    ),
    _gauge(313, "gpu_sm_occupancy", Kind.RATIO, "Share of the warps that fit which are resident."),
    _gauge(314, "gpu_tensor_active", Kind.RATIO, "Share of time in which tensor cores compute."),
    _gauge(315, "gpu_dram_bandwidth", Kind.RATIO, "Share of the memory bandwidth that is used."),
    _gauge(320, "gpu_memory_total", Kind.LEVEL, "Memory of a GPU or MIG instance.", "By"),
    _gauge(321, "gpu_memory_reserved", Kind.LEVEL, "Memory that driver and firmware keep.", "By"),
    _gauge(322, "gpu_memory_used", Kind.LEVEL, "Memory in use, without what is reserved.", "By"),
    _gauge(323, "gpu_memory_free", Kind.LEVEL, "Memory that is free.", "By"),
    _gauge(324, "gpu_process_memory", Kind.LEVEL, "Memory held by the processes together.", "By"),
    _gauge(325, "gpu_processes", Kind.LEVEL, "Processes that compute on a GPU."),
    _gauge(330, "gpu_sm_clock", Kind.MINIMUM, "Clock of the multiprocessors.", "Hz"),
    _gauge(331, "gpu_memory_clock", Kind.MINIMUM, "Clock of the memory.", "Hz"),
    _gauge(332, "gpu_sm_clock_max", Kind.MINIMUM, "Highest clock of the multiprocessors.", "Hz"),
    _gauge(333, "gpu_memory_clock_max", Kind.MINIMUM, "Highest clock of the memory.", "Hz"),
    _gauge(334, "gpu_throttled", Kind.LEVEL, "1 while a cause (the reason) holds the clocks down."),
    _gauge(340, "gpu_power", Kind.LEVEL, "Power drawn by the board.", "W"),
    _gauge(341, "gpu_power_limit", Kind.LEVEL, "Power limit that is enforced.", "W"),
    _gauge(342, "gpu_power_limit_default", Kind.LEVEL, "Power limit as delivered.", "W"),
    _gauge(343, "gpu_power_limit_max", Kind.LEVEL, "Highest power limit that can be set.", "W"),
    _gauge(350, "gpu_temperature", Kind.MAXIMUM, "Temperature of the GPU.", "Cel"),
    _gauge(351, "gpu_memory_temperature", Kind.MAXIMUM, "Temperature of the memory.", "Cel"),
    _gauge(352, "gpu_thermal_margin", Kind.MINIMUM, "Degrees left until it slows down.", "Cel"),
    _gauge(353, "gpu_temperature_limit", Kind.MINIMUM, "Temperature limits, by reason.", "Cel"),
    _gauge(354, "gpu_margin_limit", Kind.MINIMUM, "Margins at which limits act, by reason.", "Cel"),
    _gauge(360, "gpu_pcie_generation", Kind.MINIMUM, "Generation at which the PCIe link runs."),
    _gauge(361, "gpu_pcie_generation_max", Kind.MINIMUM, "Generation that the PCIe link can."),
    _gauge(362, "gpu_pcie_width", Kind.MINIMUM, "Lanes at which the PCIe link runs."),
    _gauge(363, "gpu_pcie_width_max", Kind.MINIMUM, "Lanes that the PCIe link can."),
    _gauge(364, "gpu_nvlinks", Kind.LEVEL, "NVLinks of a GPU."),
    _gauge(365, "gpu_nvlinks_active", Kind.LEVEL, "NVLinks of a GPU that are up."),
    _gauge(
        366, "gpu_fabric_state", Kind.MINIMUM, "NVSwitch fabric: 3 when the GPU is joined to it."
    ),
    _gauge(370, "gpu_ecc_uncorrected", Kind.LEVEL, "Uncorrected memory errors since driver load."),
    _gauge(371, "gpu_row_remap_pending", Kind.MAXIMUM, "1 when a reset is needed to remap rows."),
    _gauge(
        372, "gpu_row_remap_failure", Kind.MAXIMUM, "1 when rows could not be remapped: replace."
    ),
    _gauge(373, "gpu_rows_remapped", Kind.LEVEL, "Memory rows that were remapped, by reason."),
    _gauge(
        374,
        "gpu_recovery_action",
        Kind.MAXIMUM,
        "What the driver asks for: 0 nothing, 1 reset, 2 reboot, 3 drain peers, 4 drain and reset.",
    ),
    _gauge(
        375, "gpu_xid_last", Kind.MAXIMUM, "When an XID (the reason) last came; Unix time.", "s"
    ),
    _gauge(376, "gpu_persistence_mode", Kind.MINIMUM, "1 when the driver stays loaded when idle."),
    _gauge(377, "gpu_performance_state", Kind.MAXIMUM, "P-state: 0 fastest, 15 slowest."),
    _gauge(378, "gpu_reading_suspect", Kind.LEVEL, "1 for readings that cannot be, by reason."),
    _gauge(379, "gpu_ecc_mode", Kind.MINIMUM, "1 while memory errors are corrected (ECC)."),
    _counter(400, "gpu_throttle", "Time for which a cause (the reason) held the clocks down.", "s"),
    _counter(401, "gpu_energy", "Energy used by the board.", "J"),
    _counter(402, "gpu_pcie_received", "Bytes received over PCIe.", "By"),
    _counter(403, "gpu_pcie_sent", "Bytes sent over PCIe.", "By"),
    _counter(404, "gpu_nvlink_received", "Bytes received over all NVLinks.", "By"),
    _counter(405, "gpu_nvlink_sent", "Bytes sent over all NVLinks.", "By"),
    _counter(406, "gpu_pcie_replays", "PCIe packets that were sent again."),
    _counter(407, "gpu_nvlink_errors", "NVLink errors, by reason."),
    _counter(408, "gpu_ecc_errors", "Memory errors, corrected and uncorrected."),
    _counter(
        409, "gpu_xid_errors", "XID errors that the driver reported; the reason is the number."
    ),
    _counter(410, "gpu_readings_rejected", "Readings that cannot be, by what was read."),
    _counter(411, "gpu_worker_restarts", "Reading processes that were replaced, by reason."),
    _counter(412, "gpu_events", "Other events that the driver reported, by reason."),
)

METRICS = {metric.name: metric for metric in _ALL}
LATENCIES = tuple(metric.name for metric in _ALL if metric.kind is Kind.LATENCY)
COUNTERS = tuple(metric.name for metric in _ALL if metric.kind is Kind.COUNTER)
GAUGES = tuple(m.name for m in _ALL if m.kind not in (Kind.LATENCY, Kind.COUNTER))
