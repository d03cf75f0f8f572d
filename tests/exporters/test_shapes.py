"""Shapes beyond histograms: means without buckets, labels that select, ranks that are copies."""

import math

import pytest

from domain.metric import METRICS
from exporters.engine.target import TargetState
from tests.exporters.pages_of import (
    SECOND_NS,
    from_start,
    increments,
    latency,
    level,
    page,
    scrapes,
)
from tests.exporters.test_target import histogram

SGLANG_STAGES = "sglang:per_stage_req_latency_seconds"


def triton(success, duration_us, *, model="m", queue_us=0):
    labels = f'{{model="{model}",version="1"}}'
    return (
        f"nv_inference_request_success{labels} {success}\n"
        f"nv_inference_request_duration_us{labels} {duration_us}\n"
        f"nv_inference_queue_duration_us{labels} {queue_us}\n"
    )


def test_counters_of_microseconds_give_a_mean_and_wide_bounds():
    (reading,) = scrapes(triton(10, 9_000_000), triton(14, 11_000_000, queue_us=8000))
    e2e, queue = latency(reading, "e2e"), latency(reading, "queue")

    assert e2e.n == 4
    assert e2e.mean_s == pytest.approx(0.5)
    assert queue.mean_s == pytest.approx(0.002)
    assert e2e.quantile(0.5).low_s == 0
    assert 0.5 <= e2e.quantile(0.5).high_s <= 0.7  # two of four lie at or above it
    assert 2.0 <= e2e.quantile(0.99).high_s <= 2.05


def test_a_single_request_between_two_counters_is_exact():
    (reading,) = scrapes(triton(10, 9_000_000), triton(11, 9_500_000))
    found = latency(reading, "e2e").quantile(0.5)

    assert found.low_s <= 0.5 <= found.high_s
    assert found.high_s / found.low_s < 1.05


def test_no_request_between_two_counters_is_no_pair():
    (reading,) = scrapes(triton(10, 9_000_000), triton(10, 9_000_000))

    assert latency(reading, "e2e") is None


def test_of_models_that_call_one_another_the_outermost_counts():
    inner = triton(100, 50_000_000, model="tensorrt_llm") + triton(100, 9, model="preprocessing")
    outer = triton(90, 60_000_000, model="ensemble") + triton(
        10, 8_000_000, model="tensorrt_llm_bls"
    )

    reading = from_start(inner + outer)

    assert increments(reading, "requests_finished") == 100
    assert sum(one.distribution.n for one in reading.latencies if one.metric == "e2e") == 100
    (queue,) = [one for one in reading.latencies if one.metric == "queue"]
    assert dict(queue.labels)["model"] == "tensorrt_llm"


def test_an_outermost_model_that_is_loaded_and_never_called_hides_nobody():
    reading = from_start(
        triton(7, 7_000_000, model="tensorrt_llm") + triton(0, 0, model="ensemble")
    )

    assert increments(reading, "requests_finished") == 7
    assert latency(reading, "e2e").n == 7


def test_milliseconds_of_tritons_hand_overs_are_seconds_of_ours():
    name = "nv_trt_llm_disaggregated_serving_metrics"
    text = (
        f'{name}{{disaggregated_serving_type="kv_cache_transfer_ms",model="m"}} 60\n'
        f'{name}{{disaggregated_serving_type="request_count",model="m"}} 4\n'
    )

    assert latency(from_start(text), "kv_transfer").mean_s == pytest.approx(0.015)


def test_llama_cpp_tells_a_mean_time_per_token():
    text = "llamacpp:tokens_predicted_seconds_total 2.5\nllamacpp:tokens_predicted_total 100\n"

    itl = latency(from_start(text), "itl")

    assert (itl.n, itl.mean_s) == (100, pytest.approx(0.025))


def test_a_counter_of_six_digits_is_believed_to_six_digits():
    before = "llamacpp:tokens_predicted_seconds_total 123456\nllamacpp:tokens_predicted_total 10\n"
    after = "llamacpp:tokens_predicted_seconds_total 123457\nllamacpp:tokens_predicted_total 11\n"

    (reading,) = scrapes(before, after)
    found = latency(reading, "itl").quantile(0.5)

    assert found.low_s == 0, "the second may have been a twentieth of one"
    assert found.high_s >= 2


