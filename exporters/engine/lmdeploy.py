"""LMDeploy's names."""

from exporters.engine.table import DECODES, PREFILLS, WHOLE, Engine, Family, Row, Shape

__all__ = ["LMDEPLOY"]

_CANCELLED = (("finished_reason", "ResponseType.CANCEL"),)
_FAILED = (("finished_reason", "ResponseType.INTERNAL_ENGINE_ERROR"),)

_ROWS = (
    Row(
        metric="ttft",
        shape=Shape.LATENCY,
        families=(Family("time_to_first_token_seconds"),),
        roles=WHOLE,
    ),
    Row(
        metric="itl",
        shape=Shape.LATENCY,
        families=(Family("iter_token_latency", sample="step"),),
        roles=DECODES,
    ),
    Row(
        metric="tpot",
        shape=Shape.LATENCY,
        families=(Family("time_per_output_token_seconds", sample="step"),),
        roles=DECODES,
        note="Per iteration, not per request: its seconds over its tokens.",
    ),
    Row(
        metric="e2e",
        shape=Shape.LATENCY,
        families=(Family("e2e_request_latency_seconds"),),
        roles=WHOLE,
    ),
    Row(metric="queue", shape=Shape.LATENCY, families=(Family("request_queue_time_seconds"),)),
    Row(
        metric="prefill",
        shape=Shape.LATENCY,
        families=(Family("request_prefill_time_seconds"),),
        roles=PREFILLS,
    ),
    Row(
        metric="decode",
        shape=Shape.LATENCY,
        families=(Family("request_decode_time_seconds"),),
        roles=DECODES,
    ),
    Row(
        metric="requests_started",
        shape=Shape.EVENTS,
        families=(Family("time_to_first_token_seconds"),),
        roles=DECODES,
    ),
    Row(
        metric="requests_finished",
        shape=Shape.COUNTER,
        families=(Family("request_success", but=(*_CANCELLED, *_FAILED)),),
        roles=DECODES,
    ),
    Row(
        metric="requests_cancelled",
        shape=Shape.COUNTER,
        families=(Family("request_success", only=_CANCELLED),),
        roles=DECODES,
    ),
    Row(
        metric="requests_failed",
        shape=Shape.COUNTER,
        families=(Family("request_success", only=_FAILED),),
        roles=DECODES,
    ),
    Row(
        metric="prefill_requests",
        shape=Shape.EVENTS,
        families=(Family("request_prefill_time_seconds"),),
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
    Row(metric="engine_steps", shape=Shape.EVENTS, families=(Family("iteration_tokens_total"),)),
    Row(
        metric="prefix_cache_queries",
        shape=Shape.COUNTER,
        families=(Family("prompt_tokens"),),
        roles=PREFILLS,
    ),
    Row(
        metric="prefix_cache_hits",
        shape=Shape.COUNTER,
        families=(Family("cached_tokens"),),
        roles=PREFILLS,
    ),
    Row(metric="requests_running", shape=Shape.GAUGE, families=(Family("num_requests_running"),)),
    Row(metric="requests_waiting", shape=Shape.GAUGE, families=(Family("num_requests_waiting"),)),
    Row(metric="kv_cache_usage", shape=Shape.GAUGE, families=(Family("gpu_cache_usage_perc"),)),
)

LMDEPLOY = Engine(
    name="lmdeploy",
    title="LMDeploy",
    prefixes=("lmdeploy:", "lmdeploy_"),
    rows=_ROWS,
    labels=(("model_name", "model"), ("finished_reason", "finish_reason")),
    complete=True,
    live=(Family("iteration_tokens_total_count"), Family("generation_tokens_total")),
    signs=(Family("time_to_first_token_seconds_count"), Family("request_success_total")),
    switch="`lmdeploy serve api_server … --enable-metrics`.",
    lacks="The size of the KV cache; preemptions.",
)
