"""The page of every engine: the stages and the values that its source note says are right."""

import json
import math
from fractions import Fraction

import pytest

from tests.exporters.pages_of import (
    ENGINES,
    engine_page,
    from_start,
    increments,
    latency,
    level,
    read_folder,
    total,
)
from tests.paths import RECORDED

STAGES = ("ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode", "kv_transfer", "overhead")
HOLES = {  # the stages of each page, and what it cannot tell
    "dynamo-frontend-0.7-1": ("ttft itl e2e", "tpot"),
    "dynamo-worker-sglang-0.5-truncated-1": ("e2e", "ttft itl tpot decode kv_cache_usage"),
    "dynamo-worker-trtllm-1.x-1": ("ttft tpot e2e queue", "itl prefill decode kv_cache_usage"),
    "litellm-1.110.2-1": ("ttft e2e queue overhead", "itl tpot"),
    "llamacpp-docker-model-runner-1": (
        "",
        "ttft itl tpot e2e queue prefill decode kv_cache_usage",
    ),
    "lmdeploy-HEAD-1": ("ttft itl tpot e2e queue prefill decode", ""),
    "sglang-0.4.1-unified": ("ttft itl e2e", "tpot queue prefill decode"),
    "sglang-0.5.3-unified": ("ttft itl e2e queue prefill", "tpot decode"),
    "sglang-0.5.12-unified": ("ttft itl e2e queue prefill", "tpot decode"),
    "sglang-0.5.23-unified": ("ttft itl tpot e2e queue prefill", "decode"),
    "tgi-3.3.7-synthetic-1": ("e2e queue", "ttft itl tpot prefill decode kv_cache_usage"),
    "triton-tensorrtllm-1": ("", "ttft itl tpot prefill decode"),
    "vllm-0.5.1-zero-ttft-1": ("ttft", "itl tpot e2e queue prefill decode kv_cache_usage"),
    "vllm-0.8.5-agg": ("ttft itl e2e queue prefill decode", "tpot"),
    "vllm-0.10.2-agg": ("ttft itl e2e queue prefill decode", "tpot"),
    "vllm-0.11.1-multiproc-pid-1": ("", "ttft itl tpot e2e queue prefill decode"),
    "vllm-0.12.0-agg": ("ttft itl tpot e2e queue prefill decode", ""),
    "vllm-0.33.0-agg": ("ttft itl tpot e2e queue prefill decode", ""),
}
MEANS_S = [
    ("dynamo-frontend-0.7-1", "ttft", 1, 1.56257),
    ("dynamo-frontend-0.7-1", "itl", 299, 0.002049),
    ("dynamo-frontend-0.7-1", "e2e", 1, 2.177647),
    ("dynamo-worker-sglang-0.5-truncated-1", "e2e", 1, 2.173055),
    ("dynamo-worker-trtllm-1.x-1", "ttft", 2, 0.03398),
    ("dynamo-worker-trtllm-1.x-1", "tpot", 2, 0.002779),
    ("dynamo-worker-trtllm-1.x-1", "queue", 2, 0.005908),
    ("dynamo-worker-trtllm-1.x-1", "e2e", 2, 0.865),
    ("litellm-1.110.2-1", "ttft", 10, 0.5),
    ("litellm-1.110.2-1", "e2e", 10, 3.02),
    ("litellm-1.110.2-1", "queue", 10, 0.02),
    ("litellm-1.110.2-1", "overhead", 10, 0.012),
    ("lmdeploy-HEAD-1", "ttft", 20, 0.08),
    ("lmdeploy-HEAD-1", "itl", 20, 0.03),
    ("lmdeploy-HEAD-1", "tpot", 20, 0.015),
    ("lmdeploy-HEAD-1", "e2e", 20, 1.2),
    ("lmdeploy-HEAD-1", "queue", 20, 0.006),
    ("lmdeploy-HEAD-1", "prefill", 20, 0.07),
    ("lmdeploy-HEAD-1", "decode", 20, 1.03),
    ("sglang-0.4.1-unified", "itl", 500, 0.012),
    ("sglang-0.5.12-unified", "itl", 1000, 0.012),
    ("sglang-0.5.23-unified", "tpot", 50, 0.012),
    ("sglang-0.5.23-unified", "prefill", 50, 0.05776),
    ("tgi-3.3.7-synthetic-1", "queue", 100, 0.07785),
    ("tgi-3.3.7-synthetic-1", "e2e", 100, 1.07885),
]
SGLANG = ("0.4.1", "0.5.3", "0.5.12", "0.5.23")


def pairs(reading):
    return {one.metric for one in reading.latencies}


@pytest.mark.parametrize("name", HOLES)
def test_a_page_shows_its_stages_and_names_those_it_has_not(name):
    reading = from_start(engine_page(name))
    shown, missing = HOLES[name]

    assert reading.up
    assert pairs(reading) & set(STAGES) == set(shown.split())
    assert set(reading.missing) == set(missing.split())
    told = {dict(one.labels)["reason"] for one in reading.levels if one.metric == "not_reported"}
    assert told == set(missing.split())


