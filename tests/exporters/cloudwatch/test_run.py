"""The sidecar as a process: fake CloudWatch in, a real collector's store out, its page, and its words."""

import argparse
import math
import os
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
import yaml
from fastapi import FastAPI

from collector.http import otlp_router
from collector.own_metrics import OwnMetrics
from collector.settings import CollectorSettings
from exporters.cloudwatch.run import run
from stagewatch import cloudwatch_command, exporter_command
from stagewatch.__main__ import main
from tests.collector.endpoint_points import kept
from tests.collector.serving import http_server
from tests.collector.storing import number, writing
from tests.exporters.cloudwatch.polling import BEDROCK, MODEL, SAGEMAKER, VARIANT, settings_of
from tests.fake_cloudwatch.account import AwsError
from tests.fake_cloudwatch.server import fake_cloudwatch
from tests.paths import ROOT


@pytest.fixture(autouse=True)
def _credentials(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def fake():
    """Ten minutes of traffic that ended just now, on the real clock."""
    with fake_cloudwatch() as server:
        minute = math.floor(time.time() / 60) * 60
        for ago in range(1, 11):
            at_s = minute - 60 * ago
            server.account.put("AWS/SageMaker", "Invocations", VARIANT, at_s, [1.0] * 3)
            server.account.put("AWS/SageMaker", "ModelLatency", VARIANT, at_s, [2e6, 3e6, 12e6])
            server.account.put("AWS/Bedrock", "TimeToFirstToken", MODEL, at_s, [400.0])
        yield server


@contextmanager
def collecting(path):
    with writing(path, now=time.time) as writer:
        app = FastAPI()
        app.include_router(otlp_router(writer, CollectorSettings(), OwnMetrics()))
        with http_server(app) as url:
            yield url


@contextmanager
def sidecar(settings):
    stop, up, ports = threading.Event(), threading.Event(), []

    def started(port):
        ports.append(port)
        up.set()

    thread = threading.Thread(target=run, args=(settings, stop), kwargs={"started": started})
    thread.start()
    try:
        assert up.wait(20)
        yield ports[0]
    finally:
        stop.set()
        thread.join(10)
        assert not thread.is_alive(), "it ends within seconds"


def until(true, seconds=20):
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends, "it did not happen"
        time.sleep(0.1)


def test_what_cloudwatch_says_stands_in_the_store_under_our_service(tmp_path, fake):
    store = tmp_path / "store"
    with collecting(store) as url:
        settings = settings_of(
            SAGEMAKER,
            BEDROCK,
            url=fake.url,
            endpoint=url,
            spool_dir=tmp_path / "spool",
            listen_port=0,
        )
        with sidecar(settings) as port:
            until(lambda: len([k for k in kept(store) if k[1] == "ModelLatency"]) >= 10)
            until(lambda: [k for k in kept(store) if k[0] == "assistant"])
            page = httpx.get(f"http://127.0.0.1:{port}/metrics").text
            until(lambda: number(store, "cloudwatch_spending")[0])

    assert number(store, "cloudwatch_spending")[1] > 0
    assert number(store, "spooled_bytes")[0]
    assert number(store, "cloudwatch_allowance") == (None, None), "nobody set a budget"
    found = [
        told for (service, name, _), (told, *_) in kept(store).items() if name == "ModelLatency"
    ]
    values = [told for told in found if told]
    assert values[0]["Sum"] == pytest.approx(17)
    assert values[0]["PR(:10)"] == pytest.approx(100 * 2 / 3)
    assert 'stagewatch_cloudwatch_calls_total{account="111122223333"' in page
    billed = [line for line in page.splitlines() if "billed_metrics_requested_total{" in line]
    assert float(billed[0].split()[-1]) == fake.account.billed
    assert "stagewatch_cloudwatch_late_update_seconds_bucket" in page
    assert "model_latency" not in page, "values with yesterday's time stamps stay off the page"


def test_cw11_whoever_reads_the_page_does_not_wait_for_aws():
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, says nothing
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = settings_of(SAGEMAKER, url=url, endpoint=None, spool_dir=None, listen_port=0)
        with sidecar(settings) as port:
            silent.settimeout(20)
            silent.accept()[0].close()  # it asks, is turned away once, and asks again
            asking, _ = silent.accept()
            began = time.monotonic()
            page = httpx.get(f"http://127.0.0.1:{port}/metrics")
            took_s = time.monotonic() - began
        asking.close()

    assert page.status_code == 200
    assert took_s < 5, "a call that hangs would take half a minute"


def written(path, url, **scope):
    told = {
        "account": "111122223333",
        "region": "us-east-1",
        "endpoints": [SAGEMAKER],
        "endpoint_url": url,
        **scope,
    }
    path.write_text(yaml.safe_dump({"exporters": {"cloudwatch": {"scopes": [told]}}}))
    return str(path)


def test_a_plan_is_printed_before_anything_is_called_golden(tmp_path, fake, capsys, golden):
    both = {"endpoints": [SAGEMAKER, BEDROCK], "discover": ["bedrock"], "budget_usd_per_day": 0.1}
    file = written(tmp_path / "sw.yaml", fake.url, **both)

    assert main(["exporter", "cloudwatch", "--config", file, "--plan"]) == 0

    assert fake.account.calls == []
    golden("cloudwatch-plan.txt", capsys.readouterr().out)


def test_a_plan_of_nothing_but_what_is_discovered_says_so(tmp_path, fake, capsys):
    file = written(tmp_path / "sw.yaml", fake.url, endpoints=[], discover=["sagemaker"])

    assert main(["exporter", "cloudwatch", "--config", file, "--plan"]) == 0

    said = capsys.readouterr().out
    assert "0 endpoints, 0 metrics" in said
    assert "not counted: endpoints yet to be discovered (sagemaker)" in said
    assert "$/month" not in said


def test_once_prints_a_reading_and_says_when_an_account_refuses(tmp_path, fake, capsys):
    file = written(tmp_path / "sw.yaml", fake.url)
    command = ["exporter", "cloudwatch", "--config", file, "--once"]

    fine = main(command)
    read = capsys.readouterr().out
    fake.account.fail_next = [AwsError("AccessDenied", "not you", 403)] * 4
    refused = main(command)

    assert (fine, refused) == (0, 1)
    assert "ModelLatency" in read
    assert "PR(:10) 66.6667 %" in read
    told = capsys.readouterr()
    assert "! ListMetrics: " in told.out
    assert "(2 times)" in told.out
    assert told.err == "", "what is printed is not logged, too"


@pytest.mark.parametrize("file", [None, "store: {data_dir: x}\n"], ids=["no file", "no section"])
def test_without_a_section_the_command_says_what_to_do(tmp_path, capsys, file):
    path = tmp_path / "sw.yaml"
    path.write_text(file or "")

    words = [] if file is None else ["--config", str(path)]
    assert main(["exporter", "cloudwatch", "--plan", *words]) == 2

    said = capsys.readouterr().err
    assert "exporters.cloudwatch: no account to read" in said
    assert "docs/watch-aws-endpoints.md" in said


def test_what_the_command_line_says_stands_above_the_file_and_is_checked(tmp_path, capsys):
    file = written(tmp_path / "sw.yaml", None)
    parser = argparse.ArgumentParser()
    exporter_command.add_parser(parser.add_subparsers(required=True))
    command = ["exporter", "cloudwatch", "--config", file]
    more = ["--spool-dir", "/elsewhere", "--listen-port", "0", "--endpoint", "http://c:4318"]

    told = cloudwatch_command._settings(parser.parse_args([*command, *more]))
    plain = cloudwatch_command._settings(parser.parse_args(command))
    wrong = main([*command, "--listen-port", "70000"])

    assert (str(told.spool_dir), told.listen_port, told.endpoint) == (
        "/elsewhere",
        0,
        "http://c:4318",
    )
    assert (str(plain.spool_dir), plain.listen_port) == ("stagewatch-data/spool", 9467)
    assert wrong == 2
    assert "exporters.cloudwatch.listen_port: " in capsys.readouterr().err


def test_the_command_ends_within_seconds_when_it_is_told_to(tmp_path, fake):
    file = written(tmp_path / "sw.yaml", fake.url)
    command = [sys.executable, "-m", "stagewatch", "exporter", "cloudwatch", "--config", file]
    with subprocess.Popen(
        [*command, "--endpoint", "http://127.0.0.1:9", "--listen-port", "0"],
        cwd=ROOT,
        env={**os.environ, "STAGEWATCH_STORE__DATA_DIR": str(tmp_path / "data")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        greeted = process.stdout.readline()
        until(lambda: fake.account.answered("GetMetricData"), 30)
        began = time.monotonic()
        process.terminate()
        assert process.wait(10) == 0
        assert time.monotonic() - began < 8
    assert re.fullmatch(
        r"stagewatch: reads 1 endpoint of 1 account every minute, sends to http://127.0.0.1:9, "
        r"own page http://127.0.0.1:\d+/metrics. Ctrl-C ends it.\n",
        greeted,
    )
    assert (tmp_path / "data" / "spool" / "cloudwatch").is_dir()


def test_planning_loads_nothing_of_aws():
    code = (
        "import exporters.cloudwatch.describe, sys;"
        "print([m for m in ('boto3', 'botocore') if m in sys.modules])"
    )

    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert told.stdout == "[]\n"
