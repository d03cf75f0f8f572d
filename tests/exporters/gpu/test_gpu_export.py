"""From the driver to an answer: exports, the store, and what the query door says of GPUs."""

import gzip
import subprocess
import sys
import time
from itertools import pairwise

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from collector.query import Selection, Window
from collector.reader import StoreReader
from domain.metric import METRICS, Kind
from exporters.engine import otlp
from exporters.engine.otlp import export_request
from exporters.gpu.export import Exports
from exporters.gpu.fleet import Fleet
from tests.collector.storing import NOW_S, writing
from tests.exporters.fake_engine import answering, serving
from tests.exporters.gpu.test_gpu_page import message, named
from tests.exporters.gpu.watching import watching

OK = ExportMetricsServiceResponse().SerializeToString()
TOKEN = "hush"  # noqa: S105 - nobody's
AT_NS = int(NOW_S - 60) * 10**9
SECOND_NS = 10**9


def fleet_of(*gpus):
    fleet = Fleet(deadline_s=3.0)
    fleet.take({"kind": "driver", "up": True, "version": "580", "count": len(gpus)}, 99.0)
    return fleet


def told(exports, fleet, at_ns=AT_NS, now_s=100.0):
    return exports.reading(fleet, now_s=now_s, at_ns=at_ns)


def levels(reading, metric):
    return {
        dict(each.labels).get("gpu_uuid", ""): each.value
        for each in reading.levels
        if each.metric == metric
    }


def increments(reading, metric):
    return [each for each in reading.increments if each.metric == metric]


def test_a_gauge_is_folded_as_its_kind_says():
    fleet, exports = fleet_of("a"), Exports("node-1", AT_NS)
    for power, degrees, clock in ((100.0, 50.0, 1.9e9), (300.0, 70.0, 1.2e9), (200.0, 60.0, 1.5e9)):
        values = {"gpu_power": power, "gpu_temperature": degrees, "gpu_sm_clock": clock}
        fleet.take(message(levels=values), 100.0)

    reading = told(exports, fleet)

    assert levels(reading, "gpu_power") == {"GPU-a": pytest.approx(200.0)}
    assert levels(reading, "gpu_temperature") == {"GPU-a": 70.0}
    assert levels(reading, "gpu_sm_clock") == {"GPU-a": 1.2e9}


def test_a_gauge_is_sent_once_and_then_only_what_is_new():
    fleet, exports = fleet_of("a"), Exports("node-1", AT_NS)
    fleet.take(message(), 100.0)

    first, second = told(exports, fleet), told(exports, fleet, AT_NS + SECOND_NS)

    assert levels(first, "gpu_power")
    assert not levels(second, "gpu_power")
    assert levels(second, "gpu_up") == {"GPU-a": 1.0}


def test_intervals_of_a_counter_touch_and_add_up_to_its_growth():
    fleet, exports = fleet_of("a"), Exports("node-1", AT_NS)
    found = []
    for turn, energy in enumerate((1000.0, 1500.0, 20.0, 70.0)):
        at_ns = AT_NS + turn * SECOND_NS
        fleet.take(message(totals={"gpu_energy": energy}, at_ns=at_ns - 1), 100.0)
        reading = told(exports, fleet, at_ns)
        found += [(each.start_at_ns, reading.at_ns, each.by) for each in reading.increments]

    assert [by for *_, by in found] == [500.0, 0.0, 50.0]
    assert all(end == start for (_, end, _), (start, _, _) in pairwise(found))


def test_a_gpu_that_is_down_sends_its_state_and_no_values():
    fleet, exports = fleet_of("a"), Exports("node-1", AT_NS)
    fleet.take(message(), 100.0)

    reading = told(exports, fleet, now_s=104.0)

    assert levels(reading, "gpu_power") == {}
    assert levels(reading, "gpu_up") == {"GPU-a": 0.0}
    assert {
        dict(each.labels)["reason"] for each in reading.levels if each.metric == "gpu_down"
    } == {"stale"}


def test_an_xid_is_an_increment_once_and_its_time_stays():
    fleet, exports = fleet_of("a"), Exports("node-1", AT_NS)
    fleet.take(message(), 100.0)
    for _ in range(2):
        fleet.take({"kind": "event", "id": "GPU-a", "index": 0, "xid": 79, "at_ns": AT_NS}, 100.0)

    first, second = told(exports, fleet), told(exports, fleet, AT_NS + SECOND_NS)

    assert [
        (each.by, dict(each.labels)["reason"]) for each in increments(first, "gpu_xid_errors")
    ] == [(2, "79")]
    assert increments(second, "gpu_xid_errors") == []
    assert levels(second, "gpu_xid_last") == {"GPU-a": AT_NS / 1e9}


def test_no_export_calls_gpus_a_service_or_an_instance_of_one(monkeypatch):
    """An instance made up anew at each start would make every series anew."""
    environment = "cloud.region=us%2D1,service.name=wrong,service.instance.id=7,stray"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", environment)
    otlp._resource.cache_clear()
    fleet, exports = fleet_of("a"), Exports("node-1", AT_NS)
    fleet.take(message(), 100.0)

    (resource,) = export_request(told(exports, fleet)).resource_metrics

    attributes = {each.key: each.value.string_value for each in resource.resource.attributes}
    otlp._resource.cache_clear()
    assert attributes == {"stagewatch.node": "node-1", "cloud.region": "us-1"}


