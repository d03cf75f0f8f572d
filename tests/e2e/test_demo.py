"""The demo as somebody meets it who has read two lines of the README."""

import json
import subprocess
import sys
import time

import pytest

from tests.alerts.pager import Pager
from tests.e2e.running import Stagewatch
from tests.paths import ROOT

pytestmark = pytest.mark.slow
FAULT_AFTER_S = 30


def firing(pager, objective):
    return [
        post
        for post in pager.accepted
        if (post["event"], post["objective"], post["severity"]) == ("firing", objective, "page")
    ]


def test_a_queue_incident_pages_once_and_says_which_stage(tmp_path):
    with Pager() as pager:
        data = ("--data-dir", str(tmp_path))
        fault = ("--incident", "queue", "--incident-after", str(FAULT_AFTER_S))
        with Stagewatch("demo", *data, *fault, "--webhook", pager.url) as demo:
            begun = time.monotonic()
            demo.eventually(
                lambda: firing(pager, "assistant-ttft"),
                within_s=FAULT_AFTER_S + 180,
                what="a page for the fault",
            )
            paged_s = time.monotonic() - begun - FAULT_AFTER_S
            asked = subprocess.run(
                [
                    *(sys.executable, "-m", "stagewatch", "query", "quantile"),
                    *("--url", demo.pages_url, "--metric", "ttft", "--q", "0.5,0.95,0.99"),
                    *("--by", "replica", "--from", "now-5m", "--format", "json"),
                ],
                capture_output=True,
                text=True,
                check=True,
                cwd=ROOT,
            )
            states = {slo["id"]: slo["state"] for slo in demo.get("/api/v1/slos")["slos"]}
            ended_s = demo.interrupt()

        (page,) = firing(pager, "assistant-ttft")
        assert paged_s <= 180
        assert "assistant-ttft" in page["text"]
        assert " of " in page["text"]
        assert "queue" in page["text"].lower()
        assert states["assistant-ttft"] == "page"
        replicas = {series["labels"]["replica"] for series in json.loads(asked.stdout)["series"]}
        assert {f"assistant-prefill-{n}" for n in range(3)} <= replicas
        assert ended_s <= 5
        assert demo.process.returncode == 0

        with Stagewatch("demo", *data, "--webhook", pager.url) as again:
            slo = again.get("/api/v1/slos/assistant-ttft")
            earlier = again.get("/api/v1/quantile", metric="ttft", q="0.5", **{"from": "now-10m"})
            again.interrupt()

        assert slo["state"] == "page"
        assert earlier["series"][0]["points"][0]["n"] > 100
        assert len(firing(pager, "assistant-ttft")) == 1
