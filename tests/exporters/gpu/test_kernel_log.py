"""XIDs from the kernel's log: parsed with distrust, told once, and of our own GPUs alone."""

import logging
import os
import threading
import time
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.gpu.fleet import Fleet
from exporters.gpu.gpu import Gpu
from exporters.gpu.kernel_log import KernelLog, Xid, bus_of, xid_in
from exporters.gpu.settings import GpuSettings
from tests.exporters.gpu.watching import watching

BUS = (0, 0x3B, 0)
FALLEN = b"NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', GPU has fallen off the bus."


def record(text=FALLEN, *, priority=3, at_us=5_000_000):
    return b"%d,1234,%d,-;%s" % (priority, at_us, text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (FALLEN, 79),
        (b"NVRM: Xid (0000:3b:00): 43, Ch 00000010", 43),
        (b"NVRM: Xid (PCI:00000000:3B:00.0): 119, pid=7, name=python, Timeout after 6s", 119),
        (b"NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 95, pid=1, Uncontained", 95),
    ],
)
def test_every_way_in_which_drivers_wrote_it_is_read(text, number):
    assert xid_in(record(text)) == Xid(BUS, number, 5_000_000)


@pytest.mark.parametrize(
    "bad",
    [
        record(priority=11),  # a program wrote it: facility 1, which it cannot choose to be 0
        record(b"usb 1-1: NVRM: Xid (PCI:0000:3b:00): 79, "),
        record(b"NVRM: Xid (PCI:0000:3b:00): 79999, "),
        record(b"NVRM: Xid (PCI:zzzz:3b:00): 79, "),
        b" CONT=" + FALLEN,
        FALLEN,
        b"3,1,;" + FALLEN,
        b"3,1,2" + FALLEN,
        b"",
    ],
)
def test_what_is_no_record_of_the_driver_tells_nothing(bad):
    assert xid_in(bad) is None


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_no_bytes_whatever_stop_the_reading(before, after):
    xid_in(before + after)
    told = xid_in(record(FALLEN[:-1] + after))

    assert told == Xid(BUS, 79, 5_000_000)
    assert xid_in(before + b"\xff" + record()) is None


@pytest.mark.parametrize(
    ("name", "bus"),
    [("00000000:3B:00.0", BUS), ("0001:af:1f.0", (1, 0xAF, 0x1F)), ("", None), ("a:b", None)],
)
def test_an_address_is_the_same_however_many_digits_it_has(name, bus):
    assert bus_of(name) == bus


second = 1_000_000_000
reports = st.lists(st.sampled_from(["driver", "kernel_log"]), max_size=12)


@given(reports)
def test_an_xid_that_both_tell_is_one_in_any_order(order):
    gpu = Gpu("GPU-a", 0)
    for place, source in enumerate(order):
        gpu.happened({"xid": 79, "at_ns": place * second // 2, "source": source})

    assert gpu.events["xid/79"] == max(order.count("driver"), order.count("kernel_log"))


def test_another_xid_or_another_time_is_another_one():
    gpu = Gpu("GPU-a", 0)
    gpu.happened({"xid": 79, "at_ns": 0})
    gpu.happened({"xid": 48, "at_ns": 0, "source": "kernel_log"})
    gpu.happened({"xid": 79, "at_ns": 60 * second, "source": "kernel_log"})

    assert (gpu.events["xid/79"], gpu.events["xid/48"]) == (2, 1)
    assert gpu.event_at_ns["xid/79"] == 60 * second


def known(*, events):
    """One GPU as a reading process told of it."""
    fleet = Fleet(deadline_s=3.0)
    labels = {"name": "H100", "pci_bus_id": "00000000:3B:00.0"}
    identity = {"kind": "identity", "id": "GPU-a", "index": 0, "labels": labels, "events": events}
    fleet.take(identity, 0.0)
    return fleet


@contextmanager
def following(fleet, mode, place):
    stop = threading.Event()
    thread = threading.Thread(target=KernelLog(fleet, mode, place).run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(5)
        assert not thread.is_alive()


def written(place, *records, within_s=5.0):
    """Into the pipe that stands for the log; false where nobody reads it."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        try:
            descriptor = os.open(place, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.02)
            continue
        os.write(descriptor, b"".join(each + b"\n" for each in records))
        os.close(descriptor)
        return True
    return False


@pytest.fixture
def log(tmp_path):
    place = tmp_path / "kmsg"
    os.mkfifo(place)
    return place


def counted(fleet, within_s=5.0):
    gpu, end_s = fleet.gpus["GPU-a"], time.monotonic() + within_s
    while not gpu.events and time.monotonic() < end_s:
        time.sleep(0.01)
    return gpu


def test_an_xid_of_a_gpu_without_events_is_counted_with_the_kernels_instant(log):
    fleet = known(events="not_supported")
    at_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000 - 2_000_000
    with following(fleet, "auto", log):
        other = record(b"NVRM: Xid (PCI:0000:5e:00): 48, ", at_us=at_us)
        assert written(log, b"6,1,2,-;usb 1-1: new device", other, record(at_us=at_us))
        gpu = counted(fleet)

    assert dict(gpu.events) == {"xid/79": 1}
    assert 1.5 < (time.time_ns() - gpu.event_at_ns["xid/79"]) / 1e9 < 10


def test_an_instant_that_cannot_be_is_now(log):
    fleet = known(events="not_supported")
    with following(fleet, "on", log):
        assert written(log, record(at_us=9 * 10**18))
        gpu = counted(fleet)

    assert abs(time.time_ns() - gpu.event_at_ns["xid/79"]) < 10 * second


@pytest.mark.parametrize(("mode", "events"), [("auto", ""), ("off", "not_supported")])
def test_the_log_is_not_opened_where_it_is_not_needed_or_not_wanted(log, mode, events):
    with following(known(events=events), mode, log):
        assert not written(log, record(), within_s=0.5)


def test_a_log_that_cannot_be_read_is_one_line_and_no_failure(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    with following(known(events="not_supported"), "auto", tmp_path / "nothing"):
        time.sleep(0.2)

    assert [each.message for each in caplog.records] == [
        f"XIDs are not read from {tmp_path / 'nothing'}: No such file or directory"
    ]


def test_a_driver_that_gives_no_events_is_noticed_and_the_log_stands_in(fake, log):
    fake.set(3, **{"err.DeviceRegisterEvents": 3})
    with watching(fake, kernel_log="off") as watch:
        watch.wait_until_read()
        fleet = watch.sidecar.fleet
        bus = bus_of(fleet.gpus[fake.uuid(3)].labels["pci_bus_id"])
        text = b"NVRM: Xid (PCI:%04x:%02x:%02x): 119, pid=1, Timeout" % bus
        with following(fleet, "auto", log):
            assert written(log, record(text))
            watch.wait_for(lambda: watch.of(3, "gpu_xid_errors_total", xid="119") == 1)
        others = watch.all("gpu_xid_errors_total")

    assert len(others) == 1


def test_by_default_it_stands_in_only_where_events_do_not_come():
    assert GpuSettings().kernel_log == "auto"
    assert GpuSettings().plan().kernel_log == "auto"
