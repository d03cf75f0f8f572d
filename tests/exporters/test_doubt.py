"""What a page says and cannot mean: stages at zero, gauges nobody sets, roles that are not."""

import pytest

from exporters.engine.target import TargetState
from tests.exporters.pages_of import (
    SECOND_NS,
    engine_page,
    from_start,
    increments,
    latency,
    level,
    page,
    scrapes,
)
from tests.exporters.test_target import TARGET, histogram
from tests.paths import RECORDED

EDGES = (0.001, 0.005, 0.1)


def test_11_everything_in_the_first_bucket_is_suspect_and_named():
    reading = from_start(engine_page("vllm-0.5.1-zero-ttft-1"))

    assert increments(reading, "suspect_families", by="reason") == {"ttft": 1}
    (note,) = reading.notes
    assert "ttft is suspect: all of 208 values lie in the first bucket" in note
    assert "no sum" in note


def test_11_without_a_sum_nothing_narrower_than_the_bucket_is_said():
    pair = latency(from_start(engine_page("vllm-0.5.1-zero-ttft-1")), "ttft")

    assert pair.sum_s is None
    assert pair.quantile(0.5).low_s == 0
    assert pair.quantile(0.99).high_s >= 0.001
    assert pair.at_most(0.0005) == (0, 208)
    assert pair.at_most(0.001) == (208, 208)


def test_a_sum_next_to_nothing_is_suspect_in_every_interval_that_shows_it():
    readings = scrapes(*(histogram([0.0] * n, edges=EDGES, total=1e-7 * n) for n in (0, 5, 5, 9)))

    assert [increments(each, "suspect_families") for each in readings] == [1, None, 1]


@pytest.mark.parametrize(
    "text",
    [
        histogram([0.0004] * 50, edges=EDGES),  # quick, not at nothing
        histogram([0.05] * 50, edges=(0.1, 0.2)),  # a wide first bucket is full of good answers
        histogram([0.0] * 50 + [0.003], edges=EDGES),
        histogram([0.0] * 50, edges=EDGES, name="vllm:request_queue_time_seconds"),  # no queue
        histogram([0.0] * 50, edges=EDGES) + "vllm:generation_tokens_total 0\n",  # no answers
        histogram([0.0] * 50, edges=EDGES, name="vllm:request_decode_time_seconds"),
    ],
    ids=["quick", "wide", "one-is-not", "queue", "no-answers", "decode"],
)
def test_what_can_be_true_is_not_suspect(text):
    assert increments(from_start(text), "suspect_families") is None


def test_answers_with_tokens_make_it_suspect():
    text = histogram([0.0] * 50, edges=EDGES) + "vllm:generation_tokens_total 900\n"

    assert increments(from_start(text), "suspect_families", by="reason") == {"ttft": 1}


def test_one_token_answers_that_were_taken_out_are_not_suspect():
    assert increments(from_start(engine_page("vllm-0.33.0-prefill")), "suspect_families") is None


def usage(value, *, running=1, finished=0):
    return (
        f"vllm:kv_cache_usage_perc {value}\n"
        f"vllm:num_requests_running {running}\n"
        f"vllm:request_success_total {finished}\n"
    )


@pytest.mark.parametrize(
    "name", ["dynamo-worker-trtllm-1.x-1", "dynamo-worker-sglang-0.5-truncated-1"]
)
def test_12_a_share_of_a_cache_of_no_blocks_is_not_reported(name):
    reading = from_start(engine_page(name))

    assert level(reading, "kv_cache_usage") is None
    assert level(reading, "kv_cache_capacity") is None
    assert "kv_cache_usage" in reading.missing
    assert any("nobody sets it" in note for note in reading.notes)


def test_12_a_torn_family_is_invalid_and_the_others_are_read():
    reading = from_start(engine_page("dynamo-worker-sglang-0.5-truncated-1"))

    assert latency(reading, "queue") is None
    assert increments(reading, "refused_families", by="reason") == {"queue": 1}
    assert any("sglang:queue_time_seconds" in note for note in reading.notes)
    assert latency(reading, "e2e").sum_s == pytest.approx(2.173, abs=1e-3)
    assert "queue" not in reading.missing, "it is there, and wrong"


def test_12_constant_zero_while_requests_run_is_not_reported():
    readings = scrapes(*[usage(0)] * 8)

    assert [level(each, "kv_cache_usage") for each in readings] == [0, 0, 0, None, None, None, None]
    assert "kv_cache_usage" in readings[-1].missing
    assert any("constant 0" in note for note in readings[-1].notes)


def test_zero_of_an_engine_without_requests_is_zero():
    readings = scrapes(*[usage(0, running=0)] * 8)

    assert level(readings[-1], "kv_cache_usage") == 0
    assert "kv_cache_usage" not in readings[-1].missing


def test_a_gauge_that_once_moved_is_believed_for_good():
    readings = scrapes(usage(0.1), *[usage(0)] * 8)

    assert level(readings[-1], "kv_cache_usage") == 0


def test_a_gauge_that_moves_after_all_is_reported_again():
    readings = scrapes(*[usage(0)] * 8, usage(0.3), usage(0))

    assert [level(each, "kv_cache_usage") for each in readings[-3:]] == [None, 0.3, 0]


def test_finished_requests_stand_for_running_ones_where_those_are_not_told():
    pages = [
        f"vllm:kv_cache_usage_perc 0\nvllm:request_success_total {number}\n" for number in range(8)
    ]

    assert level(scrapes(*pages)[-1], "kv_cache_usage") is None


@pytest.mark.parametrize("role", ["decode"])
def test_13_a_decode_engine_whose_answers_have_one_token_is_questioned(role):
    reading = from_start(engine_page("vllm-0.33.0-prefill"), role=role)

    assert any("role decode is doubtful: 50 answers had 50 tokens" in n for n in reading.notes)


@pytest.mark.parametrize(
    ("name", "role"), [("vllm-0.33.0-agg", "decode"), ("vllm-0.33.0-prefill", "prefill")]
)
def test_13_a_role_that_fits_is_not_questioned(name, role):
    assert not any("doubtful" in note for note in from_start(engine_page(name), role=role).notes)


def test_13_one_token_answers_of_an_engine_without_a_role_are_asked_about():
    notes = from_start(engine_page("vllm-0.33.0-prefill")).notes

    assert any("no role is set, and 50 answers had 50 tokens" in note for note in notes)
    assert not any("role" in note for note in from_start(engine_page("vllm-0.33.0-agg")).notes)


def test_13_a_few_short_answers_prove_nothing():
    text = "vllm:generation_tokens_total {0}\nvllm:request_success_total {0}\n"

    first, second = scrapes(text.format(0), text.format(9), text.format(10), role="decode")

    assert not first.notes
    assert any("doubtful" in note for note in second.notes)


def test_a_real_decode_engine_is_not_questioned():
    folder = RECORDED / "vllm-disagg"
    state = TargetState((*TARGET, ("role", "decode")), from_zero=True)

    for number, path in enumerate(sorted(folder.glob("*-decode.prom")), start=1):
        reading = state.observe(page(path.read_text()), number * SECOND_NS)
        assert not any("doubtful" in note for note in reading.notes)
