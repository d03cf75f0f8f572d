"""Families that come, go and change their names, in engines that have them from the start or not."""

from tests.exporters.pages_of import increments, latency, level, scrapes
from tests.exporters.test_target import histogram, started

TTFT = "sglang:time_to_first_token_seconds"
USAGE = "sglang:token_usage 0.5\n"


def served(n, *, ttft=None):
    """An SGLang that has finished n requests: its families come with the first of them."""
    return (
        USAGE
        + f"sglang:num_requests_total {n}\nsglang:generation_tokens_total {10 * n}\n"
        + histogram([0.2] * (n if ttft is None else ttft), name=TTFT)
    )


def test_an_sglang_that_restarts_has_not_lost_the_families_that_come_with_the_first_request():
    fresh, first = scrapes(served(50), USAGE, served(1))

    assert increments(fresh, "schema_drift") is None
    assert fresh.absent == ()
    assert increments(first, "schema_drift") is None


def test_7_a_family_that_does_not_come_back_with_the_next_request_is_drift():
    renamed = served(1).replace(TTFT, "sglang:ttft_seconds")

    fresh, first, later = scrapes(served(50), USAGE, renamed, renamed)

    assert increments(fresh, "schema_drift") is None
    assert increments(first, "schema_drift", by="reason") == {"ttft": 1, "requests_started": 1}
    assert increments(later, "schema_drift") is None
    assert later.absent == ("requests_started", "ttft")
    assert "ttft" in later.missing


def test_7_a_family_that_vanishes_while_the_others_go_on_is_drift_at_once():
    (reading,) = scrapes(served(50), served(51).replace(TTFT, "sglang:ttft_seconds"))

    assert increments(reading, "schema_drift", by="reason") == {"ttft": 1, "requests_started": 1}


def test_7_a_start_time_that_stays_shows_that_it_is_the_same_process():
    both = started(1000.0) + "tgi_queue_size 1\ntgi_request_success 5\n"

    (reading,) = scrapes(both, started(1000.0) + "tgi_queue_size 1\n")

    assert increments(reading, "schema_drift", by="reason") == {"requests_finished": 1}


def test_outcomes_that_have_not_happened_since_a_restart_are_no_drift():
    success = 'dynamo_frontend_requests_total{status="success",error_type=""} '
    cancelled = 'dynamo_frontend_requests_total{status="error",error_type="cancelled"} '

    (reading,) = scrapes(success + "90\n" + cancelled + "7\n", success + "1\n")

    assert increments(reading, "schema_drift") is None
    assert increments(reading, "requests_finished") == 1


def test_the_first_cancel_after_the_start_is_counted():
    success = 'dynamo_frontend_requests_total{status="success",error_type=""} '
    cancelled = 'dynamo_frontend_requests_total{status="error",error_type="cancelled"} '

    (reading,) = scrapes(success + "90\n", success + "91\n" + cancelled + "1\n")

    assert increments(reading, "requests_cancelled") == 1
    assert not increments(reading, "requests_failed")


def test_an_alias_that_was_there_all_along_is_not_counted_from_its_beginning():
    old, new = "vllm:time_per_output_token_seconds", "vllm:inter_token_latency_seconds"
    only_old = histogram([0.02] * 100, name=old)
    both = histogram([0.02] * 110, name=old) + histogram([0.02] * 110, name=new)
    only_new = histogram([0.02] * 120, name=new)

    first, second, third = scrapes(only_old, both, only_new, only_new.replace("} 120\n", "} 125\n"))

    assert latency(first, "itl").n == 10
    assert latency(second, "itl") is None, "nobody read the new name before"
    assert latency(third, "itl").n == 5


def test_a_renamed_gauge_goes_on():
    (reading,) = scrapes(
        "dynamo_component_kvstats_gpu_cache_usage_percent 0.4\n"
        'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 1\n',
        "dynamo_component_gpu_cache_usage_percent 0.5\n"
        'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 1\n',
    )

    assert level(reading, "kv_cache_usage") == 0.5
    assert any("is now called" in note for note in reading.notes)
