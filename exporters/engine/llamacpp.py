"""llama.cpp's server: counters only, of six digits each, and no labels of its own."""

from exporters.engine.table import Engine, Family, Row, Shape

__all__ = ["LLAMACPP"]

_DIGITS = 6

_ROWS = (
    Row(
        metric="itl",
        shape=Shape.MEAN,
        families=(
            Family(
                "tokens_predicted_seconds",
                sample="token",
                digits=_DIGITS,
                per=Family("tokens_predicted"),
            ),
        ),
        note="A mean: wide bounds.",
    ),
    Row(metric="prompt_tokens", shape=Shape.COUNTER, families=(Family("prompt_tokens"),)),
    Row(
        metric="generation_tokens",
        shape=Shape.COUNTER,
        families=(Family("tokens_predicted"),),
        note="Moves when a request finishes.",
    ),
    Row(metric="engine_steps", shape=Shape.COUNTER, families=(Family("n_decode"),)),
    Row(metric="requests_running", shape=Shape.GAUGE, families=(Family("requests_processing"),)),
    Row(metric="requests_waiting", shape=Shape.GAUGE, families=(Family("requests_deferred"),)),
    Row(
        metric="kv_cache_usage",
        shape=Shape.GAUGE,
        families=(Family("kv_cache_usage_ratio", versions="before PR 13660"),),
    ),
)

LLAMACPP = Engine(
    name="llamacpp",
    title="llama.cpp",
    prefixes=("llamacpp:", "llamacpp_"),
    rows=_ROWS,
    labels=(("model", "model"),),
    live=(Family("n_decode_total"),),
    signs=(Family("tokens_predicted_total"), Family("prompt_tokens_total")),
    switch="`llama-server --metrics`.",
    lacks="Requests: no TTFT, E2E, queue or prefill, and no count of answers; the KV cache since "
    "PR 13660. The page does not name the model: `labels: {model: …}`.",
)