@pytest.mark.parametrize(("name", "metric", "n", "mean_s"), MEANS_S)
def test_a_stage_has_the_count_and_the_mean_of_its_source_note(name, metric, n, mean_s):
    pair = latency(from_start(engine_page(name)), metric)

    assert pair.n == n
    assert pair.mean_s == pytest.approx(mean_s, rel=1e-3)
    assert pair.quantile(0).low_s <= mean_s <= pair.quantile(1).high_s * 1.001


@pytest.mark.parametrize("version", SGLANG)
@pytest.mark.parametrize("metric", ["ttft", "e2e"])
def test_every_sglang_gives_intervals_that_hold_the_truth(version, metric):
    truth = json.loads((ENGINES / f"sglang-{version}-unified.truth.json").read_text())

    pair = latency(from_start(engine_page(f"sglang-{version}-unified")), metric)

    values = sorted(truth[metric])
    assert pair.n == len(values)
    for rank, value in enumerate(values, start=1):
        found = pair.quantile(Fraction(rank, len(values)))
        assert found.low_s <= value <= found.high_s
    assert pair.sum_s == pytest.approx(math.fsum(values), rel=1e-9)


@pytest.mark.parametrize(
    ("version", "sample"), [("0.4.1", "chunk"), ("0.5.3", "token"), ("0.5.23", "token")]
)
def test_what_one_sglang_itl_is_of_depends_on_its_version(version, sample):
    reading = from_start(engine_page(f"sglang-{version}-unified"))

    assert {one.sample for one in reading.latencies if one.metric == "itl"} == {sample}


def test_the_queue_of_sglang_is_told_from_its_first_fine_bucket_on():
    coarse, fine = (
        latency(from_start(engine_page(f"sglang-{version}-unified")), "queue").quantile(0.5)
        for version in ("0.5.3", "0.5.12")
    )

    assert coarse.low_s <= 0.004 <= coarse.high_s
    assert 0.0009 <= fine.low_s <= 0.004 <= fine.high_s <= 0.0051


def test_flows_of_an_sglang_are_counted_once():
    reading = from_start(engine_page("sglang-0.5.23-unified"))

    assert increments(reading, "requests_started") == 50
    assert increments(reading, "requests_finished") == 50
    assert increments(reading, "prompt_tokens") == 25_600
    assert increments(reading, "generation_tokens") == 1050
    hits, queries = (increments(reading, f"prefix_cache_{n}") for n in ("hits", "queries"))
    assert hits / queries == 0.25
    assert level(reading, "requests_running") == 7
    assert level(reading, "requests_waiting") == 3
    assert level(reading, "kv_cache_usage") == pytest.approx(0.31)


def test_13_a_role_is_what_the_operator_says_and_an_empty_family_is_no_error():
    text = engine_page("sglang-pd-decode-2025-06-1")

    reading = from_start(text, role="decode")

    assert 'engine_type="unified"' in text
    assert {dict(one.labels).get("role") for one in reading.levels} == {"decode"}
    assert increments(reading, "kv_transfers_failed") == 156
    assert increments(reading, "refused_families") is None
    assert not reading.notes


def test_an_sglang_prefill_engine_feeds_nobodys_answers():
    reading = from_start(engine_page("sglang-0.5.23-prefill"), role="prefill")

    assert pairs(reading) == {"queue", "prefill", "kv_transfer"}
    assert latency(reading, "kv_transfer").mean_s == pytest.approx(0.015)
    assert latency(reading, "prefill").n == 50
    assert increments(reading, "prefill_requests") == 50
    assert increments(reading, "requests_started") is None
    assert increments(reading, "generation_tokens") is None
    assert reading.missing == ()


def test_a_vllm_prefill_engine_counts_what_it_filled():
    reading = from_start(engine_page("vllm-0.33.0-prefill"), role="prefill")

    assert increments(reading, "prefill_requests") == 50
    assert pairs(reading) == {"queue", "prefill"}
    assert reading.missing == ("kv_transfer",)


def test_14_llama_cpp_has_no_counter_that_is_an_average():
    text = engine_page("llamacpp-docker-model-runner-1")

    reading = from_start(text, model="ours")

    assert "n_busy_slots_per_decode" in text
    assert {one.metric for one in reading.increments} == {"engine_steps"}
    assert increments(reading, "engine_steps") == 2
    assert {dict(one.labels)["model"] for one in reading.levels} == {"ours"}


def test_15_tgi_has_an_estimate_and_never_a_ttft():
    reading = from_start(engine_page("tgi-3.3.7-synthetic-1"))
    estimated = latency(reading, "ttft_estimated")

    assert latency(reading, "ttft") is None
    assert estimated.n == 100
    assert estimated.mean_s == pytest.approx(0.07785 + 0.001 + 0.060, rel=1e-3)
    assert estimated.quantile(0.5).low_s <= 0.064 <= estimated.quantile(0.5).high_s
    assert estimated.quantile(0.99).high_s >= 1.561