def test_a_histogram_of_milliseconds_becomes_seconds():
    text = histogram(
        [3.0, 700.0], edges=(1, 5, 1000), name="sglang:kv_transfer_latency_ms", labels='x="1"'
    )

    pair = latency(from_start(text, role="prefill"), "kv_transfer")

    assert pair.n == 2
    assert pair.sum_s == pytest.approx(0.703)
    assert pair.at_most(0.005) == (1, 1)
    assert pair.at_most(1.0) == (2, 2)


def test_a_gauge_of_the_same_name_from_before_is_no_histogram_and_no_error():
    text = "# TYPE sglang:kv_transfer_latency_ms gauge\nsglang:kv_transfer_latency_ms 12\n"

    reading = from_start(text, role="prefill")

    assert reading.up
    assert latency(reading, "kv_transfer") is None
    assert increments(reading, "refused_families") is None


def test_a_label_selects_the_stage():
    text = histogram(
        [0.05] * 3, name=SGLANG_STAGES, labels='stage="prefill_forward",tp_rank="0"'
    ) + histogram([0.9] * 3, name=SGLANG_STAGES, labels='stage="request_process",tp_rank="0"')

    assert latency(from_start(text), "prefill").mean_s == pytest.approx(0.05)


@pytest.mark.parametrize("ranks", [1, 2, 8])
def test_tensor_parallel_ranks_tell_the_same_and_data_parallel_ranks_add_up(ranks):
    def of(dp, tp):
        labels = f'model_name="m",tp_rank="{tp}",dp_rank="{dp}",pp_rank="0"'
        return (
            histogram([0.2] * (3 + dp), name="sglang:queue_time_seconds", labels=labels)
            + f"sglang:num_running_reqs{{{labels}}} {4 + dp}\n"
            + f"sglang:token_usage{{{labels}}} {0.2 + 0.2 * dp}\n"
            + f"sglang:num_retracted_requests_total{{{labels}}} {2 + dp}\n"
        )

    reading = from_start("".join(of(dp, tp) for dp in (0, 1) for tp in range(ranks)))

    assert latency(reading, "queue").n == 3 + 4
    assert level(reading, "requests_running") == 4 + 5
    assert level(reading, "kv_cache_usage") == pytest.approx(0.3)
    assert increments(reading, "preemptions") == 2 + 3


def test_the_capacity_of_vllms_cache_stands_in_a_label_and_belongs_to_its_model():
    text = (
        'vllm:num_requests_running{engine="0",model_name="m"} 1\n'
        'vllm:cache_config_info{engine="0",block_size="16",num_gpu_blocks="1000"} 1\n'
        'vllm:cache_config_info{engine="1",block_size="16",num_gpu_blocks="3000"} 1\n'
    )

    reading = from_start(text)

    assert level(reading, "kv_cache_capacity") == 4000
    (capacity,) = [one for one in reading.levels if one.metric == "kv_cache_capacity"]
    assert dict(capacity.labels)["model"] == "m"


@pytest.mark.parametrize("raw", ["None", "", "-3", "NaN", "1e9", "9" * 40, "²"])
def test_a_capacity_that_is_no_number_is_absent(raw):
    reading = from_start(f'vllm:cache_config_info{{num_gpu_blocks="{raw}"}} 1\n')

    assert level(reading, "kv_cache_capacity") is None


@pytest.mark.parametrize("value", ["-1", "NaN", "+Inf"])
@pytest.mark.parametrize(
    "name", ["sglang:num_running_reqs", "tgi_queue_size", "lmdeploy:num_requests_waiting"]
)
def test_a_sentinel_is_absent_and_no_number(name, value):
    reading = from_start(f"{name} {value}\n")

    assert reading.up
    assert level(reading, "requests_running") is None
    assert level(reading, "requests_waiting") is None


def test_tokens_that_only_a_histogram_knows_are_its_sum():
    text = histogram([100, 200], edges=(128, 256), name="tgi_request_input_length", labels='x="1"')

    assert increments(from_start(text), "prompt_tokens") == 300


def test_a_sum_of_tokens_that_falls_adds_nothing():
    name = "tgi_request_input_length"
    first = histogram([100], edges=(128,), name=name, labels='x="1"')
    second = histogram([100, 1], edges=(128,), name=name, labels='x="1"', total=7.0)

    (reading,) = scrapes(first, second)

    assert increments(reading, "prompt_tokens") is None


def test_failures_of_tgi_that_were_the_clients_are_rejections():
    text = 'tgi_request_failure{err="validation"} 3\ntgi_request_failure{err="overloaded"} 4\n'

    reading = from_start(text)

    assert increments(reading, "requests_rejected") == 3
    assert increments(reading, "requests_failed") == 4


