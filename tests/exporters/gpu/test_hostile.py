"""A driver that lies, flaps or dies, a clock that is set: what it costs, and what it must not."""

import os
import signal
import subprocess
import sys
import time

import pytest

from exporters.gpu.export import Exports
from exporters.gpu.fleet import Fleet
from exporters.gpu.kernel_log import xid_in
from exporters.gpu.nvml import Unavailable
from exporters.gpu.orders import Orders
from exporters.gpu.processes import Processes
from exporters.gpu.supervision import Supervisor
from tests.exporters.gpu.test_gpu_page import message
from tests.exporters.gpu.watching import board, loaded, watching

HOUR_NS = 3600 * 10**9
GARBAGE = {
    "util.gpu": 4294967295,
    "util.memory": 101,
    "temp.gpu": 3000,
    "temp.mem": 4294967295,
    "clock.sm": 4294967295,
    "power_mw": 4294967295,
    "energy_mj": 18446744073709551615,
    "mem.used": 18446744073709551615,
    "reasons": 18446744073709551615,
    "pstate": 4294967295,
    "pcie.replay": 4294967295,
    "field.197": 18446744073709551615,
    "field.230": 4294967295,
    "gpm.2": -1,
    "gpm.5": 1e308,
}


def test_garbage_in_every_field_is_dropped_counted_and_costs_the_others_nothing(fake):
    with board(fake, 1) as one:
        one.read()
        sound = one.read()
        fake.set(1, **GARBAGE)
        told = one.read()
        fake.set(1, **dict.fromkeys(GARBAGE))

    assert {"gpu_busy", "gpu_temperature", "gpu_power", "gpu_sm_clock"} <= set(sound["levels"])
    for name in ("gpu_busy", "gpu_memory_busy", "gpu_temperature", "gpu_power", "gpu_sm_clock"):
        assert name not in told["levels"], name
        assert told["rejected"][name] == 1, name
    assert all(0 <= value < 2**63 for value in told["totals"].values())
    assert all(-1e15 < value < 1e15 for value in told["levels"].values())


@pytest.mark.parametrize("length", [10_000, 4_294_967_295])
def test_a_list_of_ten_thousand_processes_is_left_alone(fake, length):
    fake.set(0, procs_told=length)
    with board(fake) as one:
        began_s = time.process_time()
        told = one.read()
        took_s = time.process_time() - began_s

    assert told["absent"]["gpu_processes"] == "too_many"
    assert told["levels"]["gpu_power"] == 70.0
    assert (
        took_s < 0.5
    )  # the bindings would set up, and go through, as many records as they are told


def test_a_count_of_instances_that_cannot_be_is_not_gone_through(fake):
    fake.enable_mig(0)
    fake.set(0, **{"mig.most": 4_294_967_295})
    with board(fake) as one:
        told = one.read()

    assert len(told["instances"]) == 7


def test_a_count_of_gpus_that_cannot_be_starts_no_thread_and_ends_when_it_does(fake):
    fake.set(count_told=4_294_967_295)
    with watching(fake) as watch:
        watch.wait_for(lambda: watch.value("gpu_driver_down", reason="impossible_count") == 1)
        fake.set(count_told=None)
        watch.wait_until_read()


def test_an_instance_that_goes_while_the_board_is_read_costs_the_instances_of_one_reading(fake):
    fake.enable_mig(0)
    with board(fake) as one:
        before = one.read()
        fake.set(0, **{"err.DeviceGetComputeInstanceId": 2, "err.DeviceGetGpuInstanceId": 2})
        during = one.read()
        fake.set(0, **{"err.DeviceGetComputeInstanceId": None, "err.DeviceGetGpuInstanceId": None})
        fake.disable_mig(0)
        after = one.read()

    assert len(before["instances"]) == 7
    assert during["levels"]["gpu_power"] == after["levels"]["gpu_power"] == 70.0
    assert after["instances"] == []
    assert after["levels"]["gpu_busy"] == 0


@pytest.mark.parametrize(("number", "word"), [(79, "xid/79"), (2**53, "event/garbled")])
def test_numbers_that_no_driver_gives_make_no_series(fake, number, word):
    with watching(fake) as watch:
        watch.wait_until_read()
        fake.event(0, number)
        gpu = watch.sidecar.fleet.gpus[fake.uuid(0)]
        watch.wait_for(lambda: gpu.events)

        assert dict(gpu.events) == {word: 1}


