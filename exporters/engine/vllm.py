"""vLLM's names by version: which of its families is which of our metrics.

The first listed family that a page has is read; the others, alive together through a
deprecation, say the same thing again. Versions are those that vLLM's own code was seen to write.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from domain.labels import Labels

__all__ = [
    "LABELS",
    "PREFIXES",
    "ROLES",
    "START_TIME",
    "TABLE",
    "Row",
    "Shape",
    "names_of",
    "wanted",
]

PREFIXES = ("vllm:", "vllm_", "ray_vllm:", "ray_vllm_")
"""Ray Serve and re-exporters put their own before it, and write `_` for `:`."""

START_TIME = "process_start_time_seconds"

_PARTS = ("_bucket", "_sum", "_count", "_created")

LABELS = {"model_name": "model", "finished_reason": "finish_reason"}
"""Labels of the page that are labels of ours; `engine` (a rank) and the rest are added up."""


class Shape(StrEnum):
    """What we read from a family."""

    LATENCY = "latency"  # a histogram of seconds becomes pairs
    EVENTS = "events"  # the count of a histogram becomes a counter
    COUNTER = "counter"
    GAUGE = "gauge"


_WHOLE = frozenset({"", "both"})
_PREFILLS = _WHOLE | {"prefill"}
_DECODES = _WHOLE | {"decode"}
ROLES = _PREFILLS | _DECODES


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One of our metrics: the families it may come from, best first, and how to read them.

    `roles` are those of targets it is true for: one half of a disaggregated pair sees no user's
    TTFT. `sample` says what one sample is where engines differ. `only` picks series by a label.
    `without` names a histogram of token counts: its requests of at most one token observed 0 here.
    """

    metric: str
    shape: Shape
    families: tuple[str, ...]
    roles: frozenset[str] = ROLES
    seconds_per_unit: float = 1.0
    sample: str = ""
    only: Labels = ()
    without: str = ""


TABLE = (
    Row(
        metric="ttft",
        shape=Shape.LATENCY,
        families=("time_to_first_token_seconds",),
        roles=_WHOLE,
    ),
    Row(
        metric="itl",
        shape=Shape.LATENCY,
        families=(
            "inter_token_latency_seconds",  # 0.10.2 on
            "time_per_output_token_seconds",  # to 0.11, hidden in 0.12
        ),
        roles=_DECODES,
        sample="step",  # speculative decoding: several tokens a step
    ),
    Row(
        metric="tpot",
        shape=Shape.LATENCY,
        families=("request_time_per_output_token_seconds",),  # 0.11 on
        roles=_DECODES,
        without="request_generation_tokens",
    ),
    Row(
        metric="e2e",
        shape=Shape.LATENCY,
        families=("e2e_request_latency_seconds",),
        roles=_WHOLE,
    ),
    Row(
        metric="queue",
        shape=Shape.LATENCY,
        families=(
            "request_queue_time_seconds",  # 0.6.4 on
            "time_in_queue_requests",  # V0, to 0.9.0
        ),
    ),
    Row(
        metric="prefill",
        shape=Shape.LATENCY,
        families=("request_prefill_time_seconds",),  # 0.6.4 on
        roles=_PREFILLS,
    ),
    Row(
        metric="decode",
        shape=Shape.LATENCY,
        families=("request_decode_time_seconds",),  # 0.6.4 on
        roles=_DECODES,
    ),
    Row(
        metric="requests_started",
        shape=Shape.EVENTS,
        families=("time_to_first_token_seconds",),
        roles=_DECODES,
    ),
    Row(
        metric="requests_finished",
        shape=Shape.COUNTER,
        families=("request_success",),
        roles=_DECODES,
    ),
    Row(
        metric="prompt_tokens",
        shape=Shape.COUNTER,
        families=("prompt_tokens",),
        roles=_PREFILLS,
    ),
    Row(  # a decode engine counts the tokens whose KV came over the wire as well
        metric="prompt_tokens",
        shape=Shape.COUNTER,
        families=("prompt_tokens_by_source",),  # 0.16 on
        roles=frozenset({"decode"}),
        only=(("source", "local_compute"),),
    ),
    Row(
        metric="generation_tokens",
        shape=Shape.COUNTER,
        families=("generation_tokens",),
        roles=_DECODES,
    ),
    Row(metric="preemptions", shape=Shape.COUNTER, families=("num_preemptions",)),
    Row(metric="engine_steps", shape=Shape.EVENTS, families=("iteration_tokens_total",)),
    Row(  # tokens since 0.9.0, blocks before: the ratio of the two is right either way
        metric="prefix_cache_queries",
        shape=Shape.COUNTER,
        families=(
            "prefix_cache_queries",  # 0.9.2 on
            "gpu_prefix_cache_queries",  # to 0.11
        ),
    ),
    Row(
        metric="prefix_cache_hits",
        shape=Shape.COUNTER,
        families=("prefix_cache_hits", "gpu_prefix_cache_hits"),
    ),
    Row(metric="requests_running", shape=Shape.GAUGE, families=("num_requests_running",)),
    Row(metric="requests_waiting", shape=Shape.GAUGE, families=("num_requests_waiting",)),
    Row(
        metric="kv_cache_usage",
        shape=Shape.GAUGE,
        families=(
            "kv_cache_usage_perc",  # 0.9.2 on; a fraction, whatever it is called
            "gpu_cache_usage_perc",  # to 0.11
        ),
    ),
)


def names_of(row: Row) -> tuple[str, ...]:
    """The full names a family of this row may have, best first."""
    endings = ("_total", "") if row.shape is Shape.COUNTER else ("",)
    return tuple(
        prefix + family + ending
        for family in row.families
        for prefix in PREFIXES
        for ending in endings
    )


def wanted(table: Iterable[Row] = TABLE) -> frozenset[str]:
    """The name of every sample that the table reads."""
    names = {START_TIME}
    for row in table:
        for name in names_of(row):
            names.update((name, f"{name}_created"))
            if row.shape in (Shape.LATENCY, Shape.EVENTS):
                names.update(name + part for part in _PARTS)
        if row.without:
            names.update(prefix + row.without + part for prefix in PREFIXES for part in _PARTS)
    return frozenset(names)
