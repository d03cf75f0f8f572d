"""LiteLLM's proxy: a gateway. Its latency per output token is wrong for streams and not mapped."""

from exporters.engine.table import Engine, Family, Row, Shape

__all__ = ["LITELLM"]

_ROWS = (
    Row(
        metric="ttft",
        shape=Shape.LATENCY,
        families=(Family("llm_api_time_to_first_token_metric"),),
        note="The provider's leg, of streams only.",
    ),
    Row(metric="e2e", shape=Shape.LATENCY, families=(Family("request_total_latency_metric"),)),
    Row(
        metric="queue",
        shape=Shape.LATENCY,
        families=(Family("request_queue_time_seconds"),),
        note="The proxy's own queue.",
    ),
    Row(
        metric="overhead",
        shape=Shape.LATENCY,
        families=(Family("overhead_latency_metric"),),
        note="Seconds; the HELP text says milliseconds.",
    ),
    Row(
        metric="requests_finished",
        shape=Shape.COUNTER,
        families=(Family("proxy_total_requests_metric", only=(("status_code", "200"),)),),
    ),
    Row(
        metric="requests_failed",
        shape=Shape.COUNTER,
        families=(Family("proxy_failed_requests_metric"),),
    ),
    Row(metric="prompt_tokens", shape=Shape.COUNTER, families=(Family("input_tokens_metric"),)),
    Row(
        metric="generation_tokens",
        shape=Shape.COUNTER,
        families=(Family("output_tokens_metric"),),
    ),
)

LITELLM = Engine(
    name="litellm",
    title="LiteLLM proxy",
    prefixes=("litellm_",),
    rows=_ROWS,
    labels=(
        ("requested_model", "model"),
        ("model_group", "model"),
        ("litellm_model_name", "model"),
        ("model", "model"),
    ),
    source="frontend",
    switch='`litellm_settings: {callbacks: ["prometheus"]}`; the page is `/metrics/`, with a slash.',
    lacks="ITL and TPOT, and everything behind the provider's door.",
)
