"""Our page against a real one, and against the spans of the same requests."""

import pytest

from stagewatch.demo.engine_page import EnginePage, Finished, Levels
from stagewatch.demo.page_families import FAMILIES, TOKENS
from stagewatch.demo.page_text import Histogram, number
from tests.demo.pages import parse
from tests.demo.runs import run
from tests.paths import RECORDED

REAL = parse((RECORDED / "vllm" / "default" / "98-after.prom").read_text())
IDLE = Levels(running=0, waiting=0, deferred=0, kv_usage=0.0)
LENGTHS = {family.name for family in FAMILIES if family.edges == TOKENS}


def page():
    return EnginePage(model="tiny", created_s=1.79e9, kv_blocks=1024, block_tokens=16)


def done(**changes):
    fields = {
        "e2e_s": 2.0,
        "queue_s": 0.1,
        "prefill_s": 0.2,
        "decode_s": 1.5,
        "inference_s": 1.7,
        "prompt_tokens": 100,
        "computed_tokens": 80,
        "output_tokens": 4,
        "max_tokens": 4,
        "preemptions": 0,
        "finish_reason": "length",
    }
    return Finished(**(fields | changes))


@pytest.fixture(scope="module")
def healthy():
    return run(120.0)


@pytest.fixture(scope="module")
def ours(healthy):
    return parse(healthy.fleet.replicas["code-0"].render())


def test_every_family_is_there_with_the_words_and_the_kind_of_the_real_page(ours):
    assert ours.kinds == REAL.kinds
    assert ours.helps == REAL.helps


def test_families_stand_in_the_order_of_the_real_page(ours):
    assert list(ours.kinds) == list(REAL.kinds)


def test_series_carry_the_labels_and_edges_of_the_real_page(ours):
    def comparable(found):
        return {
            (name, labels)
            for name, labels in found.shapes()
            if name not in ("python_info", "vllm:cache_config_info")
            and not any(name.startswith(length) for length in LENGTHS)
        }

    assert comparable(ours) == comparable(REAL)


def test_lengths_go_on_in_the_real_page_s_steps_up_to_a_longer_context(ours):
    for family in LENGTHS:
        real = {shape for shape in REAL.shapes() if shape[0].startswith(family)}
        assert real <= ours.shapes()


def test_an_idle_page_has_no_requests_of_the_chat_handler_as_the_real_one_has_none():
    real = (RECORDED / "vllm" / "default" / "00-before.prom").read_text()

    assert "/v1/chat/completions" not in real
    assert "/v1/chat/completions" not in page().render(IDLE)


def test_labels_stand_in_the_order_of_their_names():
    text = page().render(IDLE)

    assert (
        'vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 0.0'
        in text
    )
    assert (
        'vllm:e2e_request_latency_seconds_bucket{engine="0",le="0.3",model_name="tiny"} 0.0' in text
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0.0"),
        (12, "12.0"),
        (999999, "999999.0"),
        (1000000, "1e+06"),
        (1234567.25, "1.23456725e+06"),
        (1.7959657769748983e9, "1.7959657769748983e+09"),
        (2.1e10, "2.1e+10"),
        (0.000015, "1.5e-05"),
    ],
)
def test_numbers_are_written_as_the_python_client_writes_them(value, text):
    assert number(value) == text
    assert float(number(value)) == value


def test_a_value_on_an_edge_belongs_below_it():
    histogram = Histogram((1.0, 2.0))
    for value in (1.0, 1.5, 2.0, 2.5):
        histogram.observe(value)

    assert histogram.counts == [1, 2, 1]
    assert (histogram.count, histogram.sum) == (4, 7.0)


def test_a_finished_request_enters_every_request_family_once():
    shown = page()
    shown.finished(done())
    found = parse(shown.render(IDLE))

    assert found.value("vllm:e2e_request_latency_seconds_sum") == 2.0
    assert found.value("vllm:request_decode_time_seconds_count") == 1
    assert found.value("vllm:request_time_per_output_token_seconds_sum") == 0.5
    assert found.value("vllm:request_success_total", finished_reason="length") == 1


def test_an_answer_of_one_token_puts_a_zero_into_time_per_output_token_as_vllm_does():
    shown = page()
    shown.finished(done(output_tokens=1, decode_s=0.0))
    found = parse(shown.render(IDLE))

    assert found.value("vllm:request_time_per_output_token_seconds_count") == 1
    assert found.value("vllm:request_time_per_output_token_seconds_sum") == 0
    assert found.value("vllm:request_time_per_output_token_seconds_bucket", le="0.01") == 1


def test_waiting_is_the_sum_of_its_reasons():
    found = parse(page().render(Levels(running=3, waiting=2, deferred=5, kv_usage=0.25)))

    assert found.value("vllm:num_requests_waiting") == 7
    assert found.value("vllm:num_requests_waiting_by_reason", reason="capacity") == 2
    assert found.value("vllm:num_requests_waiting_by_reason", reason="deferred") == 5
    assert found.value("vllm:kv_cache_usage_perc") == 0.25


