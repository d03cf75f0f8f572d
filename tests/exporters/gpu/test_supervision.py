"""Reading processes that hang, die or cannot start: what is lost, and how it comes back."""

import os
import signal
import time
import urllib.request

import psutil
import pytest

from tests.exporters.gpu.watching import samples, watching


def test_the_scene_hung_lost_and_mig(fake):
    """GPU 7 hangs, GPU 5 is lost, GPU 4 is in MIG: all else is fresh, the three say why."""
    with watching(fake) as watch:
        watch.wait_until_read()
        fake.enable_mig(4)
        fake.set(5, lost=1)
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": -1})
        watch.wait_for(lambda: watch.down() == {fake.uuid(5): "gpu_lost", fake.uuid(7): "hung"})
        url = f"http://127.0.0.1:{watch.sidecar.port}/metrics"
        took_s = []
        for _ in range(10):
            began_s = time.perf_counter()
            text = urllib.request.urlopen(url).read().decode()
            took_s.append(time.perf_counter() - began_s)
        page = samples(text)
        ages = [
            time.time() - value
            for (name, _), value in page.items()
            if name == "gpu_last_read_timestamp_seconds"
        ]

        assert min(took_s) < 0.05  # the worst of many is a bar of benchmarks/gpu.py
        assert len(ages) == 6
        assert max(ages) < watch.plan.deadline_s
        assert watch.of(4, "gpu_field_unavailable", field="gpu_busy", reason="not_supported") == 1

        fake.disable_mig(4)
        fake.set(5, lost=None)
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": None})
        watch.wait_until_read()

        assert not watch.down()
        assert watch.of(4, "gpu_busy_ratio") == 0
        assert not watch.all("gpu_worker_restarts_total")


def test_a_gpu_that_hangs_too_long_gets_a_process_of_its_own_and_comes_home(fake):
    with watching(fake, replace_after_s=4) as watch:
        watch.wait_until_read()
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": -1})
        watch.wait_for(lambda: len(watch.sidecar.supervisor.pids) == 2)
        watch.wait_until_read(7)
        apart = watch.down()
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": None})
        watch.wait_until_read()
        watch.wait_for(lambda: len(watch.sidecar.supervisor.pids) == 1)
        watch.wait_until_read()

        assert apart == {fake.uuid(7): "hung"}
        assert watch.value("gpu_worker_restarts_total", reason="hung") >= 1
        assert watch.value("gpu_worker_restarts_total", reason="reunited") == 1
        assert watch.value("gpu_readers", state="abandoned") == 0


def test_a_gpu_that_hangs_before_it_said_who_it_is_hides_no_other(fake):
    fake.set(0, **{"latency_ms.DeviceGetHandleByIndex_v2": -1})

    with watching(fake) as watch:
        watch.wait_until_read(7)
        watch.wait_for(lambda: watch.down() == {"index-0": "hung"})
        fake.set(0, **{"latency_ms.DeviceGetHandleByIndex_v2": None})
        watch.wait_until_read()

        assert not watch.down()


def test_a_driver_that_hangs_when_it_is_asked_for_is_told(fake):
    fake.set(**{"latency_ms.Init": -1})

    with watching(fake) as watch:
        watch.wait_for(lambda: watch.value("gpu_driver_down", reason="starting") == 1)
        fake.set(**{"latency_ms.Init": None})
        watch.wait_until_read()


def test_a_reading_process_that_dies_is_replaced(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        (pid,) = watch.sidecar.supervisor.pids
        os.kill(pid, signal.SIGKILL)
        watch.wait_for(lambda: watch.value("gpu_worker_restarts_total", reason="crashed") == 1)
        watch.wait_until_read()

        assert watch.sidecar.supervisor.pids != [pid]


def test_a_reading_process_that_stands_still_is_no_reason_to_show_what_it_last_said(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        (pid,) = watch.sidecar.supervisor.pids
        os.kill(pid, signal.SIGSTOP)
        try:
            watch.wait_for(lambda: list(watch.down().values()) == ["stale"] * 8)
            assert not watch.all("gpu_power_watts")
        finally:
            os.kill(pid, signal.SIGCONT)
        watch.wait_until_read()


def test_a_reading_process_that_stands_still_for_long_is_replaced(fake):
    with watching(fake, replace_after_s=4) as watch:
        watch.wait_until_read()
        (pid,) = watch.sidecar.supervisor.pids
        os.kill(pid, signal.SIGSTOP)
        watch.wait_for(lambda: watch.value("gpu_worker_restarts_total", reason="silent") == 1)
        watch.wait_until_read()

        assert not psutil.pid_exists(pid)


def test_a_gpu_that_the_driver_no_longer_counts_is_missing_not_forgotten(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        fake.set(count=7, epoch=1)
        watch.wait_for(lambda: watch.down() == {fake.uuid(7): "missing"})
        fake.set(count=8)
        watch.wait_until_read()


def test_a_gpu_that_comes_later_is_read(fake):
    fake.set(count=7)

    with watching(fake) as watch:
        watch.wait_until_read(7)
        fake.set(count=8)
        watch.wait_until_read(8)


def test_counters_go_on_where_the_driver_was_reloaded(fake):
    """What they grew by in between is nobody's knowledge: it is left out, and they never fall."""
    fake.set(0, **{"field.52": 50})
    with watching(fake) as watch:
        watch.wait_until_read()
        before = watch.of(0, "gpu_nvlink_errors_total", kind="replay")
        fake.set(0, **{"field.52": 3})
        fake.set(epoch=1)
        watch.wait_for(lambda: watch.value("gpu_worker_restarts_total", reason="unknown_error"))
        watch.wait_until_read()
        fallen = watch.of(0, "gpu_nvlink_errors_total", kind="replay")
        fake.set(0, **{"field.52": 10})
        fake.set(epoch=2)
        watch.wait_for(lambda: watch.of(0, "gpu_nvlink_errors_total", kind="replay") == 57)

    assert (before, fallen) == (50, 50)


def test_let_go_of_the_driver_and_take_it_again(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        (pid,) = watch.sidecar.supervisor.pids
        watch.sidecar.supervisor.release(1.0)

        assert watch.value("gpu_driver_down", reason="released") == 1
        assert not psutil.pid_exists(pid)
        watch.wait_until_read()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_reading_process_ends_with_its_parent(fake, number):
    import subprocess
    import sys

    code = (
        "from exporters.gpu.reading_process import ReadingProcess as R\n"
        "from exporters.gpu.orders import Orders\n"
        "import time; r = R(Orders(), lambda m: None); print(r.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **fake.env(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = int(parent.stdout.readline())
    parent.send_signal(number)
    parent.wait(10)
    parent.stdout.close()

    end_s = time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < end_s
        time.sleep(0.02)
