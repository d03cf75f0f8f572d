"""For every rule a situation in which it speaks, and one change after which it must not."""

from dataclasses import replace

from alerts.diagnosis.facts import Aborted, Arrived, Restarted, Slowed, Stood
from alerts.diagnosis.signals import Baseline, Signal, Signals

__all__ = ["SITUATIONS", "situation"]

S = Signal
PROMISED = {S.TTFT_PROMISE: 1.5, S.ITL_PROMISE: 0.04}
SLOW_FIRST = {**PROMISED, S.REQUESTS: 800, S.TTFT_P99: 3.0, S.ITL_P99: 0.03}
STREAMS = {S.RATE: 2.0, S.SERVICE_TIME: 8.0, S.INSTANCES: 2}
FULL = {**STREAMS, S.SLOTS: 4, S.IN_FLIGHT: 8, S.IN_FLIGHT_SPREAD: 0.02, S.WAITING: 30}
SPLIT = {"p0": 83.0, "p1": 0.0, "p2": 0.0}
SLOW = Slowed(place="r3", factor=1.12, low=1.08, high=1.16, requests=300, others=2000)
HELD = replace(SLOW, gpu="GPU-3", cause="hw_thermal", share=0.8)
STALLED = Stood(place="r1", sentence="r1 of chat has stood still.", next_step="restart it")


def situation(numbers=(), *, before=(), places=(), places_before=(), **more):
    """Signals; with a baseline where something was before."""
    then = bool(before) or bool(places_before)
    return Signals(
        numbers=dict(numbers),
        before=dict(before),
        places=dict(places),
        places_before=dict(places_before),
        baseline=Baseline.CALM if then else Baseline.NONE,
        **more,
    )


def numbers(of, **changes):
    """The same with other numbers."""
    return replace(of, numbers={**of.numbers, **{S[name]: v for name, v in changes.items()}})


def placed(of, **changes):
    return replace(of, places={**of.places, **{S[name]: v for name, v in changes.items()}})


def cut(at_s, *, gap_s=None, status=504, many=3):
    return [
        Aborted(duration_s=at_s + i / 100, status=status, last_gap_s=gap_s) for i in range(many)
    ]


A1 = situation(
    {S.TTFT_P50: 0.4, S.E2E_P50: 1.0, S.OUTPUT_P50: 200, S.POOL_SHAPE: 0, S.REQUESTS: 800}
)
A2 = situation({**SLOW_FIRST, S.QUEUE_P95: 1.5, S.PREFILL_P95: 0.2})
A3 = situation({S.QUEUE_P99: 9.0, S.REQUESTS: 800})
A4 = situation({**PROMISED, S.REQUESTS: 800, S.TTFT_P99: 1.0, S.ITL_P99: 0.1})
A5 = situation({S.QUEUE_P95: 1.5, S.PREFILL_P95: 0.2, S.REQUESTS: 800})
A6 = situation({S.CLIENT_E2E_MEAN: 8.0, S.SERVED_MEAN: 2.0, S.REQUESTS: 800})
A7 = situation({S.TTFT_P50: 0.2, S.TTFT_P99: 8.0, S.TTFT_MEAN: 0.59, S.REQUESTS: 300})
A9 = situation({**STREAMS, S.STREAMS: 2})
B1 = situation({**SLOW_FIRST, S.GPU_ACTIVE: 0.95})
B2 = situation({**SLOW_FIRST, S.GPU_BUSY: 0.4})
B3 = situation({S.LOAD_WEEK: 0.3}, slow=False)
B4 = situation({S.LOAD: 0.85})
B5 = situation({S.COST_USE: 0.2}, slow=False)
B6 = situation({**STREAMS, S.RUNNING_P50: 1.0})
B7 = situation({S.KNEE: 0.1, S.ITL_P99: 0.1}, before={S.ITL_P99: 0.05})
B8 = situation({S.PROFILE: 1, S.GPU_BUSY: 0.2})
B9 = situation({S.ARRIVALS: 30.0, S.WAITING: 12}, before={S.ARRIVALS: 5.0})
B10 = situation({S.OUTPUT_MEAN: 300.0, S.REQUESTS: 800}, before={S.OUTPUT_MEAN: 200.0})
C1 = situation(places={S.THROTTLED: {"GPU-3": 0.8}}, slowed=[HELD])
C1_BY_CLOCK = situation(places={S.THROTTLED: {"GPU-3": 0.8}, S.CLOCK_SHARE: {"GPU-3": 0.6}})
C2 = situation(speeds=[SLOW])
C3 = situation({S.PAGED: 1}, places={S.MEMORY_SHARE: {"GPU-1": 0.99}})
C4 = situation(places={S.XIDS: {"GPU-1 XID 79": 1.0}})
D4 = situation({S.CHUNKS: 180}, places={S.HOPS: {"engine": 0.04, "Lambda": 0.96, "gateway": 0.96}})
D6 = situation(
    places={S.NETWORK_BY_REGION: {"us": 0.9, "eu": 0.02}},
    places_before={S.NETWORK_BY_REGION: {"us": 0.08, "eu": 0.02}},
)
D8 = situation(arrived=[Arrived(place="r9", age_s=60, ttft_s=9.0, median_s=0.3)])
E1 = situation(
    {S.PREEMPTIONS: 110, S.REQUESTS: 1000, S.KV_USAGE: 0.99, S.PREFIX_HITS: 0.6},
    before={S.PREFIX_HITS: 0.5},
)
E3 = situation({S.PREFIX_HITS: 0.2, S.PREEMPTIONS: 0}, before={S.PREFIX_HITS: 0.6})
E4 = situation({S.LONG_PROMPT_SHARE: 0.2, S.REQUESTS: 500}, before={S.LONG_PROMPT_SHARE: 0.04})
E5 = situation({S.CPU_CORE: 0.99, S.GPU_BUSY: 0.45, S.CLIENT_ITL: 0.18, S.ENGINE_ITL: 0.039})
E7 = situation(places={S.STRANDED_KV: {"p0": 0.6}})
E8 = situation({S.HANDOVER_P50: 0.197, S.ENGINE_ITL: 0.02})
E9 = situation({S.PREFILL_LOAD: 0.15, S.DECODE_KV: 0.97})
E10 = situation(places={S.WAITING_BY: SPLIT})
E12 = situation(restarted=[Restarted(place="r2", failures=14, first_after_s=5.0)])
E13 = situation(stood=[STALLED])

