"""`stagewatch exporter gpu`: one reading for a person, a sidecar, and a machine without a driver."""

import gzip
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import psutil
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from tests.exporters.fake_engine import answering, serving
from tests.exporters.gpu.watching import environment, samples
from tests.paths import ROOT


def stagewatch(*words, fake=None, **environ):
    clean = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    return subprocess.run(
        [sys.executable, "-m", "stagewatch", "exporter", "gpu", *words],
        env={**clean, **(fake.env() if fake else {}), **environ},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_machine_without_a_driver_is_told_in_one_line_what_is_missing_and_what_to_do():
    run = stagewatch("--once")

    assert run.returncode == 1
    assert run.stdout == ""
    (line,) = run.stderr.splitlines()
    assert line.startswith("stagewatch: gpu: libnvidia-ml.so.1 is not on this machine.")
    assert "Install the NVIDIA driver" in line


def test_one_reading_is_printed_with_what_is_not_told(fake):
    fake.set(0, **{"util.gpu": 97, "gpm.5": 41.5, "reasons": 0x4})

    run = stagewatch("--once", fake=fake)

    assert run.returncode == 0, run.stderr
    assert "driver 580.105.08, 8 GPUs" in run.stdout
    assert f"GPU 0 NVIDIA H100 80GB HBM3 {fake.uuid(0)}: up" in run.stdout
    assert "busy 97 %" in run.stdout
    assert "tensor active 41.5 %" in run.stdout
    assert "! held down by sw_power_cap" in run.stdout
    assert "not told: gpu_nvlink_errors/crc_data (not_supported)" in run.stdout


def test_one_gpu_that_does_not_answer_is_status_1_and_the_others_are_printed(fake):
    fake.set(5, lost=1)
    fake.set(7, **{"latency_ms.DeviceGetPowerUsage": -1})

    run = stagewatch("--once", fake=fake)

    assert run.returncode == 1
    assert "GPU 5  index-5: not observed: gpu_lost" in run.stdout
    assert "not observed: hung in gpu_power" in run.stdout
    assert run.stdout.count(": up\n") == 6


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (9, "modprobe nvidia"),
        (18, "upgraded underneath"),
        (999, "needs to be started anew"),
        (4, "access to /dev/nvidia"),
        (777, "the driver says error_777"),
    ],
)
def test_each_state_of_a_driver_has_its_way_out(boards, code, words):
    run = stagewatch("--once", fake=boards(init_err=code))

    assert run.returncode == 1
    assert words in run.stderr


def test_bindings_that_are_not_installed_are_a_line_too(tmp_path):
    (tmp_path / "pynvml.py").write_text("raise ImportError('not installed')\n")

    run = stagewatch("--once", PYTHONPATH=str(tmp_path))

    assert run.returncode == 1
    assert "pip install 'stagewatch[gpu]'" in run.stderr


def test_settings_that_cannot_be_are_refused(tmp_path):
    file = tmp_path / "stagewatch.yaml"
    file.write_text("exporters:\n  gpu:\n    interval_s: 5\n")

    run = stagewatch("--config", str(file), "--once")

    assert run.returncode == 2
    assert "at least twice interval_s" in run.stderr


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


@pytest.fixture
def config(tmp_path):
    port, file = free_port(), tmp_path / "stagewatch.yaml"
    file.write_text(
        f"store: {{data_dir: {tmp_path / 'data'}}}\n"
        f"exporters: {{gpu: {{listen_port: {port}, token: hush, release_s: 1, push_interval_s: 1,"
        " endpoint: 'http://127.0.0.1:9'}}"
    )
    return file


@pytest.fixture
def sidecar(fake, config):
    """The real command, its page's address and its process."""
    (port,) = re.findall("listen_port: ([0-9]+)", config.read_text())
    command = [sys.executable, "-m", "stagewatch", "exporter", "gpu", "--config", str(config)]
    with environment(fake):
        process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        yield f"http://127.0.0.1:{port}/metrics", process
    finally:
        process.kill()
        process.wait()


