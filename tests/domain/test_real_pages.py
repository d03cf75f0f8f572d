"""A real vLLM under overload: the pages' pairs hold what its spans say, and are tight."""

import json
import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from domain.distribution import add_all
from tests.pages import page_interval
from tests.paths import RECORDED

OVERLOAD = RECORDED / "vllm" / "overload"
PROTOTYPE = json.loads((RECORDED / "bounded-prototype" / "measured.json").read_text())
INTERVALS = json.loads((OVERLOAD / "intervals.json").read_text())["intervals"]
FAMILIES = {
    "ttft": "vllm:time_to_first_token_seconds",
    "queue": "vllm:request_queue_time_seconds",
    "prefill": "vllm:request_prefill_time_seconds",
    "decode": "vllm:request_decode_time_seconds",
    "e2e": "vllm:e2e_request_latency_seconds",
}
CHECKED = ("queue", "prefill", "decode", "e2e")
CHECKS = [
    (number, stage, q)
    for number, interval in enumerate(INTERVALS)
    for stage in CHECKED
    if interval[stage]
    for q in (0.5, 0.9, 0.99)
]


def interval_of(interval, stage):
    return page_interval(OVERLOAD / interval["from"], OVERLOAD / interval["to"], FAMILIES[stage])


def true_quantile(values_s, q):
    return sorted(values_s)[math.ceil(Fraction(str(q)) * len(values_s)) - 1]


@pytest.fixture(scope="module")
def pairs():
    return {
        (number, stage): interval_of(interval, stage).pair()
        for number, interval in enumerate(INTERVALS)
        for stage in CHECKED
    }


@pytest.fixture(scope="module")
def whole():
    """All pages added up, per stage: with and without the sums."""
    pages = sorted(OVERLOAD.glob("[0-9][0-9]-*.prom"))
    steps = list(pairwise(pages))
    found = {
        stage: [page_interval(*step, name) for step in steps] for stage, name in FAMILIES.items()
    }
    return {
        (stage, with_sum): add_all(
            part.pair(with_sum=with_sum).distribution for part in parts if part is not None
        )
        for stage, parts in found.items()
        for with_sum in (True, False)
    }


def test_there_are_216_checks():
    assert len(CHECKS) == 216


@pytest.mark.parametrize(("number", "stage", "q"), CHECKS)
def test_the_exact_value_lies_inside_the_pages_interval(pairs, number, stage, q):
    values_s = INTERVALS[number][stage]
    pair = pairs[number, stage].distribution

    found = pair.quantile(q)

    assert pair.n == len(values_s)
    assert found.low_s <= true_quantile(values_s, q) <= found.high_s


@pytest.mark.parametrize("stage", CHECKED)
def test_the_sums_of_a_healthy_engine_are_all_believed(pairs, stage):
    assert all(pair.sum_used for (_, of), pair in pairs.items() if of == stage)


@pytest.mark.parametrize("stage", CHECKED)
def test_the_means_are_those_of_the_exact_values(pairs, stage):
    for number, interval in enumerate(INTERVALS):
        pair = pairs[number, stage].distribution
        if interval[stage]:
            assert pair.mean_s == pytest.approx(np.mean(interval[stage]), rel=1e-9)


@pytest.mark.parametrize("stage", CHECKED)
def test_the_whole_run_is_inside_too(whole, stage):
    values_s = [value for interval in INTERVALS for value in interval[stage]]
    pair = whole[stage, True]

    assert pair.n == len(values_s) == 134
    for q in (0.5, 0.9, 0.95, 0.99):
        found = pair.quantile(q)
        assert found.low_s <= true_quantile(values_s, q) <= found.high_s


@pytest.mark.parametrize("with_sum", [True, False])
@pytest.mark.parametrize("row", PROTOTYPE, ids=lambda row: f"{row['stage']}-{row['q']}")
def test_no_interval_is_wider_than_the_prototypes(whole, row, with_sum):
    pair = whole[row["stage"], with_sum]
    low_s, high_s = row["with_sums_s" if with_sum else "buckets_s"]
    printed_to_s = 0.00005

    found = pair.quantile(row["q"])

    assert pair.n == row["n"]
    assert found.low_s >= low_s - printed_to_s
    assert found.high_s <= high_s + printed_to_s