def test_outcomes_of_lmdeploy_stand_in_one_family():
    text = "".join(
        f'lmdeploy:request_success_total{{finished_reason="ResponseType.{reason}"}} {n}\n'
        for reason, n in (("FINISH", 5), ("CANCEL", 2), ("INTERNAL_ENGINE_ERROR", 1))
    )

    reading = from_start(text)

    told = [increments(reading, f"requests_{how}") for how in ("finished", "cancelled", "failed")]
    assert told == [5, 2, 1]


def test_failed_hand_overs_of_both_kinds_add_up():
    text = "sglang:num_transfer_failed_reqs_total 3\nsglang:num_bootstrap_failed_reqs_total 4\n"

    assert increments(from_start(text), "kv_transfers_failed") == 7
    vllm = "vllm:nixl_num_failed_transfers_total 2\n"
    assert increments(from_start(vllm), "kv_transfers_failed") == 2


def test_a_family_of_buckets_alone_counts_by_its_last_one():
    text = "".join(line + "\n" for line in histogram([0.2, 0.3]).splitlines() if "_bucket" in line)

    pair = latency(from_start(text), "ttft")

    assert (pair.n, pair.sum_s) == (2, None)


def tgi(queue=(), validation=(), prefill=()):
    name = "tgi_request_{}_duration"
    return (
        "tgi_queue_size 0\n"
        + histogram(queue, name=name.format("queue"), labels='x="1"')
        + histogram(validation, name=name.format("validation"), labels='x="1"')
        + histogram(prefill, name="tgi_batch_inference_duration", labels='method="prefill",x="1"')
    )


def test_an_estimate_waits_for_all_of_its_parts():
    readings = scrapes(
        tgi(), tgi([0.2], [0.05]), tgi([0.2], [0.05], [0.3]), tgi([0.2], [0.05], [0.3])
    )

    assert [latency(each, "ttft_estimated") for each in readings[::2]] == [None, None]
    (one,) = [one for one in readings[1].latencies if one.metric == "ttft_estimated"]
    assert one.start_at_ns == SECOND_NS
    assert one.distribution.mean_s == pytest.approx(0.55)


def test_the_truth_of_an_estimate_lies_inside_whichever_part_belongs_to_which():
    queue, validation, prefill = [0.15, 0.2, 0.9], [0.01, 0.05, 0.02], [0.3, 0.12, 0.8]

    pair = latency(from_start(tgi(queue, validation, prefill)), "ttft_estimated")

    for order in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        whole = sorted(queue[i] + validation[j] + prefill[j] for i, j in enumerate(order))
        for rank, value in enumerate(whole, start=1):
            found = pair.quantile((2 * rank - 1) / 6)
            assert found.low_s <= value <= found.high_s


def test_one_prefill_of_several_requests_leaves_their_mean_in_doubt():
    queue, validation = [0.2] * 4, [0.05] * 4

    pair = latency(from_start(tgi(queue, validation, [0.15, 0.9])), "ttft_estimated")

    assert pair.n == 4
    assert pair.quantile(0).low_s <= 0.2 + 0.05 + 0.15
    assert pair.quantile(1).high_s >= 0.2 + 0.05 + 0.9


def test_parts_without_sums_or_beyond_the_last_edge_stay_open():
    text = tgi([0.2, 9.0], [0.05] * 2, [0.3] * 2)
    without = "".join(line + "\n" for line in text.splitlines() if "_sum" not in line)

    pair = latency(from_start(without), "ttft_estimated")

    assert pair.n == 2
    assert pair.sum_s is None
    assert pair.quantile(1).high_s == math.inf


def test_two_processes_behind_one_address_leave_no_estimate_half_done():
    state = TargetState((("service", "chat"),))
    told = []
    for at_s, (started, text) in enumerate(
        [(2000, tgi()), (2000, tgi([0.2])), (1000, tgi()), (1000, tgi([], [0.05], [0.3]))], start=1
    ):
        reading = state.observe(
            page(f"process_start_time_seconds {started}\n{text}"), at_s * SECOND_NS
        )
        told.append((reading.up, latency(reading, "ttft_estimated")))

    assert told == [(True, None), (True, None), (False, None), (True, None)]


def test_every_metric_that_engines_fill_is_in_the_reference_of_metrics():
    assert {"ttft_estimated", "prefill_requests", "kv_transfers_failed"} <= METRICS.keys()