def wait_for(url, condition):
    end_s = time.monotonic() + 20
    while True:
        try:
            with urllib.request.urlopen(url) as page:  # noqa: S310 - loopback
                found = samples(page.read().decode())
            if condition(found):
                return found
        except OSError:
            pass
        assert time.monotonic() < end_s
        time.sleep(0.05)


def read(count):
    return lambda found: sum(name == "gpu_power_watts" for name, _ in found) == count


def test_the_sidecar_runs_as_one_light_process_whose_token_nobody_sees(sidecar):
    url, process = sidecar
    wait_for(url, read(8))
    me = psutil.Process(process.pid)
    tree = [me, *me.children(recursive=True)]

    assert len(tree) == 2
    assert sum(each.memory_info().rss for each in tree) < 75e6  # the bar stands in benchmarks
    assert not [each for each in tree if "hush" in " ".join(each.cmdline())]
    assert "hush" not in str(me.environ())
    process.send_signal(signal.SIGTERM)
    assert process.wait(5) == 0


def test_what_a_killed_sidecar_could_not_send_the_next_one_sends(sidecar, config, fake):
    url, process = sidecar
    waiting = "spooled_bytes", frozenset({("node", socket.gethostname())})
    found = wait_for(url, lambda found: found.get(waiting, 0) > 0)
    process.kill()
    process.wait()
    killed_at_ns = time.time_ns()

    with serving(answering(b"")) as collector:
        words = ("exporter", "gpu", "--config", str(config), "--endpoint", collector.root)
        with environment(fake):
            following = subprocess.Popen([sys.executable, "-m", "stagewatch", *words], cwd=ROOT)
        end_s = time.monotonic() + 20
        while not collector.requests:
            assert time.monotonic() < end_s
            time.sleep(0.05)
        following.send_signal(signal.SIGTERM)
        assert following.wait(5) == 0
        sent_at_ns = powers_at_ns(collector.requests[0][2])

    assert found["exporter_spool_bytes", frozenset({("where", "disk")})] > 0
    assert sent_at_ns
    assert max(sent_at_ns) < killed_at_ns


def powers_at_ns(body):
    """When the powers in an export were read."""
    request = ExportMetricsServiceRequest.FromString(gzip.decompress(body))
    return [
        point.time_unix_nano
        for resource in request.resource_metrics
        for metric in resource.scope_metrics[0].metrics
        if metric.name == "stagewatch_gpu_power_watts"
        for point in metric.gauge.data_points
    ]


def test_two_sidecars_cannot_keep_their_exports_in_one_place(sidecar, config, fake):
    url, process = sidecar
    wait_for(url, lambda found: any(name == "exporter_spool_bytes" for name, _ in found))
    config.write_text(re.sub("listen_port: [0-9]+", "listen_port: 0", config.read_text()))

    second = stagewatch("--config", str(config), fake=fake)

    assert second.returncode == 2
    assert f"(process {process.pid}) keeps its exports there" in second.stderr


def test_a_hangup_lets_go_of_the_driver_for_a_while(sidecar):
    url, process = sidecar
    wait_for(url, read(8))
    process.send_signal(signal.SIGHUP)

    released = wait_for(url, lambda found: not read(8)(found))
    back = wait_for(url, read(8))

    assert released["gpu_driver_down", frozenset({("reason", "released")})] == 1
    assert back["gpu_driver_up", frozenset()] == 1


def test_importing_the_command_loads_none_of_what_it_runs():
    code = "import stagewatch.gpu_command, sys; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    assert {"httpx", "pydantic", "numpy", "asyncio", "pynvml"}.isdisjoint(loaded)


def test_the_sidecar_loads_neither_what_reads_settings_nor_what_writes_other_pages():
    code = "import exporters.gpu.__main__, exporters.gpu.sending, sys; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    assert {"pydantic", "prometheus_client", "numpy"}.isdisjoint(loaded)


def test_the_reading_process_knows_only_the_driver_and_the_standard_library():
    code = "import exporters.gpu.worker, sys; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    foreign = {name.split(".")[0] for name in loaded} - sys.stdlib_module_names
    assert {name for name in foreign if not name.startswith("_")} <= {"exporters", "domain"}
