"""TensorRT-LLM's own names (`trtllm-serve`, and the worker of Dynamo), new and before prefixes."""

from exporters.engine.table import DECODES, PREFILLS, WHOLE, Engine, Family, Row, Shape

__all__ = ["TENSORRT_LLM", "TENSORRT_LLM_BARE"]

_BARE = (
    Row(
        metric="ttft",
        shape=Shape.LATENCY,
        families=(Family("time_to_first_token_seconds"),),
        roles=WHOLE,
    ),
    Row(
        metric="tpot",
        shape=Shape.LATENCY,
        families=(Family("time_per_output_token_seconds"),),
        roles=DECODES,
    ),
    Row(
        metric="e2e",
        shape=Shape.LATENCY,
        families=(Family("e2e_request_latency_seconds"),),
        roles=WHOLE,
    ),
    Row(metric="queue", shape=Shape.LATENCY, families=(Family("request_queue_time_seconds"),)),
    Row(
        metric="requests_started",
        shape=Shape.EVENTS,
        families=(Family("time_to_first_token_seconds"),),
        roles=DECODES,
    ),
    Row(
        metric="requests_finished",
        shape=Shape.COUNTER,
        families=(Family("request_success"),),
        roles=DECODES,
    ),
)

_ROWS = (
    *_BARE,
    Row(
        metric="prefill",
        shape=Shape.LATENCY,
        families=(Family("request_prefill_time_seconds", versions="2026-03 on"),),
        roles=PREFILLS,
    ),
    Row(
        metric="decode",
        shape=Shape.LATENCY,
        families=(Family("request_decode_time_seconds", versions="2026-03 on"),),
        roles=DECODES,
    ),
    Row(
        metric="kv_transfer",
        shape=Shape.LATENCY,
        families=(Family("kv_transfer_latency_seconds", versions="added by Dynamo"),),
    ),
    Row(
        metric="requests_failed",
        shape=Shape.COUNTER,
        families=(Family("request_error"),),
        roles=DECODES,
    ),
    Row(
        metric="prefill_requests",
        shape=Shape.EVENTS,
        families=(Family("request_prefill_time_seconds", versions="2026-03 on"),),
        roles=frozenset({"prefill"}),
    ),
    Row(
        metric="prompt_tokens",
        shape=Shape.COUNTER,
        families=(Family("prompt_tokens"),),
        roles=PREFILLS,
    ),
    Row(
        metric="generation_tokens",
        shape=Shape.COUNTER,
        families=(Family("generation_tokens"),),
        roles=DECODES,
    ),
    Row(
        metric="prefix_cache_queries",
        shape=Shape.COUNTER,
        families=(Family("kv_cache_reused_blocks"),),
        note="Blocks found …",
    ),
    Row(
        metric="prefix_cache_queries",
        shape=Shape.COUNTER,
        families=(Family("kv_cache_missed_blocks"),),
        note="… and blocks missed.",
    ),
    Row(
        metric="prefix_cache_hits",
        shape=Shape.COUNTER,
        families=(Family("kv_cache_reused_blocks"),),
        note="Blocks.",
    ),
    Row(metric="requests_running", shape=Shape.GAUGE, families=(Family("num_requests_running"),)),
    Row(metric="requests_waiting", shape=Shape.GAUGE, families=(Family("num_requests_waiting"),)),
    Row(metric="kv_cache_usage", shape=Shape.GAUGE, families=(Family("kv_cache_utilization"),)),
    Row(
        metric="kv_cache_capacity",
        shape=Shape.GAUGE,
        families=(Family("kv_cache_max_blocks"),),
        note="Blocks.",
    ),
)

_LABELS = (("model_name", "model"), ("finished_reason", "finish_reason"))

TENSORRT_LLM = Engine(
    name="trtllm",
    title="TensorRT-LLM",
    prefixes=("trtllm_",),
    rows=_ROWS,
    labels=_LABELS,
    switch="`return_perf_metrics: true` in the options of `trtllm-serve`; the page is "
    "`/prometheus/metrics`, `/metrics` is JSON.",
    lacks="ITL; steps, so that a stall is not judged.",
)

TENSORRT_LLM_BARE = Engine(
    name="trtllm",
    title="TensorRT-LLM, before prefixes",
    prefixes=("",),
    marks=("time_to_first_token_seconds", "e2e_request_latency_seconds"),
    rows=_BARE,
    labels=_LABELS,
    switch="Versions before TensorRT-LLM PR 12545: no prefix, every label `undefined`.",
    lacks="Everything but TTFT, TPOT, E2E and the queue.",
)