def test_what_a_gpu_sidecar_sends_does_not_cost_it_the_sdk():
    code = (
        "import sys; from exporters.gpu.export import Exports; from exporters.gpu.fleet import Fleet;"
        " from exporters.engine.otlp import export_request;"
        " read = Exports('n', 1).reading(Fleet(deadline_s=3), now_s=1, at_ns=2);"
        " assert export_request(read).ByteSize(); print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )

    assert not [name for name in loaded.stdout.split() if name.startswith("opentelemetry.sdk")]


@pytest.fixture
def stored(tmp_path):
    """Two GPUs of one node in a store, after two exports."""
    fleet, exports = fleet_of("a", "b"), Exports("node-1", AT_NS - 10 * SECOND_NS)
    requests = []
    for turn in range(2):
        at_ns = AT_NS + turn * 10 * SECOND_NS
        for place, uuid in enumerate(("GPU-a", "GPU-b")):
            named(fleet, name="H100")
            values = {
                "gpu_power": 100.0 + 200 * place,
                "gpu_temperature": 40.0 + 30 * place,
                "gpu_sm_clock": 1.98e9 - 0.7e9 * place,
                "gpu_busy": 0.5 + 0.5 * place,
            }
            totals = {"gpu_energy": 1000.0 * turn, "gpu_throttle/hw_thermal": 4.0 * turn * place}
            fleet.take(
                message(id=uuid, index=place, levels=values, totals=totals, at_ns=at_ns - 1), 100.0
            )
        requests.append(export_request(told(exports, fleet, at_ns)))
    with writing(tmp_path) as writer:
        for request in [*requests, requests[0]]:  # one comes twice
            writer.metrics(request)
    reader = StoreReader(tmp_path)
    yield reader
    reader.close()


def asked(reader, metric, *by, **where):
    window = Window(since_s=int(NOW_S) - 120, until_s=int(NOW_S))
    selection = Selection(window=window, by=by, where=tuple(where.items()))
    return {
        dict(each.labels).get(by[0] if by else "", ""): each.points[0]
        for each in reader.numbers(metric, selection)
    }


def test_each_gpu_answers_by_its_uuid(stored):
    power = asked(stored, "gpu_power", "gpu_uuid")

    assert {uuid: point.last for uuid, point in power.items()} == {"GPU-a": 100.0, "GPU-b": 300.0}


@pytest.mark.parametrize(
    ("metric", "together"),
    [
        ("gpu_power", 400.0),
        ("gpu_temperature", 70.0),
        ("gpu_sm_clock", 1.28e9),
        ("gpu_busy", 0.75),
        ("gpu_up", 1.0),
    ],
)
def test_gpus_together_are_added_averaged_or_the_extreme_of_them(stored, metric, together):
    (point,) = asked(stored, metric).values()

    assert point.value == pytest.approx(together)
    assert point.last == pytest.approx(together)
    assert point.low <= point.value <= point.high


def test_increments_are_counted_once_however_often_they_come(stored):
    energy = asked(stored, "gpu_energy", "gpu_uuid")
    throttle = asked(stored, "gpu_throttle", "reason", gpu_uuid="GPU-b")

    assert {uuid: point.value for uuid, point in energy.items()} == {
        "GPU-a": 1000.0,
        "GPU-b": 1000.0,
    }
    assert throttle["hw_thermal"].value == 4.0


def test_gpus_are_no_service_and_move_no_watermark(stored):
    window = Window(since_s=int(NOW_S) - 120, until_s=int(NOW_S))

    assert stored.label_values("service", window) == []
    assert stored.freshness(window) == []
    assert stored.watermark_s() is None
    assert stored.label_values("node", window) == ["node-1"]


def test_every_metric_of_a_gpu_can_be_stored():
    """Gauges and counters, and each kind that the collector takes."""
    kinds = {each.kind for each in METRICS.values() if each.of_gpu}

    assert kinds == {Kind.COUNTER, Kind.LEVEL, Kind.RATIO, Kind.MAXIMUM, Kind.MINIMUM}


def received(collector):
    return [
        ExportMetricsServiceRequest.FromString(gzip.decompress(body))
        for _, _, body in list(collector.requests)
    ]


def points(collector, name):
    return [
        point
        for request in received(collector)
        for metric in request.resource_metrics[0].scope_metrics[0].metrics
        if metric.name == name
        for point in getattr(metric, metric.WhichOneof("data")).data_points
    ]


def test_what_is_read_is_pushed_and_a_last_time_at_the_end(fake):
    with serving(answering(OK)) as collector:
        with watching(fake, endpoint=collector.root, push_interval_s=1, token=TOKEN) as watch:
            watch.wait_until_read()
            watch.wait_for(lambda: len(points(collector, "stagewatch_gpu_power_watts")) >= 16)
            before = len(collector.requests)
        assert len(collector.requests) > before
        headers = [dict(headers) for _, headers, _ in collector.requests]

    assert {each.get("authorization") or each["Authorization"] for each in headers} == {
        "Bearer hush"
    }


def test_a_collector_that_is_away_holds_nothing_up(fake):
    with watching(fake, endpoint="http://127.0.0.1:9", push_interval_s=1) as watch:
        watch.wait_until_read()
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 5
