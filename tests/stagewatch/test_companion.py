"""A sidecar that ends is never missing unnoticed."""

import json
import socket
import subprocess
import sys
import threading

import pytest

from domain.errors import ConfigError
from stagewatch.companion import Companion
from tests.paths import ROOT

TARGET = {"url": "http://127.0.0.1:9", "service": "chat"}


def test_a_fault_is_told_for_a_while_and_the_sidecar_begins_anew():
    stop, asked, begun = threading.Event(), threading.Event(), []

    def faulty(stop):
        begun.append(1)
        if len(begun) < 3:
            raise ZeroDivisionError("a fault of ours")
        stop.set()

    companion = Companion("probe", faulty)
    assert companion.problem() is None
    companion.run(stop, asked, again_s=0.0)

    assert len(begun) == 3
    assert "the probe ended and began anew: a fault of ours" in companion.problem()
    assert (companion.failure, asked.is_set()) == (None, False)


def test_a_setting_that_can_never_work_asks_the_whole_process_to_end():
    stop, asked = threading.Event(), threading.Event()

    def misled(_):
        raise ConfigError("no", where="here", remedy="Mend it.")

    companion = Companion("exporter", misled)
    companion.run(stop, asked)

    assert asked.is_set()
    assert isinstance(companion.failure, ConfigError)


@pytest.mark.parametrize("kind", ["engine", "probe"])
def test_stagewatch_up_ends_with_one_line_where_a_sidecar_cannot_begin(kind, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        more = {"model": "m"} if kind == "probe" else {}
        sidecar = {"listen_port": taken.getsockname()[1], "targets": [{**TARGET, **more}]}
        told = {
            "store": {"data_dir": str(tmp_path / "data")},
            "collector": {"otlp_http_port": 0, "otlp_grpc_port": 0},
            "dashboard": {"port": 0},
            "exporters": {kind: sidecar},
        }
        file = tmp_path / "stagewatch.yaml"
        file.write_text(json.dumps(told))
        done = subprocess.run(
            [sys.executable, "-m", "stagewatch", "up", "--config", str(file)],
            capture_output=True,
            text=True,
            timeout=60,
            cwd=ROOT,
            check=False,
        )

    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "cannot listen there" in done.stderr.splitlines()[-1]