SITUATIONS = {
    "A1": (A1, numbers(A1, TTFT_P50=0.2)),
    "A2": (A2, numbers(A2, ITL_P99=0.05)),
    "A3": (A3, numbers(A3, QUEUE_P99=0.09)),
    "A4": (A4, numbers(A4, TTFT_P99=2.0)),
    "A5": (A5, numbers(A5, QUEUE_P95=0.55)),
    "A6": (A6, numbers(A6, CLIENT_E2E_MEAN=5.0)),
    "A7": (A7, numbers(A7, TTFT_P99=0.9)),
    "A8": (situation(FULL), situation({**FULL, S.WAITING: 0})),
    "A9": (A9, numbers(A9, STREAMS=15)),
    "B1": (B1, numbers(B1, TTFT_P99=1.0)),
    "B2": (B2, numbers(B2, GPU_BUSY=0.8)),
    "B3": (B3, replace(B3, slow=True)),
    "B4": (B4, numbers(B4, LOAD=0.7)),
    "B5": (B5, replace(B5, slow=True)),
    "B6": (B6, numbers(B6, RUNNING_P50=3.0)),
    "B7": (B7, numbers(B7, KNEE=0.5)),
    "B8": (B8, numbers(B8, PROFILE=0)),
    "B9": (B9, numbers(B9, ARRIVALS=9.0)),
    "B10": (B10, numbers(B10, OUTPUT_MEAN=210.0)),
    "C1": (C1, placed(C1, THROTTLED={"GPU-3": 0.02})),
    "C2": (C2, replace(C2, speeds=[replace(SLOW, low=0.97)])),
    "C3": (C3, numbers(C3, PAGED=0)),
    "C4": (C4, placed(C4, XIDS={"GPU-1 XID 13": 1.0})),
    "D1": (situation(aborted=cut(29.01)), situation(aborted=cut(29.01, status=500))),
    "D2": (situation(aborted=cut(70, gap_s=30.1)), situation(aborted=cut(70, gap_s=12.0))),
    "D3": (situation(aborted=cut(900.0)), situation(aborted=cut(900.0, many=2))),
    "D4": (D4, placed(D4, HOPS={"engine": 0.04, "gateway": 0.05})),
    "D5": (situation({S.BYTE_RATE: 2e6}), situation({S.BYTE_RATE: 9e6})),
    "D6": (D6, placed(D6, NETWORK_BY_REGION={"us": 0.085, "eu": 0.02})),
    "D7": (situation({S.QUOTA_SHARE: 0.03}), situation({S.QUOTA_SHARE: 0.003})),
    "D8": (D8, replace(D8, arrived=[replace(D8.arrived[0], ttft_s=0.5)])),
    "D9": (situation({S.PROVIDER_TAIL: 8.0}), situation({S.PROVIDER_TAIL: 2.0})),
    "D10": (
        situation({S.PROVIDER_KNEE: 16, S.IN_FLIGHT: 30}),
        situation({S.PROVIDER_KNEE: 16, S.IN_FLIGHT: 8}),
    ),
    "E1": (E1, numbers(E1, PREEMPTIONS=5)),
    "E2": (situation({S.KV_USAGE: 0.97}), situation({S.KV_USAGE: 0.6})),
    "E3": (E3, numbers(E3, PREEMPTIONS=9)),
    "E4": (E4, numbers(E4, LONG_PROMPT_SHARE=0.05)),
    "E5": (E5, numbers(E5, CPU_CORE=0.4)),
    "E6": (situation({S.TRANSFERS_FAILED: 2}), situation({S.TRANSFERS_FAILED: 0})),
    "E7": (E7, placed(E7, STRANDED_KV={"p0": 0.1})),
    "E8": (E8, numbers(E8, HANDOVER_P50=0.03)),
    "E9": (E9, numbers(E9, PREFILL_LOAD=0.6)),
    "E10": (E10, placed(E10, WAITING_BY={"p0": 30.0, "p1": 25.0, "p2": 28.0})),
    "E11": (
        situation(places={S.AGES: {"r0": 60.0, "r1": 90.0}}),
        situation(places={S.AGES: {"r0": 6000.0, "r1": 9000.0}}),
    ),
    "E12": (E12, replace(E12, restarted=[Restarted(place="r2", failures=0, first_after_s=0.0)])),
    "E13": (E13, replace(E13, stood=[])),
    "E14": (replace(E13, stood=[replace(STALLED, down=True)]), E13),
}
