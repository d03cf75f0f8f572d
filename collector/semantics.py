"""What senders call things and what we call them: attributes to labels, stages, tokens, outcomes.

One table per kind of name, so that a new engine is a new line. Unknown attributes are dropped.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Final

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from collector.legs import SECONDS, TOKENS
from domain.labels import LABEL_NAMES, MAX_LABEL_LENGTH
from domain.leg import Outcome
from domain.metric import METRICS, Metric

__all__ = [
    "ATTRIBUTE_LABELS",
    "CHAT",
    "FINISH",
    "GAPS",
    "LONGEST_S",
    "METRIC_NAMES",
    "NUMBERS",
    "OPERATION",
    "OUTCOME",
    "PLACE",
    "ROOM",
    "STREAMED",
    "labels_in",
    "number_in",
    "outcome_of",
    "reason_in",
    "status_of",
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

PLACE: Final = {name: place for place, name in enumerate(SECONDS + TOKENS)}
"""Columns of numbers, in order."""

OPERATION: Final = "gen_ai.operation.name"
CHAT: Final = frozenset(("chat", "text_completion", "generate_content"))
"""Operations that answer token by token. Embeddings, tools and agents are no such requests."""

NUMBERS: Final = {
    # vLLM 0.10.2 to 0.33.0; SGLang uses the same usage names
    "gen_ai.latency.time_to_first_token": PLACE["ttft_s"],
    "gen_ai.latency.e2e": PLACE["e2e_s"],
    "gen_ai.latency.time_in_queue": PLACE["queue_s"],
    "gen_ai.latency.time_in_model_prefill": PLACE["prefill_s"],
    "gen_ai.latency.time_in_model_decode": PLACE["decode_s"],
    "gen_ai.usage.prompt_tokens": PLACE["prompt_tokens"],
    "gen_ai.usage.completion_tokens": PLACE["output_tokens"],
    "gen_ai.usage.cached_tokens": PLACE["cached_tokens"],
    # OpenTelemetry's GenAI conventions
    "gen_ai.response.time_to_first_chunk": PLACE["ttft_s"],
    "gen_ai.server.time_to_first_token": PLACE["ttft_s"],
    "gen_ai.usage.input_tokens": PLACE["prompt_tokens"],
    "gen_ai.usage.output_tokens": PLACE["output_tokens"],
    "gen_ai.usage.cache_read.input_tokens": PLACE["cached_tokens"],
    # ours, for what no convention names
    "stagewatch.decode_s": PLACE["decode_s"],
    "stagewatch.itl_max_s": PLACE["itl_max_s"],
}
"""Attribute of a span to its place among SECONDS + TOKENS."""

GAPS: Final = "stagewatch.itl_s"
"""On a client's span: every gap between tokens, in seconds, as an array of doubles."""

ROOM: Final = "bootstrap_room"
"""SGLang: what a prefill and a decode engine were told to meet by, in hexadecimal digits."""

STREAMED: Final = frozenset(("gen_ai.request.stream", "llm.is_streaming", "stagewatch.streamed"))

OUTCOME: Final = ("stagewatch.outcome", "request.outcome", "error.type")
"""Attributes that say how it ended, the one to believe first."""

FINISH: Final = frozenset(
    ("gen_ai.response.finish_reasons", "gen_ai.response.finish_reason", "stagewatch.finish_reason")
)
_OUTCOME_WORDS: Final = {
    **{outcome.value: outcome for outcome in Outcome},
    "aborted": Outcome.CANCELLED,
    "canceled": Outcome.CANCELLED,
    "success": Outcome.OK,
    "": Outcome.OK,
    # what `error.type` says: a class of exceptions (its module is passed over), or a status
    **dict.fromkeys(
        (
            "aborterror",
            "apiuseraborterror",
            "cancellederror",
            "clientdisconnect",
            "context_canceled",
            "generatorexit",
        ),
        Outcome.CANCELLED,
    ),
    **dict.fromkeys(
        (
            "accessdeniedexception",
            "authenticationerror",
            "badrequesterror",
            "contentpolicyviolationerror",
            "contextwindowexceedederror",
            "notfounderror",
            "permissiondeniederror",
            "unprocessableentityerror",
            "validationexception",
        ),
        Outcome.REJECTED,
    ),
}
_FINISH_OUTCOMES: Final = {
    "abort": Outcome.CANCELLED,
    "aborted": Outcome.CANCELLED,
    "cancelled": Outcome.CANCELLED,
    "error": Outcome.FAILED,
}
_HUNG_UP, _BUSY = 499, (408, 429)
_REFUSED_LOAD: Final = frozenset(
    ("ratelimiterror", "throttlingexception", "toomanyrequests", "toomanyrequestsexception")
)

METRIC_NAMES: Final[Mapping[str, tuple[Metric, str]]] = {
    **{metric.full_name: (metric, "page") for metric in METRICS.values()},
    "gen_ai.server.time_to_first_token": (METRICS["ttft"], "page"),
    "gen_ai.server.time_per_output_token": (METRICS["tpot"], "page"),
    "gen_ai.server.inter_token_latency": (METRICS["itl"], "page"),
    "gen_ai.server.request.duration": (METRICS["e2e"], "page"),
    "gen_ai.client.operation.duration": (METRICS["e2e"], "client"),
    "gen_ai.client.operation.time_to_first_chunk": (METRICS["ttft"], "client"),
    # a chunk is not a token: what a client calls a gap may span several
    "gen_ai.client.operation.time_per_output_chunk": (METRICS["itl"], "client"),
}
"""Name of a metric to ours, and the source to believe when the sender does not say."""


def outcome_of(word: str) -> Outcome:
    """What an attribute's word or status says of the end; a word that nobody knows is an error."""
    known = _OUTCOME_WORDS.get(word.lower().rpartition(".")[2])
    if known is not None:
        return known
    status = int(word) if len(word) == 3 and word.isascii() and word.isdigit() else 500
    if status == _HUNG_UP:
        return Outcome.CANCELLED
    return Outcome.REJECTED if 400 <= status < 500 and status not in _BUSY else Outcome.FAILED


def status_of(word: str) -> str:
    """The HTTP status that an attribute's word tells, as three digits; empty where it tells none."""
    if len(word) == 3 and word.isascii() and word.isdigit():
        return word
    return "429" if word.lower().rpartition(".")[2] in _REFUSED_LOAD else ""


def reason_in(value: AnyValue) -> tuple[str, Outcome | None]:
    """A finish reason, and how it ended where the reason says so. Some send a list as text."""
    reason = text_in(value)
    if reason.startswith("["):
        try:
            told = json.loads(reason)
        except ValueError:
            told = [reason]
        reason = str(told[0]) if isinstance(told, list) and told else ""
    return reason, _FINISH_OUTCOMES.get(reason)


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
