"""Triton with the TensorRT-LLM backend: counters of microseconds, gauges split by one label."""

from exporters.engine.table import DECODES, WHOLE, Engine, Family, Row, Shape

__all__ = ["TRITON"]

_US = 1e-6
_OUTER = (("model", "ensemble"), ("model", "tensorrt_llm_bls"))
_INNER = (("model", "tensorrt_llm"),)
_TRANSFERS = "trt_llm_disaggregated_serving_metrics"
_CANCELLED = (("reason", "CANCELED"),)


def _of(kind: str, value: str) -> tuple[tuple[str, str], ...]:
    return ((kind, value),)


_ROWS = (
    Row(
        metric="e2e",
        shape=Shape.MEAN,
        families=(
            Family(
                "inference_request_duration_us",
                seconds_per_unit=_US,
                rather=_OUTER,
                per=Family("inference_request_success", rather=_OUTER),
            ),
        ),
        roles=WHOLE,
        note="A mean: wide bounds.",
    ),
    Row(
        metric="queue",
        shape=Shape.MEAN,
        families=(
            Family(
                "inference_queue_duration_us",
                seconds_per_unit=_US,
                rather=_INNER,
                per=Family("inference_request_success", rather=_INNER),
            ),
        ),
        note="Triton's own queue, not that of the batcher. A mean: wide bounds.",
    ),
    Row(
        metric="kv_transfer",
        shape=Shape.MEAN,
        families=(
            Family(
                _TRANSFERS,
                only=_of("disaggregated_serving_type", "kv_cache_transfer_ms"),
                seconds_per_unit=0.001,
                per=Family(_TRANSFERS, only=_of("disaggregated_serving_type", "request_count")),
            ),
        ),
        note="A mean: wide bounds.",
    ),
    Row(
        metric="requests_finished",
        shape=Shape.COUNTER,
        families=(Family("inference_request_success", rather=_OUTER),),
        roles=DECODES,
    ),
    Row(
        metric="requests_failed",
        shape=Shape.COUNTER,
        families=(Family("inference_request_failure", but=_CANCELLED, rather=_OUTER),),
    ),
    Row(
        metric="requests_cancelled",
        shape=Shape.COUNTER,
        families=(Family("inference_request_failure", only=_CANCELLED, rather=_OUTER),),
    ),
    Row(
        metric="requests_running",
        shape=Shape.GAUGE,
        families=(Family("trt_llm_request_metrics", only=_of("request_type", "active")),),
    ),
    Row(
        metric="requests_waiting",
        shape=Shape.GAUGE,
        families=(
            Family("trt_llm_request_metrics", only=_of("request_type", "waiting")),
            Family("inference_pending_request_count"),
        ),
    ),
    Row(
        metric="kv_cache_usage",
        shape=Shape.GAUGE,
        families=(
            Family("trt_llm_kv_cache_block_metrics", only=_of("kv_cache_block_type", "fraction")),
        ),
    ),
    Row(
        metric="kv_cache_capacity",
        shape=Shape.GAUGE,
        families=(
            Family("trt_llm_kv_cache_block_metrics", only=_of("kv_cache_block_type", "max")),
        ),
        note="Blocks.",
    ),
)

TRITON = Engine(
    name="triton",
    title="Triton with TensorRT-LLM",
    prefixes=("nv_",),
    rows=_ROWS,
    labels=(("model", "model"), ("version", "model_version")),
    live=(Family("trt_llm_general_metrics", only=_of("general_type", "iteration_counter")),),
    signs=(Family("inference_request_success"), Family("inference_request_failure")),
    switch="On by default: `http://HOST:8002/metrics`.",
    lacks="Any histogram: no TTFT, ITL, TPOT, prefill or decode, and of E2E and queue only means.",
)
