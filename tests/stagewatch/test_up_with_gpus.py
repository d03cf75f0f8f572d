"""`stagewatch up` with the GPUs of its machine: from the driver to the API in one process."""

import os
import time

import pytest

from tests.e2e.running import Stagewatch
from tests.fake_nvml.library import FakeNvml, needs_gcc

pytestmark = needs_gcc


@pytest.fixture
def server(tmp_path):
    fake = FakeNvml(tmp_path)
    otlp = 24_000 + os.getpid() % 8_000
    file = tmp_path / "stagewatch.yaml"
    file.write_text(
        f"collector: {{otlp_http_port: {otlp}}}\n"
        "exporters:\n  gpu:\n    push_interval_s: 1\n    listen_port: 0\n    node: n1\n"
        "    replicas: [{service: chat, replica: r0, gpus: ['3']}]\n"
    )
    environment = {**fake.env(), "STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT": str(otlp)}
    command = ("up", "--config", str(file), "--data-dir", str(tmp_path / "data"))
    with Stagewatch(*command, **environment) as found:
        yield fake, found, tmp_path / "data" / "spool" / "gpu"


def by_gpu(server, metric, **where):
    answer = server.get("/api/v1/gauges", metric=metric, by="gpu_uuid", **where)
    return {each["labels"].get("gpu_uuid"): each["points"][-1]["last"] for each in answer["series"]}


def test_gpus_answer_through_the_api_and_the_end_is_clean(server):
    fake, up, spool = server
    end_s = time.monotonic() + 30
    while len(by_gpu(up, "gpu_power")) < 8 or not by_gpu(up, "gpu_serves"):
        assert time.monotonic() < end_s
        time.sleep(0.2)

    assert set(by_gpu(up, "gpu_power").values()) == {70.0}
    assert by_gpu(up, "gpu_serves") == {fake.uuid(3): 1.0}
    (waiting,) = up.get("/api/v1/gauges", metric="spooled_bytes", by=["node", "service"])["series"]
    assert waiting["labels"] == {"node": "n1"}
    assert spool.is_dir()
    assert up.interrupt() < 5
