"""vLLM's names, V0 and V1: versions are those that its own code was seen to write."""

from exporters.engine.table import DECODES, PREFILLS, WHOLE, Engine, Family, Row, Shape

__all__ = ["ROWS", "VLLM"]

_ABORTED = (("finished_reason", "abort"),)
_BROKEN = (("finished_reason", "error"),)

ROWS = (
    Row(
        metric="ttft",
        shape=Shape.LATENCY,
        families=(Family("time_to_first_token_seconds"),),
        roles=WHOLE,
    ),
    Row(
        metric="itl",
        shape=Shape.LATENCY,
        families=(  # one sample a step: with speculative decoding several tokens
            Family("inter_token_latency_seconds", sample="step", versions="0.10.2 on"),
            Family("time_per_output_token_seconds", sample="step", versions="to 0.11"),
        ),
        roles=DECODES,
    ),
    Row(
        metric="tpot",
        shape=Shape.LATENCY,
        families=(Family("request_time_per_output_token_seconds", versions="0.11 on"),),
        roles=DECODES,
        without="request_generation_tokens",
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
        families=(
            Family("request_queue_time_seconds", versions="0.6.4 on"),
            Family("time_in_queue_requests", versions="V0, to 0.9.0"),
        ),
    ),
    Row(
        metric="prefill",
        shape=Shape.LATENCY,
        families=(Family("request_prefill_time_seconds", versions="0.6.4 on"),),
        roles=PREFILLS,
    ),
    Row(
        metric="decode",
        shape=Shape.LATENCY,
        families=(Family("request_decode_time_seconds", versions="0.6.4 on"),),
        roles=DECODES,
    ),
    Row(
        metric="kv_transfer",
        shape=Shape.LATENCY,
        families=(Family("nixl_xfer_time_seconds", versions="with the NIXL connector"),),
        note="One per transfer.",
    ),
    Row(
        metric="kv_transfers_failed",
        shape=Shape.COUNTER,
        families=(Family("nixl_num_failed_transfers", versions="with the NIXL connector"),),
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
        families=(Family("request_success", but=(*_ABORTED, *_BROKEN)),),
        roles=DECODES,
    ),
    Row(
        metric="requests_cancelled",
        shape=Shape.COUNTER,
        families=(Family("request_success", only=_ABORTED),),
        roles=DECODES,
        note="Only what the engine itself aborts: a client that hangs up is on no page.",
    ),
    Row(
        metric="requests_failed",
        shape=Shape.COUNTER,
        families=(Family("request_success", only=_BROKEN, versions="0.13–0.16 on"),),
        roles=DECODES,
    ),
    Row(
        metric="prefill_requests",
        shape=Shape.EVENTS,
        families=(Family("request_prefill_time_seconds", versions="0.6.4 on"),),
        roles=frozenset({"prefill"}),
    ),
    Row(
        metric="prompt_tokens",
        shape=Shape.COUNTER,
        families=(Family("prompt_tokens"),),
        roles=PREFILLS,
    ),
    Row(
        metric="prompt_tokens",
        shape=Shape.COUNTER,
        families=(
            Family(
                "prompt_tokens_by_source", only=(("source", "local_compute"),), versions="0.16 on"
            ),
        ),
        roles=frozenset({"decode"}),
        note="A decode engine counts the tokens whose KV came over the wire as well.",
    ),
    Row(
        metric="generation_tokens",
        shape=Shape.COUNTER,
        families=(Family("generation_tokens"),),
        roles=DECODES,
    ),
    Row(metric="preemptions", shape=Shape.COUNTER, families=(Family("num_preemptions"),)),
    Row(metric="engine_steps", shape=Shape.EVENTS, families=(Family("iteration_tokens_total"),)),
    Row(
        metric="prefix_cache_queries",
        shape=Shape.COUNTER,
        families=(
            Family("prefix_cache_queries", versions="0.9.2 on"),
            Family("gpu_prefix_cache_queries", versions="to 0.11"),
        ),
        note="Tokens since 0.9.0, blocks before: the hit ratio is right either way.",
    ),
    Row(
        metric="prefix_cache_hits",
        shape=Shape.COUNTER,
        families=(
            Family("prefix_cache_hits", versions="0.9.2 on"),
            Family("gpu_prefix_cache_hits", versions="to 0.11"),
        ),
    ),
    Row(metric="requests_running", shape=Shape.GAUGE, families=(Family("num_requests_running"),)),
    Row(metric="requests_waiting", shape=Shape.GAUGE, families=(Family("num_requests_waiting"),)),
    Row(
        metric="kv_cache_usage",
        shape=Shape.GAUGE,
        families=(  # a fraction, whatever it is called
            Family("kv_cache_usage_perc", versions="0.9.2 on"),
            Family("gpu_cache_usage_perc", versions="to 0.11"),
        ),
    ),
    Row(
        metric="requests_swapped",
        shape=Shape.GAUGE,
        families=(Family("num_requests_swapped", versions="V0, to 0.10"),),
    ),
    Row(
        metric="process_cpu",
        shape=Shape.COUNTER,
        families=(Family("process_cpu_seconds", bare=True),),
        note="Of the API server's process; not on the page of several API servers together.",
    ),
    Row(
        metric="kv_cache_capacity",
        shape=Shape.INFO,
        families=(Family("cache_config_info", label="num_gpu_blocks"),),
        note="Blocks.",
    ),
)

VLLM = Engine(
    name="vllm",
    title="vLLM",
    prefixes=("vllm:", "vllm_"),  # re-exporters write `_` for `:`
    rows=ROWS,
    labels=(("model_name", "model"), ("finished_reason", "finish_reason")),
    complete=True,
    live=(Family("iteration_tokens_total_count"), Family("generation_tokens_total")),
    signs=(
        Family("time_to_first_token_seconds_count"),
        Family("inter_token_latency_seconds_count"),
        Family("time_per_output_token_seconds_count"),
        Family("request_success_total"),
    ),
    switch="`/metrics` is on by default.",
    lacks="Requests that the client gave up: an abort is on no page.",
)
