"""Our answers for a Prometheus: bounded, with their doubt, and cheap to scrape."""

import re
import shutil
import subprocess

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as families
from pydantic import ValidationError

from collector.query import Selection, Window
from collector.reader import StoreReader
from domain.errors import StoreError
from stagewatch.summary.settings import SummarySettings
from tests.collector.storing import NOW_S, span, traces, writing
from tests.stagewatch.summary.worlds import World

PROMTOOL = shutil.which("promtool")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("summary"))


@pytest.fixture(scope="module")
def page(world):
    return world.page()


def samples(text, name, **labels):
    return [
        (sample.labels, sample.value)
        for family in families(text)
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]


def test_the_page_is_the_reviewed_one_golden(golden, page):
    told = [line for line in page.splitlines(keepends=True) if "_duration_seconds " not in line]

    golden("summary-page.txt", "".join(told))


def test_a_quantile_is_told_by_both_ends_of_its_doubt_as_the_query_door_knows_them(world, page):
    window = Window(since_s=int(NOW_S) - 3600, until_s=int(NOW_S))
    (series,) = world.reader.latency("ttft", Selection(window=window, by=("service",)))
    known = series.points[0].distribution.quantile(0.99)

    told = samples(page, "stagewatch_latency_quantile_seconds", latency="ttft", q="0.99")

    assert {labels["bound"]: value for labels, value in told} == {
        "low": known.low_s,
        "high": known.high_s,
    }
    assert samples(page, "stagewatch_latency_values", latency="ttft")[0][1] == 136


def test_what_nobody_measured_is_absent_and_not_zero(page):
    assert not samples(page, "stagewatch_latency_quantile_seconds", latency="kv_transfer")
    assert not samples(page, "stagewatch_stage_mean_seconds", stage="network")
    assert "nan" not in page.lower()


def test_requests_are_counted_since_the_process_began_and_what_nobody_counts_is_absent(page):
    told = samples(page, "stagewatch_service_requests_total", outcome="finished")

    assert told == [({"service": "vllm-tiny", "outcome": "finished"}, 136.0)]
    assert not samples(page, "stagewatch_service_tokens_total"), "no page counts tokens here"
    assert not samples(page, "stagewatch_service_requests_total", outcome="cancelled")


def test_a_counter_names_the_trace_of_its_slowest_request_in_openmetrics(world):
    text = world.page(openmetrics=True)
    slowest = world.reader.requests(
        Window(since_s=int(NOW_S) - 3600, until_s=int(NOW_S)), limit=1, slowest_by="e2e"
    )[0]

    (exemplar,) = [
        sample.exemplar
        for family in openmetrics(text)
        for sample in family.samples
        if sample.exemplar is not None and sample.labels["outcome"] == "finished"
    ]

    assert exemplar.labels == {"trace_id": slowest.trace_id.hex()}
    assert exemplar.value == pytest.approx(slowest.e2e_s)


def test_a_counter_does_not_fall_when_fewer_are_counted_later(world):
    from stagewatch.summary.requests import RequestCounts

    counts = RequestCounts(world.reader, ("service",), since_s=int(NOW_S) - 3600)
    groups = frozenset({(("service", "vllm-tiny"),)})
    wide, narrow = (
        Window(since_s=int(NOW_S) - 3600, until_s=until) for until in (int(NOW_S), int(NOW_S) - 130)
    )

    first, second = (
        counts.families(counts.count(window.until_s), groups, window) for window in (wide, narrow)
    )

    assert counts.count(narrow.until_s)["requests_finished"][("service", "vllm-tiny"),] < 136
    assert [s.value for s in second[0].samples] == [s.value for s in first[0].samples]


def test_every_objective_tells_state_burn_and_budget(world, page):
    states = samples(page, "stagewatch_objective_state", objective="chat-ttft")
    standing = world.night.ledger.standing("chat-ttft")

    assert [labels["state"] for labels, value in states if value] == ["page"]
    assert len(states) == 5
    burns = {
        labels["bound"]: value
        for labels, value in samples(
            page, "stagewatch_objective_burn_rate", objective="chat-ttft", window="1h"
        )
    }
    assert burns["low"] == float(standing.rules[0].long_burn[0])
    assert burns["low"] < burns["high"]
    left = samples(page, "stagewatch_objective_budget_remaining_ratio", objective="chat-ttft")
    assert {labels["bound"]: value for labels, value in left} == {
        "low": float(standing.budget.remaining_low),
        "high": float(standing.budget.remaining_high),
    }


def test_a_window_without_traffic_has_no_burn(page):
    assert samples(page, "stagewatch_objective_burn_rate", objective="search-ttft", window="1h")
    assert not samples(page, "stagewatch_objective_burn_rate", objective="search-ttft", window="5m")


