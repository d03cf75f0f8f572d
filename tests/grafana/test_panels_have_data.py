"""Every panel of every dashboard finds data in a real Prometheus that scraped the real pages."""

import os
import shutil
import subprocess
import time
import urllib.request

import pytest

from tests.e2e.prometheus_process import BINARY
from tests.fake_nvml.library import needs_gcc
from tests.grafana.expressions import answer, asked, dashboards, panels
from tests.grafana.fleet_process import scraped

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BINARY is None, reason="there is no `prometheus` on this machine"),
    needs_gcc,
]
JOBS = ("cloudwatch", "gpu", "night", "probe", "sidecar", "stagewatch", "trouble")
PROMTOOL = shutil.which("promtool")
SCRAPED_S = float(os.environ.get("GRAFANA_TEST_S", "40"))
EVERY = [
    pytest.param(panel, id=f"{name}: {panel['title']}")
    for name, board in dashboards().items()
    for panel in panels(board)
]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    with (
        pytest.MonkeyPatch.context() as patch,
        scraped_with_credentials(patch, tmp_path_factory.mktemp("grafana")) as found,
    ):
        yield found


def scraped_with_credentials(patch, folder):
    patch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    patch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return scraped(folder, SCRAPED_S)


def over_time(prometheus, expression):
    """As a panel asks: a scrape that came too late makes a gap and no more."""
    window = {"start": time.time() - SCRAPED_S, "end": time.time(), "step": 2}
    return answer(prometheus, "query_range", query=expression, **window)["result"]


@pytest.mark.parametrize("panel", EVERY)
def test_every_query_of_a_panel_finds_data(prometheus, panel):
    found = {t["expr"]: over_time(prometheus, asked(t["expr"])) for t in panel["targets"]}

    assert all(found.values()), [expression for expression, told in found.items() if not told]


def test_every_page_was_scraped(prometheus):
    assert {
        each["metric"]["job"]: each["value"][1] for each in prometheus.ask("max_over_time(up[1m])")
    } == dict.fromkeys(JOBS, "1")


def targets(prometheus):
    return answer(prometheus, "targets", state="active")["activeTargets"]


@pytest.mark.skipif(PROMTOOL is None, reason="there is no `promtool` on this machine")
@pytest.mark.parametrize("job", [*JOBS, "collector"])
def test_prometheus_own_check_finds_nothing_to_say_of_a_page(prometheus, job):
    pages = {each["scrapePool"]: each["scrapeUrl"] for each in targets(prometheus)}
    url = {**pages, "collector": prometheus.collectors_page}[job]
    with urllib.request.urlopen(url, timeout=20) as page:  # noqa: S310 - loopback
        text = page.read()

    checked = subprocess.run(
        [PROMTOOL, "check", "metrics"], input=text, capture_output=True, check=False
    )

    assert (checked.returncode, checked.stderr.decode()) == (0, "")


def test_no_sample_was_refused_for_its_time_or_its_labels(prometheus):
    assert not [each["lastError"] for each in targets(prometheus) if each["lastError"]]
    assert "Error on ingesting" not in prometheus.said


def test_a_value_of_cloudwatch_is_filed_under_its_own_minute(prometheus):
    (series, *_) = prometheus.ask("stagewatch_endpoint_latency_seconds[30m]")

    for at_s, _ in series["values"]:
        assert at_s % 60 == 0
        assert time.time() - at_s >= 180


def test_the_summary_and_the_sidecar_tell_of_the_same_services(prometheus):
    ours = prometheus.ask("group by (service) (stagewatch_latency_values{job='stagewatch'})")
    theirs = prometheus.ask("group by (service) (stagewatch_up{job='sidecar'})")

    names = [{each["metric"]["service"] for each in found} for found in (ours, theirs)]
    assert names[0] == names[1] == {"assistant", "code"}


def test_prometheus_keeps_the_traces_of_slow_requests(prometheus):
    found = answer(
        prometheus,
        "query_exemplars",
        query="stagewatch_service_requests_total",
        start=0,
        end=10**10,
    )

    assert any(
        len(each["labels"]["trace_id"]) == 32 for series in found for each in series["exemplars"]
    )


def test_the_annotations_find_alerts(prometheus):
    (alerts, engines) = (
        each["expr"] for each in dashboards()["fleet"]["annotations"]["list"] if each.get("expr")
    )

    assert {each["metric"]["severity"] for each in prometheus.ask(alerts)} == {"page", "ticket"}
    assert prometheus.ask(engines)[0]["metric"]["condition"] == "engine stalled"
