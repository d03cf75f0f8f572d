"""The families of a vLLM page in the order in which it shows them, word for word.

Names, help, types, labels and bucket edges are those of vLLM 0.32 and 0.33, seen on recorded pages.
"""

from dataclasses import dataclass

__all__ = ["FAMILIES", "HTTP_DURATION_HIGHR_S", "HTTP_DURATION_S", "TOKENS", "Family"]

_COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)
TOKENS = tuple(float(edge) for edge in _COUNTS)
CHOICES = (1.0, 2.0, 5.0, 10.0, 20.0)
PREEMPTIONS = (1.0, 2.0, 3.0, 4.0, 5.0, 10.0, 20.0)
STEP_TOKENS = (1.0, *(float(1 << power) for power in range(3, 15)))
FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_GAP_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0),
)
REQUEST_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
HTTP_DURATION_HIGHR_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5),
    *(3.0, 3.5, 4.0, 4.5, 5.0, 7.5, 10.0, 30.0, 60.0),
)
HTTP_DURATION_S = (0.1, 0.5, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One family: a histogram has edges; a counter or gauge may come in variants of one label."""

    name: str
    kind: str
    help: str
    edges: tuple[float, ...] = ()
    label: str = ""
    variants: tuple[str, ...] = ("",)
    engine: bool = True


FAMILIES = (
    Family(
        name="vllm:estimated_flops_per_gpu_total",
        kind="counter",
        help="Estimated number of floating point operations per GPU (for Model Flops Utilization calculations).",
    ),
    Family(
        name="vllm:estimated_read_bytes_per_gpu_total",
        kind="counter",
        help="Estimated number of bytes read from memory per GPU (for Model Flops Utilization calculations).",
    ),
    Family(
        name="vllm:estimated_write_bytes_per_gpu_total",
        kind="counter",
        help="Estimated number of bytes written to memory per GPU (for Model Flops Utilization calculations).",
    ),
    Family(
        name="vllm:num_requests_running",
        kind="gauge",
        help="Number of requests in model execution batches.",
    ),
    Family(
        name="vllm:num_requests_waiting",
        kind="gauge",
        help="Number of requests waiting to be processed.",
    ),
    Family(
        name="vllm:num_requests_waiting_by_reason",
        kind="gauge",
        help="Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred by transient constraints (LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
        label="reason",
        variants=("capacity", "deferred"),
    ),
    Family(
        name="vllm:engine_sleep_state",
        kind="gauge",
        help="Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
        label="sleep_state",
        variants=("awake", "weights_offloaded", "discard_all"),
    ),
    Family(
        name="vllm:kv_cache_usage_perc",
        kind="gauge",
        help="KV-cache usage. 1 means 100 percent usage.",
    ),
    Family(
        name="vllm:prefix_cache_queries_total",
        kind="counter",
        help="Prefix cache queries, in terms of number of queried tokens.",
    ),
    Family(
        name="vllm:prefix_cache_hits_total",
        kind="counter",
        help="Prefix cache hits, in terms of number of cached tokens.",
    ),
    Family(
        name="vllm:external_prefix_cache_queries_total",
        kind="counter",
        help="External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.",
    ),
    Family(
        name="vllm:external_prefix_cache_hits_total",
        kind="counter",
        help="External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.",
    ),
    Family(
        name="vllm:mm_cache_queries_total",
        kind="counter",
        help="Multi-modal cache queries, in terms of number of queried items.",
    ),
    Family(
        name="vllm:mm_cache_hits_total",
        kind="counter",
        help="Multi-modal cache hits, in terms of number of cached items.",
    ),
    Family(
        name="vllm:num_preemptions_total",
        kind="counter",
        help="Cumulative number of preemption from the engine.",
    ),
    Family(
        name="vllm:prompt_tokens_total", kind="counter", help="Number of prefill tokens processed."
    ),
    Family(
        name="vllm:prompt_tokens_by_source_total",
        kind="counter",
        help="Number of prompt tokens by source.",
        label="source",
        variants=("local_compute", "local_cache_hit", "external_kv_transfer"),
    ),
    Family(
        name="vllm:prompt_tokens_cached_total",
        kind="counter",
        help="Number of cached prompt tokens (local + external).",
    ),
    Family(
        name="vllm:prompt_tokens_cached_by_source_total",
        kind="counter",
        help="Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), disk, p2p (transferred from another vLLM instance) or external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.",
        label="source",
        variants=("device", "host", "p2p", "disk", "external_unspecified"),
    ),
    Family(
        name="vllm:generation_tokens_total",
        kind="counter",
        help="Number of generation tokens processed.",
    ),
    Family(
        name="vllm:request_success_total",
        kind="counter",
        help="Count of successfully processed requests.",
        label="finished_reason",
        variants=("stop", "length", "abort", "error", "repetition"),
    ),
    Family(
        name="vllm:admission_rejections_total",
        kind="counter",
        help="Number of admission attempts rejected by a queue limit, by reason.",
        label="reason",
        variants=("max_num_queued_reqs", "max_num_queued_tokens"),
        engine=False,
    ),
    Family(
        name="vllm:request_prompt_tokens",
        kind="histogram",
        help="Number of prefill tokens processed.",
        edges=TOKENS,
    ),
    Family(
        name="vllm:request_generation_tokens",
        kind="histogram",
        help="Number of generation tokens processed.",
        edges=TOKENS,
    ),
    Family(
        name="vllm:iteration_tokens_total",
        kind="histogram",
        help="Histogram of number of tokens per engine_step.",
        edges=STEP_TOKENS,
    ),
    Family(
        name="vllm:request_max_num_generation_tokens",
        kind="histogram",
        help="Histogram of maximum number of requested generation tokens.",
        edges=TOKENS,
    ),
    Family(
        name="vllm:request_params_n",
        kind="histogram",
        help="Histogram of the n request parameter.",
        edges=CHOICES,
    ),
    Family(
        name="vllm:request_params_max_tokens",
        kind="histogram",
        help="Histogram of the max_tokens request parameter.",
        edges=TOKENS,
    ),
    Family(
        name="vllm:time_to_first_token_seconds",
        kind="histogram",
        help="Histogram of time to first token in seconds.",
        edges=FIRST_TOKEN_S,
    ),
    Family(
        name="vllm:inter_token_latency_seconds",
        kind="histogram",
        help="Histogram of inter-token latency in seconds.",
        edges=TOKEN_GAP_S,
    ),
    Family(
        name="vllm:request_time_per_output_token_seconds",
        kind="histogram",
        help="Histogram of time_per_output_token_seconds per request.",
        edges=TOKEN_GAP_S,
    ),
    Family(
        name="vllm:e2e_request_latency_seconds",
        kind="histogram",
        help="Histogram of e2e request latency in seconds.",
        edges=REQUEST_S,
    ),
    Family(
        name="vllm:request_queue_time_seconds",
        kind="histogram",
        help="Histogram of time spent in WAITING phase for request.",
        edges=REQUEST_S,
    ),
    Family(
        name="vllm:request_inference_time_seconds",
        kind="histogram",
        help="Histogram of time spent in RUNNING phase for request.",
        edges=REQUEST_S,
    ),
    Family(
        name="vllm:request_prefill_time_seconds",
        kind="histogram",
        help="Histogram of time spent in PREFILL phase for request.",
        edges=REQUEST_S,
    ),
    Family(
        name="vllm:request_decode_time_seconds",
        kind="histogram",
        help="Histogram of time spent in DECODE phase for request.",
        edges=REQUEST_S,
    ),
    Family(
        name="vllm:request_num_preemptions",
        kind="histogram",
        help="Histogram of the number of times a request was preempted.",
        edges=PREEMPTIONS,
    ),
    Family(
        name="vllm:request_prefill_kv_computed_tokens",
        kind="histogram",
        help="Histogram of new KV tokens computed during prefill (excluding cached tokens).",
        edges=TOKENS,
    ),
)
