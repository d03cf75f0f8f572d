"""What the rules look at: one frozen value per question. What nobody measured is not in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from alerts.diagnosis.facts import Aborted, Arrived, Restarted, Slowed, Stood
from domain.request import Stage

__all__ = ["Baseline", "Places", "Signal", "Signals"]

Places = Mapping[str, float]
"""A number for each place (replica, region, GPU, hop); where order matters, in order."""


class Baseline(StrEnum):
    """What "before" means."""

    WEEK = "the same hour last week"
    CALM = "the calm before"
    NONE = ""


class Signal(StrEnum):
    """The names of what can be measured, as they are told where they are missing."""

    # requests and where their time goes
    REQUESTS = "requests"
    TTFT_P50 = "TTFT (P50)"
    TTFT_P99 = "TTFT (P99)"
    TTFT_MEAN = "TTFT (mean)"
    E2E_P50 = "E2E (P50)"
    ITL_P99 = "ITL (P99)"
    TTFT_PROMISE = "an objective on TTFT"
    ITL_PROMISE = "an objective on ITL or TPOT"
    STAGE_SECONDS = "stage seconds"
    NETWORK_P50 = "network (P50)"
    QUEUE_P95 = "queue (P95)"
    QUEUE_P99 = "queue (P99)"
    PREFILL_P95 = "prefill (P95)"
    HANDOVER_P50 = "kv_transfer (P50)"
    SERVED_MEAN = "prefill and decode (mean)"
    CLIENT_E2E_MEAN = "client E2E (mean)"
    CLIENT_TTFT = "client TTFT"
    ENGINE_TTFT = "engine TTFT"
    CLIENT_ITL = "client ITL"
    ENGINE_ITL = "engine ITL"
    OUTPUT_P50 = "output tokens (P50)"
    OUTPUT_MEAN = "output tokens (mean)"
    LONG_PROMPT_SHARE = "share of tokens in long prompts"
    POOL_SHAPE = "role of the pool"
    # load
    ARRIVALS = "arrivals"
    PROMPT_TOKENS = "vllm:prompt_tokens_total"
    RATE = "requests per second"
    SERVICE_TIME = "mean generation time"
    IN_FLIGHT = "requests in flight"
    IN_FLIGHT_SPREAD = "steadiness of requests in flight"
    WAITING = "vllm:num_requests_waiting"
    RUNNING_P50 = "vllm:num_requests_running"
    SLOTS = "slots per instance"
    INSTANCES = "instances"
    STREAMS = "concurrent streams"
    WAITING_BY = "vllm:num_requests_waiting by replica"
    RUNNING_BY = "vllm:num_requests_running by replica"
    KNEE = "throughput by batch size"
    PROVIDER_KNEE = "a concurrency sweep (probe ladder)"
    # caches
    KV_USAGE = "vllm:kv_cache_usage_perc"
    DECODE_KV = "KV usage of the decode pool"
    STRANDED_KV = "KV usage of prefill replicas without requests"
    PREEMPTIONS = "vllm:num_preemptions_total"
    PREEMPTED_MINUTES = "minutes in a row with preemptions"
    PREFIX_HITS = "vllm:prefix_cache_hits_total"
    TRANSFERS_FAILED = "failed KV transfers"
    # GPUs
    GPU_ACTIVE = "GPU activity (SM or tensor)"
    GPU_BUSY = "GPU utilisation"
    PREFILL_LOAD = "load of the prefill pool"
    LOAD = "load"
    LOAD_WEEK = "load ratio over 7 days"
    CLOCK_SHARE = "SM clock by GPU"
    THROTTLED = "throttle reasons by GPU"
    THROTTLE_EFFECT = "latency under throttling at like load"
    SPEED = "speed by replica at like load"
    MEMORY_SHARE = "GPU memory by GPU"
    PAGED = "host paging or an out-of-memory log line"
    XIDS = "XIDs by GPU"
    CPU_CORE = "CPU of the API server's busiest core"
    PROFILE = "the configured batch profile"
    # edge and platform
    HOPS = "share of the first chunk by hop"
    CHUNKS = "chunks per answer"
    PROBE_LUMPS = "buffering seen by the probe"
    ABORTED = "aborted or timed-out answers"
    LAST_GAPS = "silence before the end of cut answers (stagewatch.itl_max_s)"
    BYTE_RATE = "bytes over time"
    NETWORK_BY_REGION = "network by the user's region"
    QUOTA_SHARE = "share of HTTP 429"
    QUOTA_COUNT = "throttles of the managed endpoint"
    PROVIDER_TAIL = "the provider's latency"
    STARTED_LATE = "instance events"
    AGES = "age of replicas"
    COLD_TTFT = "TTFT by age of the replica"
    ENDED = "SIGTERM of workers"
    COST_USE = "use over a day"
    # the engines themselves
    STOOD_STILL = "conditions of engines"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signals:
    """Everything that is known of one service in one window.

    `numbers` are of the window, `before` the same of the baseline; `places` and `places_before` by
    place. `absent` says why a signal is missing, where that is known. `slow` is whether anything
    is wrong with latency or answers at all; `guilty` is the stage that grew most. `clients_wait` is
    whether what clients see is worse than promised, None where nothing was promised to them.
    `pools`: where each stage is worst; of the stages in `lone` that is one replica that stands out
    among its like.
    """

    numbers: Mapping[Signal, float] = field(default_factory=dict)
    before: Mapping[Signal, float] = field(default_factory=dict)
    places: Mapping[Signal, Places] = field(default_factory=dict)
    places_before: Mapping[Signal, Places] = field(default_factory=dict)
    slowed: Sequence[Slowed] | None = None
    speeds: Sequence[Slowed] | None = None
    stood: Sequence[Stood] | None = None
    aborted: Sequence[Aborted] | None = None
    restarted: Sequence[Restarted] | None = None
    arrived: Sequence[Arrived] | None = None
    absent: Mapping[Signal, str] = field(default_factory=dict)
    baseline: Baseline = Baseline.NONE
    slow: bool = True
    guilty: Stage | None = None
    clients_wait: bool | None = None
    lone: frozenset[Stage] = frozenset()
    pools: Mapping[Stage, str] = field(default_factory=dict)

    def __getitem__(self, signal: Signal) -> float:
        return self.numbers[signal]

    def get(self, signal: Signal) -> float | None:
        return self.numbers.get(signal)

    def by(self, signal: Signal) -> Places:
        """By place; empty where nobody told."""
        return self.places.get(signal, {})

    def has(self, signal: Signal) -> bool:
        if signal in self.numbers or signal in self.places:
            return True
        if signal is Signal.LAST_GAPS:
            cut = self.aborted
            return cut is not None and (not cut or any(c.last_gap_s is not None for c in cut))
        lists = {
            Signal.THROTTLE_EFFECT: self.slowed,
            Signal.SPEED: self.speeds,
            Signal.STOOD_STILL: self.stood,
            Signal.ABORTED: self.aborted,
            Signal.ENDED: self.restarted,
            Signal.COLD_TTFT: self.arrived,
        }
        return lists.get(signal) is not None

    def had(self, signal: Signal) -> bool:
        return signal in self.before or signal in self.places_before

    def growth(self, signal: Signal) -> float | None:
        """Now over before; None where either is unknown, or nothing was before."""
        now, then = self.numbers.get(signal), self.before.get(signal)
        return now / then if now is not None and then else None
