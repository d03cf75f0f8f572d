"""The exporter's own page: our names, both sides of every pair, and how the exporter is."""

import math
import shutil
import subprocess

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from exporters.delivery.delivery import Delivery
from exporters.delivery.export import Export
from exporters.delivery.outbox import Outbox
from exporters.engine.failure import ScrapeError
from exporters.engine.own_page import LE_S, OwnPage
from exporters.engine.target import TargetState
from tests.exporters.pages_of import SECOND_NS, page, read_folder, scrapes, total
from tests.exporters.test_target import histogram
from tests.exporters.test_text import by_prometheus_client
from tests.paths import RECORDED

TARGET = (("replica", "r0"), ("service", "chat"))


def shown(*readings, delivery=None):
    own = OwnPage(delivery)
    for reading in readings:
        own.update(reading)
    registry = CollectorRegistry()
    registry.register(own)
    return generate_latest(registry).decode()


def values(text, name, **labels):
    """Values of one sample name by its `le`, of series that carry these labels."""
    return {
        le: value
        for (own, pairs, le), value in by_prometheus_client(text).items()
        if own == name and labels.items() <= dict(pairs).items()
    }


@pytest.fixture(scope="module")
def overload():
    return read_folder(RECORDED / "vllm" / "overload", replica="r0")


@pytest.fixture(scope="module")
def text(overload):
    box = Outbox(None, max_bytes=1000, max_age_s=10)
    for at_ns in range(3):
        box.put(Export(owner=TARGET, at_ns=at_ns, body=b"x" * 17))
    box.take(1)
    box.settle(refused=True)
    box.release()
    box.counts["sent"] += 2
    return shown(*overload, delivery=Delivery(box, None))


@pytest.mark.parametrize("metric", ["ttft", "itl", "tpot", "e2e", "queue", "prefill", "decode"])
def test_both_sides_are_what_the_pair_says_at_every_edge(overload, text, metric):
    pair = total(overload, metric)
    low, high = (
        values(text, f"stagewatch_{metric}_seconds_bucket", bound=bound)
        for bound in ("low", "high")
    )

    for le in LE_S:
        assert (high[le], low[le]) == pair.at_most(le)
    assert high[math.inf] == low[math.inf] == pair.n


def test_sums_and_counts_stand_beside_the_buckets(overload, text):
    name = "stagewatch_e2e_seconds"

    assert values(text, f"{name}_count", bound="low") == {None: 134}
    assert values(text, f"{name}_sum", bound="high")[None] == pytest.approx(
        total(overload, "e2e").sum_s
    )


def test_counters_add_up_over_all_scrapes(text):
    assert values(text, "stagewatch_requests_started_total") == {None: 144}
    assert values(text, "stagewatch_requests_finished_total", finish_reason="length") == {None: 134}
    assert values(text, "stagewatch_preemptions_total", model="tiny", service="chat") == {None: 39}


def test_gauges_are_the_last_ones(text):
    assert values(text, "stagewatch_up") == {None: 1}
    assert values(text, "stagewatch_kv_cache_usage_ratio") == {None: 0}


def test_what_waits_for_the_collector_is_shown_by_whose_it_is(text):
    (waiting,) = values(text, "stagewatch_spooled_bytes", service="chat", replica="r0").values()
    (age_s,) = values(text, "stagewatch_spooled_age", service="chat", replica="r0").values()

    assert 2 * 17 < waiting < 200
    assert 0 <= age_s < 60
    assert values(text, "stagewatch_exporter_spool_bytes", where="memory") == {None: waiting}
    assert values(text, "stagewatch_exporter_spool_bytes", where="disk") == {None: 0}


def test_what_was_lost_is_shown_by_whose_it_was_and_why(text):
    lost = values(text, "stagewatch_exports_dropped_total", service="chat", reason="refused")

    assert lost == {None: 1}
    assert values(text, "stagewatch_exporter_exports_total", outcome="sent") == {None: 2}


def test_a_sum_that_was_not_believed_once_is_not_a_number_from_then_on():
    readings = scrapes(
        histogram([]), histogram([0.2], total=-9.0), histogram([0.2, 0.3], total=-8.7)
    )

    text = shown(*readings)

    assert math.isnan(values(text, "stagewatch_ttft_seconds_sum", bound="low")[None])
    assert values(text, "stagewatch_ttft_seconds_count", bound="low") == {None: 2}
    assert values(text, "stagewatch_refused_sums_total", reason="ttft") == {None: 1}


def test_a_target_that_is_down_shows_its_reason_and_no_stale_gauge():
    state = TargetState(TARGET)
    good = state.observe(page('vllm:num_requests_running{model_name="m"} 3\n'), SECOND_NS)
    down = state.failed(ScrapeError("refused", "no", where="x", remedy="y"), 2 * SECOND_NS)

    text = shown(good, down)

    assert values(text, "stagewatch_up", reason="refused") == {None: 0}
    assert values(text, "stagewatch_requests_running") == {}
    assert values(text, "stagewatch_failed_scrapes_total", reason="refused") == {None: 1}


def test_what_the_engine_no_longer_reports_is_named():
    readings = scrapes('vllm:kv_cache_usage_perc{model_name="m"} 0.5\n', "vllm:other 1\nx 1\n")

    text = shown(*readings)

    assert values(text, "stagewatch_exporter_metric_absent", metric="kv_cache_usage") == {None: 1}


def test_nothing_read_is_a_page_without_samples_of_engines():
    assert not values(shown(), "stagewatch_up")


@pytest.mark.promtool
@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_prometheus_finds_nothing_to_complain_about(text):
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False
    )

    assert checked.stdout + checked.stderr == ""
    assert checked.returncode == 0