@pytest.mark.parametrize("kind", ["queue", "prefill", "decode", "inference"])
def test_counts_and_sums_are_those_of_the_spans_to_the_last_bit(healthy, kind):
    for name, replica in healthy.fleet.replicas.items():
        found = parse(replica.render())
        total = 0.0
        for span in healthy.of(name):
            total += getattr(span.finished, f"{kind}_s")

        assert found.value(f"vllm:request_{kind}_time_seconds_count") == len(healthy.of(name))
        assert found.value(f"vllm:request_{kind}_time_seconds_sum") == total


def test_end_to_end_is_that_of_the_spans_too(healthy):
    for name, replica in healthy.fleet.replicas.items():
        found = parse(replica.render())
        total = 0.0
        for span in healthy.of(name):
            total += span.finished.e2e_s

        assert found.value("vllm:e2e_request_latency_seconds_sum") == total


def test_buckets_count_the_spans_below_their_edges(healthy):
    spans = healthy.of("assistant-decode-1")
    found = parse(healthy.fleet.replicas["assistant-decode-1"].render())

    for edge in ("0.3", "0.5", "1.0", "2.5", "5.0", "10.0", "+Inf"):
        below = sum(span.finished.decode_s <= float(edge) for span in spans)
        assert found.value("vllm:request_decode_time_seconds_bucket", le=edge) == below


def test_first_tokens_are_counted_when_they_come_and_not_when_the_answer_ends(healthy):
    for name, replica in healthy.fleet.replicas.items():
        found = parse(replica.render())
        started = found.value("vllm:time_to_first_token_seconds_count")
        running = found.value("vllm:num_requests_running")

        assert len(healthy.of(name)) <= started
        assert started >= len(healthy.of(name)) + running - 5


def test_a_prefill_engine_shows_zeros_for_decoding(healthy):
    replica = healthy.fleet.replicas["assistant-prefill-0"]
    found = parse(replica.render())
    count = len(healthy.of("assistant-prefill-0"))

    assert found.value("vllm:request_decode_time_seconds_count") == count
    assert found.value("vllm:request_decode_time_seconds_sum") == 0
    assert found.value("vllm:request_decode_time_seconds_bucket", le="0.3") == count
    assert found.value("vllm:request_time_per_output_token_seconds_bucket", le="0.01") == count
    assert found.value("vllm:inter_token_latency_seconds_count") == 0


def test_a_decode_engine_takes_its_prompts_from_elsewhere(healthy):
    found = parse(healthy.fleet.replicas["assistant-decode-0"].render())
    by_source = {
        source: found.value("vllm:prompt_tokens_by_source_total", source=source)
        for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
    }

    assert sum(by_source.values()) == found.value("vllm:prompt_tokens_total")
    assert by_source["external_kv_transfer"] > 100 * by_source["local_compute"]


def test_one_inter_token_sample_stands_for_one_step_of_one_request(healthy):
    found = parse(healthy.fleet.replicas["assistant-decode-0"].render())
    tokens = found.value("vllm:generation_tokens_total")
    first = found.value("vllm:time_to_first_token_seconds_count")

    assert found.value("vllm:inter_token_latency_seconds_count") == pytest.approx(
        tokens - first, abs=2
    )


def test_steps_are_counted_with_their_tokens(healthy):
    found = parse(healthy.fleet.replicas["code-1"].render())
    tokens = found.value("vllm:prompt_tokens_total") + found.value("vllm:generation_tokens_total")

    assert found.value("vllm:iteration_tokens_total_sum") == tokens
    assert found.value("vllm:iteration_tokens_total_count") > 100


def test_abandoned_requests_vanish_from_all_but_the_first_token_and_http():
    abandoned = run(180.0, hang_up_share=0.5)
    for name in ("code-0", "code-1"):
        found = parse(abandoned.fleet.replicas[name].render())
        ended = len(abandoned.of(name))

        assert found.value("vllm:request_success_total", finished_reason="abort") == 0
        assert found.value("vllm:e2e_request_latency_seconds_count") == ended
        assert found.value("http_requests_total", status="2xx") > ended
        assert found.value("vllm:time_to_first_token_seconds_count") > ended


def test_counters_never_fall_between_two_scrapes():
    first, later = run(30.0), run(60.0)
    for name in first.fleet.replicas:
        before = parse(first.fleet.replicas[name].render())
        after = parse(later.fleet.replicas[name].render())
        for key, value in before.samples.items():
            if key[0].endswith(("_bucket", "_count", "_sum", "_total")):
                assert after.samples[key] >= value, key


def test_a_page_says_when_its_process_came_up(ours):
    assert ours.value("vllm:time_to_first_token_seconds_created") == 1_800_000_000
    assert ours.value("process_start_time_seconds") < 1_800_000_000
