"""The pages of requests, of probes and of ourselves, as values, over a real store."""

import numpy as np
import pytest

from collector.query import Selection, Window
from collector.reader import StoreReader
from collector.store import open_store
from dashboard import explorer, probes, request
from dashboard.curves import chart_regions
from dashboard.url import View
from dashboard.viewer import Viewer
from tests.dashboard.memory import MemoryLedger, MemoryReader
from tests.dashboard.outside_scene import HOSTILE, NOW, SLOWEST, scene, trace_id
from tests.dashboard.told import told_of as to_json
from tests.dashboard.worlds import WORLDS

VIEWER = Viewer(now_s=NOW, prefix="/watch/", host="watch.example")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("outside")
    scene(path, trouble=True)
    return path


@pytest.fixture(scope="module")
def reader(folder):
    made = StoreReader(folder, now=lambda: float(NOW))
    yield made
    made.close()


@pytest.fixture(scope="module")
def ledger():
    return MemoryLedger(MemoryReader(WORLDS["healthy"](NOW)))


@pytest.fixture
def empty(tmp_path):
    open_store(tmp_path).close()
    made = StoreReader(tmp_path, now=lambda: float(NOW))
    yield made
    made.close()


def shown(module, link, reader, ledger):
    path, _, query = link.partition("?")
    return module.content(reader, ledger, View.from_link(path, query), VIEWER)


def said(content, *names):
    return to_json([content.regions[name] for name in names])


def test_the_slowest_stands_first_and_leads_to_its_page(reader, ledger):
    content = shown(explorer, "/requests", reader, ledger)

    rows = content.regions["requests"].children[1].children.children[2].children
    assert f"/watch/requests/{trace_id(SLOWEST)}" in to_json(rows[0])
    assert "6.4 s" in to_json(rows[0])  # in the queue
    assert len(rows) == 50
    assert "160 requests in the last 1 h, 6 failed" in said(content, "state")


def test_filters_leave_only_what_fits_and_can_be_lifted(reader, ledger):
    content = shown(
        explorer, "/requests?over=1&status=ok&where=service%3Dchat&metric=queue", reader, ledger
    )

    told = said(content, "state", "choices")
    assert "1 of 160 requests" in told
    assert "queue above" in told
    assert "Lift the filter service" in told


def test_what_no_request_is_like_says_so_and_shows_all(reader, ledger):
    content = shown(explorer, "/requests?over=500", reader, ledger)

    assert "None of them is like that" in said(content, "requests")
    assert "/watch/requests" in said(content, "requests")


def test_dots_lead_to_requests_and_steps_to_theirs(reader, ledger):
    content = shown(explorer, "/requests", reader, ledger)

    cloud, bands = content.charts["cloud"], content.charts["bands"]
    ids = [each for trace in cloud["data"] for each in trace["customdata"]]
    assert trace_id(SLOWEST) in ids
    assert cloud["layout"]["meta"]["one"] == "/watch/requests/"
    assert bands["layout"]["meta"] == {"open": "/watch/requests", "step_s": 120}


def test_without_requests_the_next_command_stands_there(empty, ledger):
    content = shown(explorer, "/requests", empty, ledger)

    assert "--otlp-traces-endpoint http://watch.example:4318/v1/traces" in said(content, "requests")


def test_points_of_a_service_lead_to_the_requests_behind_them(reader):
    window = Window(since_s=NOW - 3600, until_s=NOW)
    where = (("service", "chat"),)
    view = View(service="chat")

    figures, regions = chart_regions(
        reader,
        Selection(window=window, where=where),
        (),
        names=[],
        marks=[],
        view=view,
        viewer=VIEWER,
    )

    meta = {metric: figure["layout"]["meta"] for metric, figure in figures.items()}
    assert meta["ttft"] == {"open": "/watch/requests?where=service%3Dchat", "step_s": 60}
    assert meta["itl"]["open"].endswith("metric=itl_max")
    links = to_json(regions["table-ttft"])
    assert "/watch/requests?from=" in links


def test_one_request_says_where_its_time_went_and_what_it_broke(reader, ledger):
    content = shown(request, f"/requests/{trace_id(SLOWEST)}", reader, ledger)

    assert "Longest: queue, 6.4 s" in said(content, "state")
    assert "broke 1" in said(content, "verdicts")
    promises = said(content, "promises")
    assert promises.index("broken") < promises.index("kept")
    assert "TTFT at most 1.5 s" in promises
    assert trace_id(SLOWEST) in said(content, "ids")
    assert "kv" in said(content, "waterfall").lower()


def test_the_replica_s_load_and_gpus_of_that_time_stand_there(reader, ledger):
    content = shown(request, f"/requests/{trace_id(SLOWEST)}", reader, ledger)

    load, gpus = said(content, "load"), said(content, "gpus")
    assert '"14"' in load
    assert "93 %" in load
    assert "GPU 0" in gpus
    assert "60 °C" in gpus


def test_a_replica_that_nobody_watches_says_what_is_missing(tmp_path, ledger):
    from tests.collector.storing import writing
    from tests.dashboard.outside_scene import requests, together

    with writing(tmp_path, now=lambda: float(NOW)) as writer:
        writer.traces(together(requests(1)))
        writer.settle()
    alone = StoreReader(tmp_path, now=lambda: float(NOW))

    content = shown(request, f"/requests/{trace_id(1)}", alone, ledger)
    alone.close()

    assert "no engine page was read then" in said(content, "load")
    assert "no GPU is known to serve its replicas" in said(content, "gpus")
    assert "was not measured: no client told" in said(content, "waterfall")


@pytest.mark.parametrize("name", ["zz", "a" * 31, HOSTILE, "0" * 32])
def test_a_request_that_is_not_kept_says_so(reader, ledger, name):
    content = shown(request, View(alone="request", one=name).link(), reader, ledger)

    assert "No such request is kept" in said(content, "state")


def test_probes_say_floor_failures_lumps_and_money(reader, ledger):
    content = shown(probes, "/probes", reader, ledger)

    targets, findings = said(content, "targets"), said(content, "findings")
    assert "http 429" in said(content, "state")
    assert "10 of 60 probes failed. Next: raise the quota" in findings
    assert "in lumps from gateway.example" in findings
    assert targets.index("ap-south-1") < targets.index("eu-west-1")
    assert "DNS" in targets
    assert "95 % of 10.00 $" in targets


def test_a_target_that_fell_silent_is_not_observed(reader, ledger):
    later = Viewer(now_s=NOW + 1200)

    content = probes.content(reader, ledger, View(alone="probes"), later)

    assert "not observed" in said(content, "state")
    assert "Next: look whether its sidecar runs" in said(content, "findings")


def test_without_probes_the_command_stands_there(empty, ledger):
    content = shown(probes, "/probes", empty, ledger)

    assert "stagewatch exporter probe --target" in said(content, "targets")
    assert content.regions["state"] is None


def test_any_window_of_any_page_can_be_asked_for(reader, ledger):
    for span in ("now-60s", "now-7d", "now-30d", "now-400d"):
        for module, path in ((explorer, "/requests"), (probes, "/probes")):
            content = shown(module, f"{path}?from={span}", reader, ledger)
            for figure in content.charts.values():
                for trace in figure["data"]:
                    assert len(np.atleast_1d(trace["x"])) == len(np.atleast_1d(trace["y"]))
