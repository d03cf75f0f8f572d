"""SGLang's names, 0.4.1 to 0.5.23, unified and disaggregated."""

from exporters.engine.table import DECODES, PREFILLS, WHOLE, Engine, Family, Row, Shape

__all__ = ["SGLANG"]

_STAGES = "per_stage_req_latency_seconds"
_FORWARD = (("stage", "prefill_forward"),)
_TRANSFER = (("stage", "prefill_transfer_kv_cache"),)

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
        families=(
            Family("inter_token_latency_seconds", sample="token", versions="0.4.6 on"),
            Family("time_per_output_token_seconds", sample="chunk", versions="to 0.4.4"),
        ),
        roles=DECODES,
    ),
    Row(
        metric="tpot",
        shape=Shape.LATENCY,
        families=(Family("request_time_per_output_token_seconds", versions="0.5.17–0.5.23 on"),),
        roles=DECODES,
    ),
    Row(
        metric="e2e",
        shape=Shape.LATENCY,
        families=(Family("e2e_request_latency_seconds"),),
        roles=WHOLE,
    ),
    Row(
        metric="queue",
        shape=Shape.LATENCY,
        families=(Family("queue_time_seconds", versions="0.5.2–0.5.3 on"),),
        note="Before, `avg_request_queue_latency` is a gauge: not read.",
    ),
    Row(
        metric="prefill",
        shape=Shape.LATENCY,
        families=(Family(_STAGES, only=_FORWARD, versions="0.5.3 on"),),
        roles=PREFILLS,
    ),
    Row(
        metric="kv_transfer",
        shape=Shape.LATENCY,
        families=(
            Family(_STAGES, only=_TRANSFER, versions="0.5.3 on"),
            Family(
                "kv_transfer_latency_ms",
                seconds_per_unit=0.001,
                versions="a histogram since 0.5.10–0.5.12; milliseconds",
            ),
        ),
        roles=PREFILLS,
        note="Told by the prefill engine, which sends.",
    ),
    Row(
        metric="kv_transfers_failed",
        shape=Shape.COUNTER,
        families=(Family("num_transfer_failed_reqs"),),
    ),
    Row(
        metric="kv_transfers_failed",
        shape=Shape.COUNTER,
        families=(Family("num_bootstrap_failed_reqs"),),
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
        families=(
            Family("num_requests", versions="0.4.6 on"),
            Family("e2e_request_latency_seconds_count", versions="before"),
        ),
        roles=DECODES,
    ),
    Row(
        metric="requests_cancelled",
        shape=Shape.COUNTER,
        families=(Family("num_aborted_requests"),),
        roles=DECODES,
        note="Clients that hung up were counted as success for long.",
    ),
    Row(
        metric="prefill_requests",
        shape=Shape.EVENTS,
        families=(Family(_STAGES, only=_FORWARD, versions="0.5.3 on"),),
        roles=frozenset({"prefill"}),
    ),
    Row(
        metric="prompt_tokens",
        shape=Shape.COUNTER,
        families=(Family("prompt_tokens"),),
        roles=PREFILLS,
        note="Moves when a request finishes.",
    ),
    Row(
        metric="generation_tokens",
        shape=Shape.COUNTER,
        families=(Family("generation_tokens"),),
        roles=DECODES,
        note="Moves when a request finishes.",
    ),
    Row(
        metric="preemptions",
        shape=Shape.COUNTER,
        families=(Family("num_retracted_requests", versions="0.5.9 on"),),
    ),
    Row(
        metric="prefix_cache_queries",
        shape=Shape.COUNTER,
        families=(Family("prompt_tokens"),),
        roles=PREFILLS,
    ),
    Row(
        metric="prefix_cache_hits",
        shape=Shape.COUNTER,
        families=(
            Family("cached_tokens", only=(("cache_source", "total"),)),
            Family("cached_tokens"),
        ),
        roles=PREFILLS,
    ),
    Row(metric="requests_running", shape=Shape.GAUGE, families=(Family("num_running_reqs"),)),
    Row(metric="requests_waiting", shape=Shape.GAUGE, families=(Family("num_queue_reqs"),)),
    Row(
        metric="kv_cache_usage",
        shape=Shape.GAUGE,
        families=(Family("token_usage"),),
        note="Without what could be thrown out.",
    ),
    Row(
        metric="kv_cache_capacity",
        shape=Shape.GAUGE,
        families=(Family("max_total_num_tokens"),),
        note="Tokens.",
    ),
    Row(
        metric="process_cpu",
        shape=Shape.COUNTER,
        families=(Family("process_cpu_seconds", bare=True),),
        note="Of the API server's process.",
    ),
)

SGLANG = Engine(
    name="sglang",
    title="SGLang",
    prefixes=("sglang:", "sglang_"),  # gateways and OTel pipelines write `_` for `:`
    rows=_ROWS,
    copies=("tp_rank", "pp_rank", "cp_rank", "attn_cp_rank", "moe_ep_rank", "moe_dp_rank"),
    live=(
        Family("realtime_tokens_total"),
        Family("forward_execution_seconds_total"),
        Family("gpu_execution_seconds_total"),
        Family("cuda_graph_passes_total"),
    ),
    signs=(
        Family("generation_tokens_total"),
        Family("time_to_first_token_seconds_count"),
        Family("inter_token_latency_seconds_count"),
        Family("queue_time_seconds_count"),
        Family("num_requests_total"),
    ),
    switch="`--enable-metrics`; with tensor parallelism and DP also "
    "`--enable-metrics-for-all-schedulers`.",
    lacks="Decode time (E2E less TTFT); the queue before 0.5.2; engine steps.",
)
