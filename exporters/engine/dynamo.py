"""NVIDIA Dynamo: the frontend, which sees users, and what its workers say beside their engines."""

from exporters.engine.table import DECODES, WHOLE, Engine, Family, Row, Shape

__all__ = ["DYNAMO_FRONTEND", "DYNAMO_WORKER"]

_GENERATE = (("dynamo_endpoint", "generate"),)
_PREFILL = (("dynamo_component", "prefill"),)
_CANCELLED = (("error_type", "cancelled"),)
_INVALID = (("error_type", "validation"),)
_SWITCH = "On by default: the frontend on its HTTP port, workers with `DYN_SYSTEM_PORT=8081`."

_FRONTEND = (
    Row(
        metric="ttft",
        shape=Shape.LATENCY,
        families=(Family("time_to_first_token_seconds"),),
        note="Also of answers that are not streamed.",
    ),
    Row(
        metric="itl",
        shape=Shape.LATENCY,
        families=(Family("inter_token_latency_seconds", sample="chunk"),),
    ),
    Row(metric="e2e", shape=Shape.LATENCY, families=(Family("request_duration_seconds"),)),
    Row(
        metric="requests_started",
        shape=Shape.EVENTS,
        families=(Family("time_to_first_token_seconds"),),
    ),
    Row(
        metric="requests_finished",
        shape=Shape.COUNTER,
        families=(Family("requests", only=(("status", "success"),)),),
    ),
    Row(
        metric="requests_cancelled",
        shape=Shape.COUNTER,
        families=(Family("requests", only=_CANCELLED),),
    ),
    Row(
        metric="requests_rejected",
        shape=Shape.COUNTER,
        families=(Family("requests", only=_INVALID),),
    ),
    Row(
        metric="requests_failed",
        shape=Shape.COUNTER,
        families=(Family("requests", only=(("status", "error"),), but=(*_CANCELLED, *_INVALID)),),
    ),
    Row(metric="prompt_tokens", shape=Shape.TOTAL, families=(Family("input_sequence_tokens"),)),
    Row(metric="generation_tokens", shape=Shape.COUNTER, families=(Family("output_tokens"),)),
)

_WORKER = (
    Row(
        metric="e2e",
        shape=Shape.LATENCY,
        families=(Family("request_duration_seconds", only=_GENERATE, but=_PREFILL),),
        roles=WHOLE,
        note="The worker's handler, where its engine says nothing.",
    ),
    Row(
        metric="requests_finished",
        shape=Shape.EVENTS,
        families=(Family("request_duration_seconds", only=_GENERATE, but=_PREFILL),),
        roles=DECODES,
    ),
    Row(
        metric="prefill_requests",
        shape=Shape.EVENTS,
        families=(Family("request_duration_seconds", only=_GENERATE),),
        roles=frozenset({"prefill"}),
    ),
    Row(
        metric="requests_running",
        shape=Shape.GAUGE,
        families=(Family("inflight_requests", only=_GENERATE),),
    ),
    Row(
        metric="kv_cache_usage",
        shape=Shape.GAUGE,
        families=(
            Family("gpu_cache_usage_percent", versions="1.0 on; a fraction"),
            Family("kvstats_gpu_cache_usage_percent", versions="0.7; a fraction"),
        ),
    ),
    Row(
        metric="kv_cache_capacity",
        shape=Shape.GAUGE,
        families=(
            Family("total_blocks", versions="1.0 on"),
            Family("kvstats_total_blocks", versions="0.7"),
        ),
        note="Blocks.",
    ),
)

DYNAMO_FRONTEND = Engine(
    name="dynamo",
    title="NVIDIA Dynamo, frontend",
    prefixes=("dynamo_frontend_",),
    rows=_FRONTEND,
    labels=(("model", "model"),),
    source="frontend",
    switch=_SWITCH,
    lacks="The stages behind it: read the workers as well, under the same service. Its gauges of "
    "requests are not added to those of the engines.",
)

DYNAMO_WORKER = Engine(
    name="dynamo",
    title="NVIDIA Dynamo, worker",
    prefixes=("dynamo_component_",),
    marks=(  # the frontend's page has `dynamo_component_router_…` as well
        "dynamo_work_handler_",
        "dynamo_component_inflight_requests",
        "dynamo_component_request_duration_seconds",
    ),
    rows=_WORKER,
    labels=(("model", "model"),),
    switch=_SWITCH,
    lacks="On a prefill worker everything but its load: the time of its handler includes the wait "
    "for decode to take the KV.",
)
