"""Hugging Face TGI's names. It has no TTFT: an estimate is put together, under its own name."""

from exporters.engine.table import Engine, Family, Row, Shape

__all__ = ["TGI"]

_BATCH = "batch_inference_duration"

_ROWS = (
    Row(
        metric="ttft_estimated",
        shape=Shape.ESTIMATE,
        families=(
            Family("request_queue_duration"),
            Family("request_validation_duration"),
            Family(_BATCH, only=(("method", "prefill"),)),
        ),
        note="Queue, validation and the prefill of the batch, one after the other.",
    ),
    Row(metric="e2e", shape=Shape.LATENCY, families=(Family("request_duration"),)),
    Row(metric="queue", shape=Shape.LATENCY, families=(Family("request_queue_duration"),)),
    Row(metric="requests_finished", shape=Shape.COUNTER, families=(Family("request_success"),)),
    Row(
        metric="requests_failed",
        shape=Shape.COUNTER,
        families=(Family("request_failure", but=(("err", "validation"),)),),
    ),
    Row(
        metric="requests_rejected",
        shape=Shape.COUNTER,
        families=(Family("request_failure", only=(("err", "validation"),)),),
    ),
    Row(metric="prompt_tokens", shape=Shape.TOTAL, families=(Family("request_input_length"),)),
    Row(
        metric="generation_tokens",
        shape=Shape.TOTAL,
        families=(Family("request_generated_tokens"),),
        note="Moves when a request finishes.",
    ),
    Row(metric="engine_steps", shape=Shape.COUNTER, families=(Family("batch_inference_count"),)),
    Row(metric="requests_running", shape=Shape.GAUGE, families=(Family("batch_current_size"),)),
    Row(metric="requests_waiting", shape=Shape.GAUGE, families=(Family("queue_size"),)),
)

TGI = Engine(
    name="tgi",
    title="Hugging Face TGI",
    prefixes=("tgi_",),
    rows=_ROWS,
    live=(Family("batch_inference_count"),),
    signs=(Family("request_success"), Family("request_failure"), Family("request_count")),
    switch="`/metrics` is on by default.",
    lacks="TTFT, ITL and TPOT (its mean time per token includes the prefill), prefill and decode "
    "per request, the KV cache. The page does not name the model: `labels: {model: …}`.",
)