def test_open_alerts_are_counted_with_whether_somebody_has_them(world, page):
    told = samples(page, "stagewatch_alerts_open", objective="chat-ttft")

    assert sum(value for _, value in told) == len(
        [
            each
            for each in world.night.ledger.alerts()
            if each.open and each.objective_id == "chat-ttft"
        ]
    )
    assert {labels["handled"] for labels, _ in told} <= {
        "no",
        "acknowledged",
        "silenced",
        "inhibited",
    }


def test_groups_are_bounded_the_busiest_stay_and_the_rest_is_counted(tmp_path, world):
    spans = [
        traces(
            *(span(100 * n + k, gen_ai__latency__e2e=1.0) for k in range(n)),
            **{"service.name": f"s{n:02}"},
        )
        for n in range(1, 9)
    ]
    with writing(tmp_path) as writer:
        for export in spans:
            writer.traces(export)
    text = world.page(reader=StoreReader(tmp_path, now=lambda: NOW_S), max_groups=3)

    told = {labels["service"] for labels, _ in samples(text, "stagewatch_latency_values")}
    assert told == {"s06", "s07", "s08"}
    assert samples(text, "stagewatch_answers_groups_left_out") == [({}, 5.0)]


def test_ten_thousand_hostile_names_are_a_hundred_groups_and_the_rest_is_counted(tmp_path, world):
    """More series than Prometheus should hold come in; how many go out is set."""
    export = ExportTraceServiceRequest()
    for n in range(10_000):
        one = traces(span(n + 1, gen_ai__latency__e2e=1.0), **{"service.name": f'"}}\n{n}\u202e'})
        export.resource_spans.extend(one.resource_spans)
    with writing(tmp_path) as writer:
        writer.traces(export)

    text = world.page(reader=StoreReader(tmp_path, now=lambda: NOW_S), max_groups=100)

    told = {labels["service"] for labels, _ in samples(text, "stagewatch_latency_values")}
    assert len(told) == 100
    ((_, left_out),) = samples(text, "stagewatch_answers_groups_left_out")
    assert 1000 < left_out < 10_000, "the collector itself lets no more names in than it is set to"
    assert len(text.splitlines()) < 2500


@pytest.mark.promtool
@pytest.mark.skipif(PROMTOOL is None, reason="there is no `promtool` on this machine")
def test_prometheus_own_check_finds_nothing_to_say(page):
    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stderr) == (0, "")


def test_a_scrape_works_nothing_out_and_the_first_only_asks(world):
    asked = []

    class Counting:
        def __getattr__(self, name):
            asked.append(name)
            return getattr(world.reader, name)

    summary = world.summary(reader=Counting())
    summary.tick(NOW_S)
    assert not asked, "nobody has asked yet"
    assert summary.told(NOW_S) is None
    summary.tick(NOW_S)
    worked = len(asked)
    assert worked > 0
    assert summary.told(NOW_S + 1) is not None
    summary.tick(NOW_S + 1)
    assert len(asked) == worked, "not yet time"
    summary.tick(NOW_S + 15)
    assert len(asked) == 2 * worked
    summary.tick(NOW_S + 330)
    assert len(asked) == 2 * worked, "nobody has asked for five minutes"


def test_what_is_too_old_is_not_told(world):
    summary = world.summary()
    summary.told(NOW_S)
    summary.tick(NOW_S)

    assert summary.told(NOW_S + 59) is not None
    assert summary.told(NOW_S + 61) is None


def test_a_store_that_cannot_be_read_is_said_and_asked_again(world):
    class Broken:
        def __init__(self):
            self.broken = True

        def __getattr__(self, name):
            if self.broken:
                raise StoreError("is gone", where="store", remedy="Mount it again.")
            return getattr(world.reader, name)

    reader = Broken()
    summary = world.summary(reader=reader)
    summary.told(NOW_S)
    with pytest.raises(StoreError, match="Mount it again"):
        summary.tick(NOW_S)
    reader.broken = False
    summary.tick(NOW_S + 15)

    assert summary.told(NOW_S + 15) is not None


def test_more_series_than_prometheus_should_hold_are_refused_with_the_way_out():
    with pytest.raises(ValidationError, match="lower max_groups"):
        SummarySettings(max_groups=5000, quantiles=(0.5, 0.9, 0.95, 0.99))


def test_hostile_names_stay_inside_their_quotes(page):
    names = re.findall(r'objective_info\{name="(.*?)",objective', page)

    assert any("<img" in name for name in names)
    assert not any('"' in name.replace('\\"', "") or "\n" in name for name in names)