def test_what_the_driver_prints_is_no_reading(fake):
    """A library that writes to our standard output speaks past the messages, not into them."""
    code = (
        "import json, sys, os, threading, time; from exporters.gpu import worker\n"
        "def noisy(*_):\n"
        '    os.write(1, b\'{"kind": "driver", "up": true, "version": "x", "count": 1}\\n\')\n'
        "worker._census = noisy; worker.main(sys.argv[1])"
    )
    orders = '{"interval_s":1,"deadline_s":3,"activity":"off","dcgm_port":1,"only":[],"skip":[]}'
    process = subprocess.Popen(
        [sys.executable, "-c", code, orders],
        env={**os.environ, **fake.env(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    lines = [process.stdout.readline() for _ in range(3)]
    process.stdin.close()
    said = process.stderr.read()
    process.wait(5)
    process.stdout.close()
    process.stderr.close()

    assert [b'"alive"' in line or b'"driver"' in line for line in lines] == [True] * 3
    assert b'"version": "x"' in said
    assert not any(b'"version": "x"' in line for line in lines)


def test_a_driver_that_is_away_for_days_is_still_tried_every_ten_seconds(monkeypatch, tmp_path):
    """Without a library each reading process ends at once; days pass on a clock of our own."""
    clock = [0.0]
    fleet = Fleet(deadline_s=3.0)
    supervisor = Supervisor(fleet, Orders(), replace_after_s=30.0, now=lambda: clock[0])
    slot = supervisor._slots[""]
    slot.failures = 5000  # after 5000 tries; more than a float has doublings
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))

    supervisor.tick()
    until_s = time.monotonic() + 20
    while not slot.process.ended:
        assert time.monotonic() < until_s
        time.sleep(0.01)
    clock[0] += 1.0
    supervisor.tick()
    supervisor.close()

    assert slot.failures == 5001
    assert slot.not_before_s == clock[0] + 10.0


def test_the_process_of_one_gpu_speaks_and_dies_for_that_gpu_alone(fake):
    with watching(fake, replace_after_s=4) as watch:
        watch.wait_until_read()
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": -1})
        supervisor, fleet = watch.sidecar.supervisor, watch.sidecar.fleet
        watch.wait_for(lambda: len(supervisor.pids) == 2)
        watch.wait_until_read(7)
        first, alone = supervisor.pids
        os.kill(alone, signal.SIGKILL)
        watch.wait_for(lambda: fleet.replaced["crashed"] >= 1)
        down = watch.down()
        up = watch.value("gpu_driver_up")

        assert supervisor.pids[0] == first
        assert set(down) == {fake.uuid(7)}
        assert down[fake.uuid(7)] == "reader_crashed"
        assert up == 1
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": None})
        watch.wait_until_read()


def test_sixteen_gpus_all_hung_say_so_and_their_processes_are_not_started_over_and_over(boards):
    patience_s = 90  # seventeen processes start, on a machine that may be busy
    fake = boards(count=16)
    with watching(fake, replace_after_s=4) as watch:

        def read():
            return len(watch.all("gpu_temperature_celsius")) == 16

        watch.wait_for(read, patience_s)
        fake.set(**{"latency_ms.DeviceGetPowerUsage": -1})
        watch.wait_for(lambda: list(watch.down().values()) == ["hung"] * 16, patience_s)
        took_s, text = [], ""
        for _ in range(10):
            began_s = time.perf_counter()
            text = watch.text
            took_s.append(time.perf_counter() - began_s)
        supervisor, fleet = watch.sidecar.supervisor, watch.sidecar.fleet
        watch.wait_for(lambda: len(supervisor.pids) == 17, patience_s)
        main, silent = supervisor.pids[0], fleet.replaced["silent"]
        time.sleep(6)

        assert min(took_s) < 0.05
        assert "stagewatch_gpu_power_watts" not in text
        assert supervisor.pids[0] == main  # it has nothing to read, and is well
        assert fleet.replaced["silent"] == silent
        fake.set(**{"latency_ms.DeviceGetPowerUsage": None})
        watch.wait_for(read, patience_s)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_clock_that_is_set_costs_no_count_and_makes_no_interval_that_ends_before_it_begins(hours):
    fleet = Fleet(deadline_s=3.0)
    fleet.take({"kind": "driver", "up": True, "version": "580", "count": 1}, 99.0)
    at_ns = 1_780_000_000 * 10**9
    exports, told = Exports("node-1", at_ns), []
    for second, set_ns, joules in ((0, 0, 100.0), (10, 0, 150.0), (20, hours * HOUR_NS, 225.0)):
        now_ns = at_ns + second * 10**9 + set_ns
        fleet.take(message(at_ns=now_ns, totals={"gpu_energy": joules}), 100.0)
        reading = exports.reading(fleet, now_s=100.0, at_ns=now_ns, set_by_ns=set_ns)
        told += [(each, reading.at_ns) for each in reading.increments]

    assert sum(each.by for each, _ in told) == 125.0
    assert all(each.start_at_ns < end_ns for each, end_ns in told)
    assert max(end_ns - each.start_at_ns for each, end_ns in told) <= 10 * 10**9


@pytest.mark.parametrize(
    "record",
    [
        b"3,1,5,-;NVRM: Xid (PCI:0000:3b:00): 79" + b"9" * 100_000,
        b"3,1,5,-;" + b"\xff\x00\xfe" * 3000,
        b"3,1,5,-;NVRM: Xid (PCI:0000:3b:00): \xd9\xa7\xd9\xa9, ",  # digits, but not ours
        b"99999999999999999999,1,5,-;NVRM: Xid (PCI:0000:3b:00): 79, ",
        b"11,1,5,-;NVRM: Xid (PCI:0000:3b:00): 79, ",  # by a program
        b"14,1,5,-;NVRM: Xid (PCI:0000:3b:00): 79, ",
    ],
)
def test_records_that_are_long_binary_or_forged_tell_nothing(record):
    assert xid_in(record) is None


def test_a_list_of_processes_is_read_as_the_bindings_read_it(fake):
    pid = os.getpid()
    fake.set(0, procs=f"{pid}:{1 << 30}:0:0", mpsprocs=f"{os.getppid()}:18446744073709551615:0:0")
    with loaded(fake) as nvml:
        handle = nvml.ask("nvmlDeviceGetHandleByUUID", fake.uuid(0))
        theirs = [
            (each.pid, each.usedGpuMemory)
            for call in ("Compute", "MPSCompute")
            for each in getattr(nvml.raw, f"nvmlDeviceGet{call}RunningProcesses_v3")(handle)
        ]
        ours = [(each.pid, each.bytes) for each in Processes(nvml).read(handle, None)]
        fake.set(0, **{"err.DeviceGetComputeRunningProcesses_v3": 4})
        with pytest.raises(Unavailable, match="no_permission"):
            Processes(nvml).read(handle, None)

    assert ours == theirs == [(pid, 1 << 30), (os.getppid(), None)]
