"""Random healthy hours: nothing is accused, whatever the load and the size of the fleet."""

import numpy as np
import pytest

from alerts.diagnosis.facts import Arrived, Slowed
from alerts.diagnosis.judgement import judge
from alerts.diagnosis.signals import Signal
from collector.reader import StoreReader
from tests.alerts.diagnosis.hours import LIVES, blamed, end_s, written
from tests.alerts.diagnosis.situations import situation

S = Signal
ROOTS = {"A8", "B6", "B9", "C1", "C2", "C4", "D1", "D2", "D3", "D4", "D6", "D7", "D8"} | {
    f"E{number}" for number in (1, 3, 4, 5, 6, 9, 10, 12, 13, 14)
}


def healthy(seed, *, slow):
    """All signals as they are when all is well, each a little different from before."""
    draw = np.random.default_rng(seed)
    replicas = [f"r{index}" for index in range(draw.integers(2, 12))]
    ttft_s, token_s = draw.uniform(0.05, 0.4), draw.uniform(0.01, 0.04)
    numbers = {
        S.REQUESTS: draw.integers(20, 20_000),
        S.TTFT_P50: ttft_s,
        S.TTFT_P99: ttft_s * draw.uniform(1.5, 4),
        S.TTFT_MEAN: ttft_s * 1.2,
        S.TTFT_PROMISE: 2.0,
        S.E2E_P50: draw.uniform(2, 9),
        S.ITL_P99: token_s * 1.5,
        S.ITL_PROMISE: 0.08,
        S.ENGINE_ITL: token_s,
        S.ENGINE_TTFT: ttft_s,
        S.CLIENT_TTFT: ttft_s + 0.05,
        S.QUEUE_P95: draw.uniform(0, 0.05),
        S.QUEUE_P99: draw.uniform(0, 0.09),
        S.PREFILL_P95: draw.uniform(0.05, 0.3),
        S.ARRIVALS: draw.uniform(0.5, 50),
        S.PROMPT_TOKENS: draw.uniform(1e3, 1e5),
        S.WAITING: draw.uniform(0, 0.5),
        S.RUNNING_P50: draw.uniform(2, 30),
        S.KV_USAGE: draw.uniform(0.05, 0.8),
        S.DECODE_KV: draw.uniform(0.05, 0.7),
        S.PREFILL_LOAD: draw.uniform(0.2, 0.7),
        S.PREEMPTIONS: 0,
        S.PREFIX_HITS: draw.uniform(0.1, 0.7),
        S.TRANSFERS_FAILED: 0,
        S.GPU_ACTIVE: draw.uniform(0.3, 0.85),
        S.CPU_CORE: draw.uniform(0.1, 0.8),
        S.GPU_BUSY: draw.uniform(0.5, 1.0),
        S.OUTPUT_MEAN: draw.uniform(50, 500),
    }
    return situation(
        numbers,
        before={name: value * draw.uniform(0.85, 1.15) for name, value in numbers.items()},
        places={
            S.WAITING_BY: {name: float(draw.integers(0, 4)) for name in replicas},
            S.KV_USAGE: {name: draw.uniform(0.05, 0.8) for name in replicas},
            S.THROTTLED: {f"GPU-{name}": draw.uniform(0, 0.03) for name in replicas},
            S.XIDS: {"GPU-r0 XID 13": 1.0},
            S.NETWORK_BY_REGION: {"eu": 0.01, "us": 0.08, "ap": 0.16},
        },
        places_before={S.NETWORK_BY_REGION: {"eu": 0.011, "us": 0.078, "ap": 0.158}},
        speeds=[_alike(name, draw) for name in replicas],
        arrived=[Arrived(place=n, age_s=9e4, ttft_s=ttft_s, median_s=ttft_s) for n in replicas],
        aborted=[],
        stood=[],
        restarted=[],
        slow=slow,
    )


def _alike(name, draw):
    factor = draw.uniform(0.97, 1.03)
    return Slowed(
        place=name, factor=factor, low=factor - 0.04, high=factor + 0.04, requests=900, others=4000
    )


@pytest.mark.parametrize("seed", range(50))
def test_where_a_promise_breaks_for_a_reason_nobody_measures_no_root_is_invented(seed):
    named = {each.rule for each in judge(healthy(seed, slow=True)).causes}

    assert not named & ROOTS


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """Fifty hours of restarts, deploys, nights, waves and long prompts, through the real store."""
    folder = tmp_path_factory.mktemp("hours")
    hours = written(folder, range(50))
    reader = StoreReader(folder, now=lambda: float(end_s()))
    yield reader, hours
    reader.close()


def test_nobody_is_blamed_for_fifty_healthy_hours(lived):
    reader, hours = lived

    assert {hour.life for hour in hours} == set(LIVES)
    assert {h.service: blamed(reader, h, paged=False) for h in hours} == {
        hour.service: () for hour in hours
    }


def test_of_a_page_without_a_reason_nothing_is_sure(lived):
    reader, hours = lived
    told = {h.service: blamed(reader, h, paged=True) for h in hours[::5]}

    assert not [each for causes in told.values() for each in causes if each.confidence == "high"]
