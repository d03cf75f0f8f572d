"""What senders call things and what we call them: attributes to labels, stages, tokens, outcomes.

One table per kind of name, so that a new engine is a new line. Unknown attributes are dropped.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.legs import SECONDS, TOKENS
from domain.labels import LABEL_NAMES, MAX_LABEL_LENGTH
from domain.metric import METRICS, Metric
from domain.request import Outcome

__all__ = [
    "ATTRIBUTE_LABELS",
    "FINISH",
    "GAPS",
    "LONGEST_S",
    "METRIC_NAMES",
    "NUMBERS",
    "OUTCOME",
    "OUTCOME_WORDS",
    "labels_in",
    "number_in",
    "text_in",
]

LONGEST_S: Final = 36 * 3600.0
"""No request lasts longer: what claims to is a broken clock."""

ATTRIBUTE_LABELS: Final = {
    "service.name": "service",
    "service.instance.id": "replica",
    "gen_ai.request.model": "model",
    "gen_ai.response.model": "model",
    "model_name": "model",
    "cloud.region": "region",
    "cloud.availability_zone": "zone",
    **{f"stagewatch.{name}": name for name in LABEL_NAMES},
}

_PLACE = {name: place for place, name in enumerate(SECONDS + TOKENS)}
NUMBERS: Final = {
    # vLLM 0.10.2 to 0.33.0; SGLang uses the same usage names
    "gen_ai.latency.time_to_first_token": _PLACE["ttft_s"],
    "gen_ai.latency.e2e": _PLACE["e2e_s"],
    "gen_ai.latency.time_in_queue": _PLACE["queue_s"],
    "gen_ai.latency.time_in_model_prefill": _PLACE["prefill_s"],
    "gen_ai.latency.time_in_model_decode": _PLACE["decode_s"],
    "gen_ai.usage.prompt_tokens": _PLACE["prompt_tokens"],
    "gen_ai.usage.completion_tokens": _PLACE["output_tokens"],
    "gen_ai.usage.cached_tokens": _PLACE["cached_tokens"],
    # OpenTelemetry's GenAI conventions
    "gen_ai.response.time_to_first_chunk": _PLACE["ttft_s"],
    "gen_ai.server.time_to_first_token": _PLACE["ttft_s"],
    "gen_ai.usage.input_tokens": _PLACE["prompt_tokens"],
    "gen_ai.usage.output_tokens": _PLACE["output_tokens"],
    "gen_ai.usage.cache_read.input_tokens": _PLACE["cached_tokens"],
    # ours, for what no convention names
    "stagewatch.decode_s": _PLACE["decode_s"],
    "stagewatch.itl_max_s": _PLACE["itl_max_s"],
}
"""Attribute of a span to its place among SECONDS + TOKENS."""

GAPS: Final = "stagewatch.itl_s"
"""On a client's span: every gap between tokens, in seconds, as an array of doubles."""

OUTCOME: Final = frozenset(("stagewatch.outcome", "error.type", "request.outcome"))
FINISH: Final = frozenset(
    ("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "stagewatch.finish_reason")
)
OUTCOME_WORDS: Final = {
    **{outcome.value: outcome for outcome in Outcome},
    "aborted": Outcome.CANCELLED,
    "canceled": Outcome.CANCELLED,
    "error": Outcome.FAILED,
    "success": Outcome.OK,
    "": Outcome.OK,
}

METRIC_NAMES: Final[Mapping[str, tuple[Metric, str]]] = {
    **{metric.full_name: (metric, "page") for metric in METRICS.values()},
    "gen_ai.server.time_to_first_token": (METRICS["ttft"], "page"),
    "gen_ai.server.time_per_output_token": (METRICS["tpot"], "page"),
    "gen_ai.server.inter_token_latency": (METRICS["itl"], "page"),
    "gen_ai.server.request.duration": (METRICS["e2e"], "page"),
    "gen_ai.client.operation.duration": (METRICS["e2e"], "client"),
    "gen_ai.client.operation.time_to_first_chunk": (METRICS["ttft"], "client"),
}
"""Name of a metric to ours, and the source to believe when the sender does not say."""


def labels_in(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """The labels among these attributes, shortened to what a label may be."""
    found: dict[str, str] = {}
    for attribute in attributes:
        name = ATTRIBUTE_LABELS.get(attribute.key)
        if name is not None and (text := text_in(attribute.value)):
            found[name] = text[:MAX_LABEL_LENGTH]
    return found


def text_in(value: AnyValue) -> str:
    """A value as text; of a list the first. Empty where there is none."""
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "int_value":
            return str(value.int_value)
        case "bool_value":
            return str(value.bool_value).lower()
        case "double_value":
            return f"{value.double_value:g}"
        case "array_value":
            return text_in(value.array_value.values[0]) if value.array_value.values else ""
    return ""


def number_in(value: AnyValue) -> float | None:
    """A value as a number, 0 included; None where there is none. Some engines send text."""
    number = value.double_value
    if number != 0.0:  # why first: nearly every value of a span is such, and this is half the time
        return number
    match value.WhichOneof("value"):
        case "double_value":
            return 0.0
        case "int_value":
            return float(value.int_value)
        case "string_value":
            try:
                return float(value.string_value)
            except ValueError:
                return None
    return None