def test_15_counters_of_tgi_that_end_in_count_are_no_histogram():
    reading = from_start(engine_page("tgi-3.3.7-synthetic-1"))

    assert increments(reading, "requests_finished") == 100
    assert increments(reading, "requests_failed") == 7
    assert increments(reading, "engine_steps") == 5000
    assert increments(reading, "refused_families") is None


def test_16_a_latency_per_output_token_that_is_ttft_is_not_mapped():
    text = engine_page("litellm-1.110.2-1")

    reading = from_start(text)

    assert "litellm_deployment_latency_per_output_token_sum" in text
    assert latency(reading, "tpot") is None
    assert latency(reading, "itl") is None
    assert increments(reading, "requests_finished") == 10


@pytest.mark.parametrize("name", ["litellm-1.110.2-1", "dynamo-frontend-0.7-1"])
def test_what_a_gateway_says_is_the_frontends_word(name):
    reading = from_start(engine_page(name))

    series = [*reading.latencies, *reading.increments]
    assert {dict(one.labels)["source"] for one in series} == {"frontend"}
    assert {dict(one.labels)["source"] for one in reading.levels} == {"page"}
    assert level(reading, "requests_running") is None


def test_triton_says_what_waits_and_how_full_its_cache_is():
    reading = from_start(engine_page("triton-tensorrtllm-1"))

    assert level(reading, "requests_running") == 0
    assert level(reading, "requests_waiting") == 1
    assert level(reading, "kv_cache_usage") == 0.4875
    assert level(reading, "kv_cache_capacity") == 6239
    assert max(one.value for one in reading.levels) < 1e9, "a time stamp is no level"


def test_25_an_unary_answer_of_dynamo_has_a_server_ttft_and_gaps():
    reading = from_start(engine_page("dynamo-frontend-0.7-1"))
    ttft, itl, e2e = (latency(reading, name) for name in ("ttft", "itl", "e2e"))

    assert (ttft.n, itl.n) == (1, 299)
    assert ttft.sum_s + itl.sum_s == pytest.approx(2.17526, abs=1e-5)
    assert e2e.sum_s == pytest.approx(2.177647, abs=1e-6)
    assert {one.sample for one in reading.latencies if one.metric == "itl"} == {"chunk"}


def dynamo(target, **labels):
    return read_folder(RECORDED / "dynamo", f"*-{target}.prom", replica=target, **labels)


def test_26_cancelled_requests_are_counted_apart_at_the_frontend():
    (reading,) = read_folder(RECORDED / "dynamo", "98-after-frontend.prom")

    assert increments(reading, "requests_finished") == 115
    assert increments(reading, "requests_cancelled") == 6
    assert not increments(reading, "requests_failed")
    assert increments(reading, "requests_started") == 121


def test_26_over_all_pages_the_frontend_tells_the_same():
    readings = dynamo("frontend")

    assert sum(increments(each, "requests_cancelled") or 0 for each in readings) == 6
    assert total(readings, "ttft").n == 121  # 120 of the load and a warm-up call
    assert not any(each.notes for each in readings)


def test_12_a_dynamo_decode_worker_has_two_engines_families_and_counts_them_once():
    reading = from_start(
        (RECORDED / "dynamo" / "09-during-decode0.prom").read_text(), role="decode"
    )

    assert reading.engine == "vLLM, NVIDIA Dynamo, worker"
    assert {dict(one.labels)["engine"] for one in reading.latencies} == {"vllm"}
    assert pairs(reading) == {"itl"}
    assert 0 <= level(reading, "kv_cache_usage") <= 1
    assert set(reading.missing) == {"tpot", "queue", "decode", "kv_transfer"}


def test_a_dynamo_prefill_worker_says_only_how_busy_it_is():
    readings = dynamo("prefill0", role="prefill")

    assert not any(each.latencies for each in readings)
    assert sum(increments(each, "prefill_requests") or 0 for each in readings) == 121
    assert level(readings[2], "requests_running") == 3


def test_the_frontends_input_tokens_are_those_of_the_workers_requests():
    assert increments(
        from_start((RECORDED / "dynamo" / "98-after-frontend.prom").read_text()), "prompt_tokens"
    ) == pytest.approx(55_315)


@pytest.mark.parametrize("name", HOLES)
def test_20_no_page_gives_a_time_stamp_as_a_value(name):
    reading = from_start(engine_page(name))

    assert all(one.value < 1e9 for one in reading.levels)
    assert all(one.by < 1e9 for one in reading.increments)
    assert all(one.distribution.quantile(1).low_s < 1e5 for one in reading.latencies)


@pytest.mark.parametrize("name", HOLES)
def test_every_series_says_which_engine_it_is_of_unless_the_operator_did(name):
    told = from_start(engine_page(name))
    configured = from_start(engine_page(name), engine="ours")

    assert all(dict(one.labels).get("engine") for one in (*told.levels, *told.increments))
    assert {dict(one.labels)["engine"] for one in configured.levels} == {"ours"}
