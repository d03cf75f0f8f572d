"""Whose page it is: told by what it contains; a stranger's page is a failed scrape that says so."""

import pytest

from exporters.engine.engines import ENGINES, WANTED
from exporters.engine.failure import ScrapeError
from exporters.engine.recognition import engines_of, strangers
from exporters.engine.target import TargetState
from exporters.engine.text import PageParser, page_of
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

WEB_SERVER = "# TYPE nginx_connections gauge\nnginx_connections 3\nprocess_open_fds 9\n"
TITLES = {
    "vllm-0.8.5-agg": "vLLM",
    "sglang-0.5.23-unified": "SGLang",
    "tgi-3.3.7-synthetic-1": "Hugging Face TGI",
    "lmdeploy-HEAD-1": "LMDeploy",
    "litellm-1.110.2-1": "LiteLLM proxy",
    "triton-tensorrtllm-1": "Triton with TensorRT-LLM",
    "llamacpp-docker-model-runner-1": "llama.cpp",
    "dynamo-frontend-0.7-1": "NVIDIA Dynamo, frontend",
    "dynamo-worker-trtllm-1.x-1": "TensorRT-LLM, NVIDIA Dynamo, worker",
}


@pytest.mark.parametrize("name", TITLES)
def test_a_page_is_recognised_by_its_families(name):
    assert from_start(engine_page(name)).engine == TITLES[name]


def test_the_page_of_dynamos_frontend_is_no_workers():
    text = (RECORDED / "dynamo" / "98-after-frontend.prom").read_text()

    assert "dynamo_component_router_requests_total" in text
    assert [engine.title for engine in engines_of(page(text))] == ["NVIDIA Dynamo, frontend"]


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.title)
def test_an_engine_that_has_declared_its_families_and_no_sample_yet_is_up(engine):
    name = engine.beginnings[0] if not engine.marks else engine.marks[0]

    reading = from_start(f"# TYPE {name}something gauge\npython_info 1\n")

    assert reading.up
    assert engine.title in reading.engine


def test_an_engine_is_recognised_by_families_of_its_that_are_in_no_table():
    assert from_start("vllm:brand_new 1\nother 2\n").engine == "vLLM"


@pytest.mark.parametrize("prefix", ["sglang:", "sglang_"])
def test_re_exporters_that_write_an_underscore_are_understood(prefix):
    name = f"{prefix}time_to_first_token_seconds"

    reading = from_start(histogram([0.2], name=name, labels='model_name="m",worker_addr="w"'))

    assert latency(reading, "ttft").n == 1
    assert dict(reading.latencies[0].labels)["engine"] == "sglang"


def test_the_names_of_ray_serve_are_those_of_vllm_behind_a_prefix():
    name = "ray_vllm_time_to_first_token_seconds"
    replicas = "".join(
        histogram([0.2], name=name, labels=f'model_name="m",ReplicaId="{replica}",WorkerId="w"')
        for replica in ("a", "b")
    )

    reading = from_start(replicas)

    assert reading.engine == "Ray Serve LLM"
    assert latency(reading, "ttft").n == 2
    assert dict(reading.latencies[0].labels)["engine"] == "vllm"


def test_trtllm_before_prefixes_says_undefined_which_is_no_model():
    text = histogram([0.2], name="time_to_first_token_seconds", labels='model_name="undefined"')

    reading = from_start(text)

    assert latency(reading, "ttft").n == 1
    assert dict(reading.latencies[0].labels) == {
        "engine": "trtllm",
        "replica": "r0",
        "service": "chat",
        "source": "page",
    }


def test_a_strangers_page_is_a_failed_scrape_that_says_what_it_has_and_lacks():
    reading = from_start(WEB_SERVER)

    assert not reading.up
    assert level(reading, "up") == 0
    assert increments(reading, "failed_scrapes", by="reason") == {"unknown_page": 1}
    (note,) = reading.notes
    assert "it has nginx_connections" in note
    assert "process_open_fds" not in note
    assert "vllm:" in note
    assert "sglang:" in note
    assert "docs/watch-any-engine.md" in note


def test_a_page_of_nothing_but_its_process_says_at_least_that():
    assert "it has process_open_fds" in strangers(page("process_open_fds 3\n"))


