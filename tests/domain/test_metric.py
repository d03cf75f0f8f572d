"""Names and numbers of metrics are promises to stores and scripts."""

import re

import pytest

from domain.metric import COUNTERS, GAUGES, LATENCIES, METRICS, Kind
from domain.request import Stage

UNITS = {
    "1": "",
    "s": "_seconds",
    "By": "_bytes",
    "Hz": "_hertz",
    "J": "_joules",
    "W": "_watts",
    "Cel": "_celsius",
}


def test_every_metric_is_of_one_kind():
    assert set(LATENCIES) | set(COUNTERS) | set(GAUGES) == set(METRICS)
    assert len(LATENCIES) + len(COUNTERS) + len(GAUGES) == len(METRICS)


def test_no_number_and_no_full_name_is_used_twice():
    assert len({metric.number for metric in METRICS.values()}) == len(METRICS)
    assert len({metric.full_name for metric in METRICS.values()}) == len(METRICS)


def test_every_stage_is_a_latency():
    assert {stage.value for stage in Stage} <= set(LATENCIES)


@pytest.mark.parametrize("metric", METRICS.values(), ids=METRICS.keys())
def test_a_full_name_says_whose_it_is_and_in_which_unit(metric):
    suffix = {Kind.LATENCY: "_seconds", Kind.COUNTER: "_total", Kind.RATIO: "_ratio"}

    assert re.fullmatch(r"stagewatch_[a-z0-9_]+", metric.full_name)
    assert metric.full_name.endswith(suffix.get(metric.kind, ""))
    assert metric.help.endswith(".")
    assert UNITS[metric.unit] in metric.full_name


def test_gpus_have_numbers_of_their_own():
    assert {each.number // 50 for each in METRICS.values() if each.of_gpu} == {6, 7, 8}
    assert all(each.name.startswith("gpu_") is each.of_gpu for each in METRICS.values())


def test_gpus_and_exports_under_way_have_nothing_to_do_with_requests():
    others = {each.name for each in METRICS.values() if not each.of_requests and not each.of_gpu}

    costs = {"cloudwatch_spending", "cloudwatch_allowance"}
    assert others == {"exports_dropped", "spooled_bytes", "spooled_age", *costs}
    assert not any(each.of_requests for each in METRICS.values() if each.of_gpu)


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("ttft", 1),
        ("decode", 11),
        ("requests_started", 101),
        ("up", 201),
        ("kv_cache_usage", 204),
        ("gpu_up", 304),
        ("gpu_energy", 401),
    ],
)
def test_numbers_in_stores_never_change(name, number):
    assert METRICS[name].number == number
