"""The fleet in real time: real pages, real exports, and both say the same."""

import threading
from collections import Counter

import httpx
import pytest

from domain.errors import ConfigError, InputError
from stagewatch.demo.serve import run_fleet
from stagewatch.demo.settings import FleetSettings
from tests.demo.pages import parse
from tests.demo.sink import Sink


class Running:
    """A fleet in a thread of its own."""

    def __init__(self, settings):
        self.stop = threading.Event()
        self.targets = None
        self.error = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(settings,))

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(20)
        return self

    def __exit__(self, *error):
        self.end()

    def end(self):
        self.stop.set()
        self._thread.join(10)
        assert not self._thread.is_alive()

    def page(self, replica):
        target = next(t for t in self.targets if t["replica"] == replica)
        with httpx.Client(trust_env=False) as client:
            return parse(client.get(target["url"]).raise_for_status().text)

    def _run(self, settings):
        run_fleet(settings, self.stop, self._told)

    def _told(self, targets):
        self.targets = targets
        self._ready.set()


@pytest.fixture(scope="module")
def lived():
    """A fleet that has lived for some seconds: its targets, last pages and everything it sent."""
    with Sink() as sink:
        settings = FleetSettings(
            endpoint=sink.url, speed=5.0, load=2.0, export_every_s=0.2, client_share=1.0
        )
        with Running(settings) as fleet:
            sink.wait_for(lambda s: len(s.spans) > 150)
            pages = {target["replica"]: fleet.page(target["replica"]) for target in fleet.targets}
            fleet.end()
        yield fleet, pages, sink


def test_every_replica_has_a_page_that_an_exporter_can_be_pointed_at(lived):
    fleet, pages, _ = lived

    assert len({target["url"] for target in fleet.targets}) == len(pages) == 8
    for target in fleet.targets:
        assert target["service"] in ("assistant", "code")
        assert target["role"] in ("prefill", "decode", "both")
        assert target["labels"]["zone"].startswith(target["labels"]["region"])


def test_pages_show_what_was_sent_and_no_more(lived):
    _, pages, sink = lived
    sent = Counter(
        next(a.value.string_value for a in resource.attributes if a.key == "service.instance.id")
        for resource, span in sink.spans
        if span.name == "llm_request"
    )

    for replica, page in pages.items():
        assert 0 <= page.value("vllm:e2e_request_latency_seconds_count") <= sent[replica]
    assert sum(p.value("vllm:e2e_request_latency_seconds_count") for p in pages.values()) > 0


def test_time_stamps_are_those_of_the_wall(lived):
    _, pages, sink = lived
    created_s = pages["code-0"].value("vllm:time_to_first_token_seconds_created")

    for _, span in sink.spans:
        assert 0 < span.end_time_unix_nano / 1e9 - created_s < 60


def test_the_fleet_ends_within_moments_of_being_told_to():
    with Sink() as sink, Running(FleetSettings(endpoint=sink.url)) as fleet:
        fleet.end()


def test_a_collector_that_is_away_does_not_keep_the_pages_from_being_served():
    with Running(FleetSettings(endpoint="http://127.0.0.1:9")) as fleet:
        assert fleet.page("code-1").kinds["vllm:num_requests_running"] == "gauge"


def test_a_taken_port_is_named_with_the_way_out():
    with Running(FleetSettings(endpoint="http://127.0.0.1:9")) as fleet:
        port = int(fleet.targets[0]["url"].split(":")[2].split("/")[0])

        with pytest.raises(ConfigError, match=f"{port}.*another base port"):
            run_fleet(FleetSettings(base_port=port), threading.Event())


def test_a_trace_that_cannot_be_read_is_an_error_before_anything_starts(tmp_path):
    settings = FleetSettings(trace=tmp_path / "gone.csv")

    with pytest.raises(InputError, match=r"gone\.csv"):
        run_fleet(settings, threading.Event())


def test_a_replayed_trace_is_what_the_assistant_gets(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("t_ms,isl,osl\n" + "".join(f"{at},777,3\n" for at in range(0, 4000, 100)))
    with Sink() as sink:
        settings = FleetSettings(endpoint=sink.url, trace=path, export_every_s=0.1)
        with Running(settings):
            sink.wait_for(lambda s: len(_prompts(s, "assistant")) > 10)

            assert set(_prompts(sink, "assistant")) == {777}


def _prompts(sink, service):
    found = []
    for resource, span in sink.spans:
        owner = {a.key: a.value.string_value for a in resource.attributes}["service.name"]
        values = {a.key: a.value.int_value for a in span.attributes}
        if owner == service and "gen_ai.usage.prompt_tokens" in values:
            found.append(values["gen_ai.usage.prompt_tokens"])
    return found
