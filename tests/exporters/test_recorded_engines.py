"""Real vLLM pages and those of its own metric code in every version: the truth lies inside."""

import json
import math
from fractions import Fraction

import pytest

from tests.exporters.pages_of import (
    ENGINES,
    NOTHING_YET,
    engine_page,
    from_start,
    increments,
    latency,
    level,
    read_folder,
    scrapes,
    total,
)
from tests.paths import RECORDED

OVERLOAD = RECORDED / "vllm" / "overload"
INTERVALS = json.loads((OVERLOAD / "intervals.json").read_text())["intervals"]
PROTOTYPE = json.loads((RECORDED / "bounded-prototype" / "measured.json").read_text())
STAGES = ("queue", "prefill", "decode", "e2e")
AGG = ("0.8.5", "0.10.2", "0.12.0", "0.16.0", "0.33.0")


@pytest.fixture(scope="module")
def overload():
    return read_folder(OVERLOAD, replica="r0")


def of_page(name, **target):
    (reading,) = scrapes(NOTHING_YET, (ENGINES / f"{name}.prom").read_text(), **target)
    return reading


def holds(pair, values_s):
    """Every value of every rank lies in the interval of its rank."""
    assert pair.n == len(values_s)
    for rank, value in enumerate(sorted(values_s), start=1):
        found = pair.quantile(Fraction(rank, len(values_s)))
        assert found.low_s <= value <= found.high_s


@pytest.mark.parametrize("number", range(len(INTERVALS)))
def test_every_value_of_every_scrape_interval_lies_inside_its_pair(overload, number):
    interval, reading = INTERVALS[number], overload[number + 1]

    for stage in STAGES:
        pair = latency(reading, stage)
        if interval[stage]:
            holds(pair, interval[stage])
            for edge in (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0):
                count = sum(value <= edge for value in interval[stage])
                assert pair.at_most(edge) == (count, count)
            assert pair.sum_s == pytest.approx(math.fsum(interval[stage]), rel=1e-9)
        else:
            assert pair is None


@pytest.mark.parametrize("row", PROTOTYPE, ids=lambda row: f"{row['stage']}-{row['q']}")
def test_all_pages_together_are_no_wider_than_the_prototype(overload, row):
    pair = total(overload, row["stage"])
    found = pair.quantile(row["q"])

    assert pair.n == row["n"]
    assert round(found.low_s, 4) >= row["with_sums_s"][0]
    assert round(found.high_s, 4) <= row["with_sums_s"][1]


def test_started_less_finished_are_those_who_went_away(overload):
    started = sum(increments(each, "requests_started") or 0 for each in overload)
    finished = sum(increments(each, "requests_finished") or 0 for each in overload)

    assert (started, finished) == (144, 134)


def test_counters_of_the_overload_are_those_of_its_readme(overload):
    def sum_of(name):
        return sum(increments(each, name) or 0 for each in overload)

    assert sum_of("prompt_tokens") == 67_825
    assert sum_of("generation_tokens") == 19_233
    assert sum_of("preemptions") == 39
    assert sum_of("engine_steps") == 4662
    assert sum_of("prefix_cache_hits") == 18_304
    assert not any(sum_of(name) for name in ("refused_sums", "refused_families", "schema_drift"))


def test_finish_reasons_are_kept_apart(overload):
    by_reason = [increments(each, "requests_finished", by="finish_reason") for each in overload]

    assert sum(each.get("length", 0) for each in by_reason) == 134
    assert not any("abort" in each for each in by_reason)
    assert sum(increments(each, "requests_cancelled") or 0 for each in overload) == 0


def test_what_the_engine_aborted_is_cancelled_and_what_broke_has_failed():
    reading = from_start(engine_page("vllm-0.33.0-abort"))

    assert increments(reading, "requests_started") == 9
    assert increments(reading, "requests_finished") == 9
    assert increments(reading, "requests_cancelled") == 1
    assert increments(reading, "requests_failed") == 0


def test_the_default_run_has_the_means_of_its_readme():
    readings = read_folder(RECORDED / "vllm" / "default")

    means_ms = {
        name: total(readings, name).mean_s * 1000
        for name in ("ttft", "itl", "queue", "prefill", "decode", "e2e")
    }

    assert means_ms == pytest.approx(
        {
            "ttft": 33.39,
            "itl": 5.89,
            "queue": 0.02,
            "prefill": 26.26,
            "decode": 212.69,
            "e2e": 246.03,
        },
        abs=0.006,
    )