def test_many_families_of_a_stranger_are_not_all_listed():
    text = "".join(f"family_{number} 1\n" for number in range(100))

    assert "and 96 more families" in strangers(page(text))


def test_a_name_of_a_million_letters_is_cut():
    assert len(strangers(page(f"{'x' * 1_000_000} 1\n"))) < 1000


def test_a_strangers_page_in_between_costs_nothing_that_was_counted():
    state = TargetState(TARGET)
    state.observe(page(histogram([0.2])), SECOND_NS)
    state.observe(page(WEB_SERVER), 2 * SECOND_NS)

    reading = state.observe(page(histogram([0.2, 0.3])), 3 * SECOND_NS)

    assert latency(reading, "ttft").n == 1
    assert increments(reading, "schema_drift") is None


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        ("[]", "json", "/prometheus/metrics"),
        ('{"a": 1}', "json", "looks like JSON"),
        ('"# HELP llamacpp:x y\\n"', "json_string", "looks like a JSON string"),
        ("", "empty", "the body is empty"),
        ("\n \n", "empty", "the body is empty"),
        ("<html><body>404</body></html>", "html", "looks like HTML"),
        ("# TYPE a gauge\n", "no_samples", "comments but no samples"),
        ("hello\n", "not_prometheus", "it begins 'hello"),
    ],
)
def test_every_body_that_is_no_page_has_its_own_message(body, reason, words):
    with pytest.raises(ScrapeError, match=words) as caught:
        PageParser(WANTED.__contains__).parse(body)

    assert caught.value.reason == reason


def test_14_a_json_escaped_page_is_a_failed_scrape_with_a_message():
    with pytest.raises(ScrapeError, match="looks like a JSON string") as caught:
        page(engine_page("llamacpp-b7100-jsonescaped-1"))

    assert caught.value.reason == "json_string"


def test_two_engines_words_about_one_thing_count_once():
    both = (
        'vllm:kv_cache_usage_perc{model_name="m"} 0.25\n'
        'dynamo_component_gpu_cache_usage_percent{dynamo_component="backend"} 0.75\n'
        'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 2\n'
    )

    reading = from_start(both)

    assert level(reading, "kv_cache_usage") == 0.25
    assert level(reading, "requests_running") == 2


def test_the_second_engines_word_counts_where_the_first_says_nothing():
    worker = (
        'dynamo_component_inflight_requests{dynamo_endpoint="generate"} 2\n'
        'dynamo_component_gpu_cache_usage_percent{dynamo_component="backend"} 0.75\n'
    )

    assert level(from_start("vllm:other 1\n" + worker), "kv_cache_usage") == 0.75


def test_what_the_second_engine_had_counted_before_is_not_news_when_the_first_falls_silent():
    name = "dynamo_component_request_duration_seconds"
    labels = 'dynamo_component="backend",dynamo_endpoint="generate"'
    before = histogram([0.5] * 100, name=name, labels=labels)
    first = histogram([0.5] * 100, name="vllm:e2e_request_latency_seconds")

    readings = scrapes(first + before, before, before.replace("} 100\n", "} 101\n"))

    assert latency(readings[0], "e2e") is None
    assert latency(readings[1], "e2e").n == 1


def test_samples_that_did_not_come_as_text_are_a_page_like_any_other():
    text = histogram([0.2, 0.3])
    parsed = PageParser(lambda _: True).parse(text)
    samples = [
        (
            series.name,
            {**dict(series.labels), **({} if series.le is None else {"le": str(series.le)})},
            value,
        )
        for name in parsed.names()
        for series, value in parsed.samples(name)
    ]

    told = TargetState(TARGET, from_zero=True).observe(page_of(samples), SECOND_NS)

    assert latency(told, "ttft").n == 2
    assert latency(told, "ttft").sum_s == pytest.approx(0.5)


def test_a_sample_whose_edge_is_no_number_makes_its_family_suspect():
    told = page_of(
        [("vllm:x_bucket", {"le": "wide"}, 1.0), ("vllm:y", {}, 1.0), ("vllm:y", {}, 2.0)]
    )

    assert told.suspects == {"vllm:x_bucket", "vllm:y"}
