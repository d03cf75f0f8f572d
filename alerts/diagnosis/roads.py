"""By which road each signal comes: what sends it, or what somebody has to set, push or report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from alerts.diagnosis.signals import Signal

__all__ = ["ASKED_OF_PEOPLE", "ROADS"]

S = Signal
_SPANS = "spans of servers"
_STAGES = "spans, or an engine's page"
_CLIENTS = "spans of clients, or a probe"
_PAGE = "an engine's page"
_GPU = "the GPU exporter, with who runs on which GPU"
_CLOUDWATCH = "the CloudWatch exporter"
_PROMISE = "an objective on it"
_EVENT = "`POST /api/v1/events`"

ASKED_OF_PEOPLE: Final[Mapping[Signal, str]] = {
    S.SLOTS: "set `slots` of the engine's target",
    S.PROFILE: "set `batch_profile` of the engine's target, and `use_case` on requests",
    S.PAGED: f"report {_EVENT} with kind `oom`, or push `stagewatch_host_memory_kills_total`",
    S.BYTE_RATE: "push `stagewatch_late_byte_rate_bytes`",
    S.HOPS: "send spans of clients and engines, or push `stagewatch_first_chunk_share_ratio`",
    S.CHUNKS: "push `stagewatch_chunks_per_answer`",
    S.LAST_GAPS: "put `stagewatch.itl_max_s` on the spans of clients",
    S.PROVIDER_KNEE: "climb `stagewatch probe ladder --endpoint … --service …`",
    S.STARTED_LATE: f"report {_EVENT} with kind `scale-out` and the replica",
    S.ENDED: f"report {_EVENT} with kind `sigterm` and the replica",
    S.QUOTA_SHARE: "send spans with `error.type` 429, or probe it",
    S.PROVIDER_TAIL: "watch the endpoint with the CloudWatch exporter",
    S.CPU_CORE: "read the engine's page, or push `stagewatch_process_cpu_seconds_total`",
    S.LOAD_WEEK: "set `role: decode` on its targets, and keep a week",
}
"""What no machine tells by itself; said wherever it is missing."""

ROADS: Final[Mapping[Signal, str]] = {
    **ASKED_OF_PEOPLE,
    **dict.fromkeys(
        (S.REQUESTS, S.TTFT_P50, S.TTFT_P99, S.TTFT_MEAN, S.E2E_P50, S.ITL_P99, S.STAGE_SECONDS),
        _STAGES,
    ),
    **dict.fromkeys(
        (S.QUEUE_P95, S.QUEUE_P99, S.PREFILL_P95, S.HANDOVER_P50, S.SERVED_MEAN, S.SERVICE_TIME),
        _STAGES,
    ),
    **dict.fromkeys((S.ENGINE_TTFT, S.ENGINE_ITL, S.RATE, S.OUTPUT_MEAN), _STAGES),
    **dict.fromkeys((S.TTFT_PROMISE, S.ITL_PROMISE), _PROMISE),
    **dict.fromkeys(
        (S.NETWORK_P50, S.CLIENT_E2E_MEAN, S.CLIENT_TTFT, S.CLIENT_ITL, S.NETWORK_BY_REGION),
        _CLIENTS,
    ),
    S.PROBE_LUMPS: "a probe",
    **dict.fromkeys((S.OUTPUT_P50, S.LONG_PROMPT_SHARE, S.SPEED, S.ABORTED), _SPANS),
    S.POOL_SHAPE: "`role` of targets or spans",
    **dict.fromkeys(
        (S.ARRIVALS, S.PROMPT_TOKENS, S.IN_FLIGHT, S.IN_FLIGHT_SPREAD, S.WAITING, S.WAITING_BY),
        _PAGE,
    ),
    **dict.fromkeys((S.RUNNING_P50, S.RUNNING_BY, S.INSTANCES, S.STREAMS, S.KNEE), _PAGE),
    **dict.fromkeys((S.KV_USAGE, S.PREEMPTIONS, S.PREEMPTED_MINUTES, S.PREFIX_HITS), _PAGE),
    **dict.fromkeys((S.TRANSFERS_FAILED, S.STOOD_STILL, S.AGES, S.COLD_TTFT), _PAGE),
    **dict.fromkeys(
        (S.DECODE_KV, S.STRANDED_KV, S.PREFILL_LOAD, S.LOAD),
        "an engine's page, with `role` of its target",
    ),
    **dict.fromkeys(
        (S.GPU_ACTIVE, S.GPU_BUSY, S.CLOCK_SHARE, S.THROTTLED, S.MEMORY_SHARE, S.XIDS), _GPU
    ),
    S.THROTTLE_EFFECT: f"{_GPU}, {_SPANS} and {_PAGE}",
    S.COST_USE: f"{_GPU}, for a day",
    S.QUOTA_COUNT: _CLOUDWATCH,
}
"""Every signal has one; the page of the rules says which."""