def test_a_prefill_engine_tells_queue_and_prefill_and_nothing_of_the_users():
    readings = read_folder(RECORDED / "vllm-disagg", "*-prefill.prom", replica="p0", role="prefill")

    assert {one.metric for each in readings for one in each.latencies} == {"queue", "prefill"}
    assert total(readings, "prefill").n == 40
    assert total(readings, "prefill").mean_s == pytest.approx(0.111063, abs=1e-6)
    told = {one.metric for each in readings for one in each.increments}
    assert not told & {"requests_started", "requests_finished", "generation_tokens"}


def test_a_decode_engine_tells_queue_decode_itl_and_tpot():
    readings = read_folder(RECORDED / "vllm-disagg", "*-decode.prom", replica="d0", role="decode")

    metrics = {one.metric for each in readings for one in each.latencies}
    assert metrics == {"queue", "decode", "itl", "tpot"}
    assert total(readings, "decode").n == 40
    assert total(readings, "decode").mean_s == pytest.approx(0.405454, abs=1e-6)
    assert sum(increments(each, "requests_started") or 0 for each in readings) == 40


def test_a_decode_engine_counts_only_the_prompt_tokens_it_computed():
    readings = read_folder(RECORDED / "vllm-disagg", "*-decode.prom", replica="d0", role="decode")

    assert sum(increments(each, "prompt_tokens") or 0 for each in readings) == 2472


@pytest.mark.parametrize("version", AGG)
def test_every_version_gives_the_same_answer(version):
    reading = of_page(f"vllm-{version}-agg")
    truth = json.loads((ENGINES / f"vllm-{version}-agg.truth.json").read_text())

    for metric in ("ttft", "itl", "e2e", "queue", "prefill", "decode"):
        pair = latency(reading, metric)
        assert pair.n == len(truth[metric])
        assert pair.sum_s == pytest.approx(math.fsum(truth[metric]), rel=1e-5)
        for q in (0.5, 0.95, 0.99):
            value = sorted(truth[metric])[math.ceil(Fraction(str(q)) * pair.n) - 1]
            assert pair.quantile(q).low_s <= value <= pair.quantile(q).high_s


@pytest.mark.parametrize("version", AGG)
def test_old_and_new_names_alive_together_count_once(version):
    reading = of_page(f"vllm-{version}-agg")

    assert latency(reading, "itl").n == 1900
    assert increments(reading, "prefix_cache_queries") > 0
    hits, queries = (increments(reading, f"prefix_cache_{name}") for name in ("hits", "queries"))
    assert hits / queries == pytest.approx(0.2)
    assert level(reading, "kv_cache_usage") is not None
    assert increments(reading, "requests_finished") == 100


def test_tpot_exists_from_0_11_on():
    assert latency(of_page("vllm-0.10.2-agg"), "tpot") is None
    assert latency(of_page("vllm-0.12.0-agg"), "tpot").n == 100


def test_one_token_answers_have_no_tpot():
    reading = of_page("vllm-0.33.0-prefill")

    assert latency(reading, "tpot") is None
    assert latency(reading, "itl") is None
    assert latency(reading, "ttft").mean_s == pytest.approx(0.215)


def test_the_phantom_tpot_of_an_aborted_request_is_taken_out():
    reading = of_page("vllm-0.33.0-abort")

    assert latency(reading, "tpot").n == 9
    assert latency(reading, "queue").n == 10
    assert latency(reading, "queue").sum_s is None
    assert increments(reading, "refused_sums", by="reason")["queue"] == 1
    assert increments(reading, "requests_started") == 9


def test_speculative_decoding_shows_steps_and_tokens_apart():
    reading = of_page("vllm-0.33.0-specdec")

    assert latency(reading, "itl").n == 660
    assert latency(reading, "itl").mean_s == pytest.approx(0.030)
    assert latency(reading, "tpot").mean_s == pytest.approx(0.010)


def test_no_page_gives_a_value_beyond_reason(overload):
    values = [one.value for each in overload for one in each.levels]
    values += [one.by for each in overload for one in each.increments]

    assert max(values) < 1e9
