"""Public failures of other GPU exporters, one test each (GP15 and the joins' arithmetic: domain)."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from exporters.gpu import replicas
from exporters.gpu.plan import Replica
from tests.exporters.gpu.kubelet import answer, container, kubelet, pod
from tests.exporters.gpu.watching import board, samples, watching
from tests.fake_nvml.library import MIB
from tests.paths import SHARED


def test_gp1_utilisation_under_mig_is_missing_with_its_reason_and_never_0(fake):
    fake.enable_mig(2)

    with watching(fake) as watch:
        watch.wait_until_read()
        watch.wait_for(lambda: watch.value("gpu_sm_active_ratio", gpu_uuid=fake.mig_uuid(2, 0)))

        assert watch.of(2, "gpu_busy_ratio") is None
        assert watch.of(2, "gpu_field_unavailable", field="gpu_busy", reason="not_supported") == 1
        assert watch.of(0, "gpu_busy_ratio") == 0
        assert watch.value("gpu_sm_active_ratio", gpu_uuid=fake.mig_uuid(2, 6)) == 0.5


def test_gp2_a_boards_power_is_told_once_and_not_for_each_instance(fake):
    fake.enable_mig(2)

    with watching(fake) as watch:
        watch.wait_until_read()

        assert len(watch.all("gpu_power_watts")) == 8
        assert len(watch.all("gpu_energy_joules_total")) == 8


def test_gp2_another_exporters_page_multiplies_what_is_one_board():
    page = SHARED / "data/gpu/run-ai/_2.9_mig_metrics_4_Active_Workloads.ini"
    if not page.exists():
        pytest.skip("the public capture is not here")
    lines = [x for x in page.read_text().splitlines() if x.startswith(("#", "DCGM"))]
    found = samples("\n".join(lines) + "\n")

    energy = [v for (name, _), v in found.items() if "TOTAL_ENERGY" in name]
    boards = {dict(own)["UUID"] for name, own in found if "TOTAL_ENERGY" in name}

    assert sum(energy) == 4 * 6_890_956
    assert (len(set(energy)), len(boards)) == (1, 1)


def test_gp3_each_mig_instance_has_its_memory(fake):
    fake.enable_mig(2)

    with watching(fake) as watch:
        watch.wait_until_read()
        totals = [
            value
            for labels, value in watch.all("gpu_memory_total_bytes")
            if labels["gpu_uuid"].startswith("MIG-")
        ]

    assert totals == [9856 * MIB] * 7


@pytest.mark.parametrize(
    ("device", "mapped", "unmapped"), [("nvidia0/gi9", 1, 0), ("GPU-of-another-node", 0, 1)]
)
def test_gp4_the_pod_mapping_says_how_it_fares(fake, tmp_path, device, mapped, unmapped):
    fake.enable_mig(0)
    path = tmp_path / "kubelet.sock"

    with (
        kubelet(path, lambda: answer(pod("chat-0", container("vllm", device)))),
        watching(fake, pod_resources=str(path)) as watch,
    ):
        watch.wait_until_read()
        watch.wait_for(
            lambda: (
                watch.value("gpu_pod_devices", outcome="mapped") == mapped
                and watch.value("gpu_pod_devices", outcome="unmapped") == unmapped
            )
        )
        pods = watch.all("gpu_pod_info")

        assert watch.value("gpu_pod_mapping_up") == 1
        assert watch.value("gpu_pod_mapping_timestamp_seconds") == pytest.approx(
            time.time(), abs=60
        )
    assert [labels["gpu_uuid"] for labels, _ in pods] == [fake.mig_uuid(0, 2)][:mapped]


def test_gp4_a_kubelet_that_does_not_answer_is_told_and_none_at_all_is_no_fault(fake, tmp_path):
    path = tmp_path / "kubelet.sock"

    def broken():
        raise RuntimeError("starting")

    with kubelet(path, broken), watching(fake, pod_resources=str(path)) as watch:
        watch.wait_for(lambda: watch.value("gpu_pod_mapping_up", reason="unavailable") == 0)
    with watching(fake) as watch:
        watch.wait_until_read()

        assert not watch.all("gpu_pod_mapping_up")


def test_gp5_twenty_pod_restarts_make_no_series_of_measurements(fake, tmp_path):
    path, restarts = tmp_path / "kubelet.sock", []

    def reply():
        return answer(pod(f"chat-{len(restarts)}", container("vllm", fake.uuid(0))))

    with kubelet(path, reply), watching(fake, pod_resources=str(path)) as watch:
        watch.wait_until_read()
        watch.wait_for(lambda: watch.of(0, "gpu_sm_active_ratio") is not None)
        sets = set()
        for number in range(20):
            restarts.append(number)
            watch.sidecar.neighbours.look()
            (told,) = watch.all("gpu_pod_info")
            assert told[0]["pod"] == f"chat-{number + 1}"
            sets.add(frozenset(key for key in watch.now() if not key[0].startswith("gpu_pod_")))

    assert len(sets) == 1


def test_gp6_two_equal_xids_are_two_and_the_time_is_of_the_second(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        fake.event(6, 79)
        watch.wait_for(lambda: watch.of(6, "gpu_xid_errors_total", xid="79") == 1)
        first = watch.of(6, "gpu_xid_last_seconds", xid="79")
        fake.event(6, 79)
        watch.wait_for(lambda: watch.of(6, "gpu_xid_errors_total", xid="79") == 2)

        assert watch.of(6, "gpu_xid_last_seconds", xid="79") > first
        assert watch.of(6, "gpu_xid_last_seconds", xid="79") == pytest.approx(time.time(), abs=60)
        assert len(watch.all("gpu_xid_errors_total")) == 1


def test_gp6_an_xid_is_told_also_when_its_gpu_is_gone(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        fake.event(6, 79)
        fake.set(6, lost=1)
        watch.wait_for(lambda: watch.of(6, "gpu_up") == 0)
        watch.wait_for(lambda: watch.of(6, "gpu_xid_errors_total", xid="79") == 1)

        assert watch.of(6, "gpu_power_watts") is None


def test_gp7_a_hung_gpus_values_are_withdrawn_within_the_deadline_and_the_others_stay(fake):
    fake.set(7, **{"util.gpu": 95, "clock.sm": 1980})
    with watching(fake) as watch:
        watch.wait_until_read()
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": -1, "util.gpu": 0, "clock.sm": 345})
        hung_at_s = time.monotonic()
        watch.wait_for(lambda: watch.of(7, "gpu_busy_ratio") is None)
        took_s = time.monotonic() - hung_at_s
        watch.wait_for(lambda: watch.down() == {fake.uuid(7): "hung"})

        assert took_s < watch.plan.deadline_s + 2 * watch.plan.interval_s
        assert watch.of(7, "gpu_up") == 0
        assert watch.of(7, "gpu_down", reason="hung", call="gpu_power") == 1
        assert watch.of(7, "gpu_energy_joules_total") is None
        ages = [time.time() - value for _, value in watch.all("gpu_last_read_timestamp_seconds")]
        assert len(ages) == 7
        assert max(ages) < watch.plan.deadline_s

        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": None})
        watch.wait_for(lambda: watch.of(7, "gpu_up") == 1)
        assert watch.of(7, "gpu_sm_clock_hertz") == 345e6


def test_gp8_a_scrape_waits_for_no_driver(fake):
    for gpu in range(8):
        fake.set(gpu, **{"latency_ms.DeviceGetPowerUsage": 320})

    with watching(fake) as watch:
        watch.wait_until_read()
        took_s = []
        for _ in range(50):
            began_s = time.perf_counter()
            watch.sidecar.metrics()
            took_s.append(time.perf_counter() - began_s)
            time.sleep(0.01)

    assert sorted(took_s)[25] < 0.005


def test_gp9_four_billion_per_cent_is_no_reading(fake):
    with board(fake) as one:
        fake.set(0, **{"util.gpu": 4294967295})
        blank = one.read()
        fake.set(0, **{"util.gpu": 2619})
        shifted = one.read()

    for told in (blank, shifted):
        assert "gpu_busy" not in told["levels"]
        assert told["rejected"] == {"gpu_busy": 1}


def test_gp9_what_is_rejected_is_counted_on_the_page(fake):
    fake.set(0, **{"util.gpu": 2619})

    with watching(fake) as watch:
        watch.wait_until_read()
        watch.wait_for(
            lambda: (watch.of(0, "gpu_readings_rejected_total", field="gpu_busy") or 0) >= 2
        )

        assert watch.of(0, "gpu_busy_ratio") is None
        assert watch.of(0, "gpu_field_unavailable", field="gpu_busy", reason="rejected") == 1


def test_gp10_energy_without_a_counter_is_summed_up_from_power_and_says_so(fake):
    fake.set(0, energy_mj=None, power_mw=650_000)

    with watching(fake) as watch:
        watch.wait_until_read()
        watch.wait_for(
            lambda: (watch.of(0, "gpu_energy_joules_total", source="power_integral") or 0) > 500
        )

        assert watch.of(0, "gpu_energy_joules_total") is None
        assert watch.of(1, "gpu_energy_joules_total") > 0


def test_gp11_a_name_that_is_no_text_hides_no_gpu(fake):
    fake.set(3, name="hex:f8e94e")

    with watching(fake) as watch:
        watch.wait_until_read()
        names = {labels["gpu_uuid"]: labels["gpu_name"] for labels, _ in watch.all("gpu_info")}

    assert len(names) == 8
    assert names[fake.uuid(3)] == "\ufffd\ufffdN"


def test_gp12_a_process_list_that_cannot_be_true_is_dropped(fake):
    fake.set(procs_wide=1)
    fake.set(0, procs=f"{os.getpid()}:{8192 * MIB}:0:0,{os.getppid()}:{9216 * MIB}:0:0")

    with board(fake) as one:
        garbled = one.read()
        fake.set(procs_wide=None)
        sound = one.read()

    assert garbled["absent"]["gpu_processes"] == "inconsistent"
    assert garbled["pids"] == []
    assert "gpu_process_memory" not in garbled["levels"]
    assert sound["levels"]["gpu_process_memory"] == 17_408 * MIB
    assert sound["pids"] == [os.getpid(), os.getppid()]


def test_gp13_an_empty_gpu_uses_nothing_and_reserves_551_mib(fake):
    with watching(fake) as watch:
        watch.wait_until_read()

        assert watch.of(0, "gpu_memory_used_bytes") == 0
        assert watch.of(0, "gpu_memory_reserved_bytes") == 551 * MIB


def test_gp14_unified_memory_has_no_used_and_no_total(boards):
    with watching(boards("gb10", 1)) as watch:
        watch.wait_until_read(1)
        ((info, _),) = watch.all("gpu_info")

        assert info["memory_model"] == "unified"
        assert not watch.all("gpu_memory_total_bytes")
        assert not watch.all("gpu_memory_used_bytes")
        assert watch.of(0, "gpu_field_unavailable", field="gpu_memory", reason="not_supported") == 1
        assert watch.of(0, "gpu_power_watts") == 11.17
        assert watch.of(0, "gpu_processes") == 0


def health(watch):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{watch.sidecar.port}/healthz") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_gp16_devices_that_vanish_are_told_and_after_a_while_a_new_container_is_asked_for(fake):
    fake.set(init_err=999)

    with watching(fake, unhealthy_after_s=1) as watch:
        watch.wait_for(lambda: watch.value("gpu_driver_down", reason="unknown_error") == 1)
        early = health(watch)
        watch.wait_for(lambda: health(watch)[0] == 503)
        late = health(watch)

        assert watch.value("gpu_driver_up") == 0
    assert early == (200, "ok\n")
    assert "unknown_error" in late[1]


def test_gp17_a_driver_that_mismatches_at_the_start_heals_without_a_restart(fake):
    fake.set(init_err=18)

    with watching(fake) as watch:
        watch.wait_for(lambda: watch.value("gpu_driver_down", reason="version_mismatch") == 1)
        pid = os.getpid()
        fake.set(init_err=None)
        watch.wait_until_read()

        assert watch.value("gpu_driver_up") == 1
        assert pid == os.getpid()


def test_gp17_a_driver_reloaded_underneath_is_read_by_a_new_process(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        before = watch.sidecar.supervisor.pids
        fake.set(epoch=1)
        watch.wait_for(lambda: watch.value("gpu_worker_restarts_total", reason="unknown_error"))
        watch.wait_until_read()

        assert watch.sidecar.supervisor.pids != before
        assert not watch.down()


def test_gp18_one_bad_gpu_costs_only_itself(fake):
    with watching(fake) as watch:
        watch.wait_until_read()
        fake.set(2, **{"err.*": 999})
        watch.wait_for(lambda: watch.down() == {fake.uuid(2): "unknown_error"})

        assert len(watch.all("gpu_power_watts")) == 7


def test_gp18_also_when_it_is_bad_from_the_start(fake):
    fake.set(2, **{"err.*": 999})

    with watching(fake) as watch:
        watch.wait_until_read(7)

        assert watch.down() == {"index-2": "unknown_error"}
        fake.set(2, **{"err.*": None})
        watch.wait_until_read()
        assert not watch.down()


@pytest.mark.slow
def test_gp19_ten_thousand_readings_cost_no_memory_and_no_descriptors(fake):
    import psutil

    me = psutil.Process()
    with board(fake) as one:
        for _ in range(500):
            one.read()
        before = me.memory_info().rss, me.num_fds()
        for _ in range(10_000):
            one.read()
        after = me.memory_info().rss, me.num_fds()

    assert after[0] - before[0] < 2 * MIB
    assert after[1] == before[1]


def test_gp19_a_term_signal_ends_it_within_two_seconds(fake, tmp_path):
    file = tmp_path / "stagewatch.yaml"
    file.write_text("exporters: {gpu: {listen_port: null, endpoint: null}}")
    command = [sys.executable, "-m", "stagewatch", "exporter", "gpu", "--config", str(file)]
    process = subprocess.Popen(command, env={**os.environ, **fake.env()})
    try:
        children = _wait_for_child(process.pid)
        process.send_signal(signal.SIGTERM)
        began_s = time.monotonic()

        assert process.wait(10) == 0
        assert time.monotonic() - began_s < 2
        assert not any(map(_lives, children))
    finally:
        process.kill()
        process.wait()


def _wait_for_child(pid):
    import psutil

    end_s = time.monotonic() + 20
    while not (children := [each.pid for each in psutil.Process(pid).children()]):
        assert time.monotonic() < end_s
        time.sleep(0.05)
    return children


def _lives(pid):
    import psutil

    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_gp20_an_engine_may_name_a_mig_instance(fake):
    fake.enable_mig(2)
    told = {"service": "chat", "replica": "r0", "gpus": [fake.mig_uuid(2, 0)]}

    with watching(fake, replicas=[told]) as watch:
        watch.wait_until_read()
        watch.wait_for(lambda: watch.all("gpu_serves"))
        ((serves, _),) = watch.all("gpu_serves")
        infos = {labels["gpu_uuid"]: labels for labels, _ in watch.all("gpu_info")}
        parent = infos[serves["gpu_uuid"]]["gpu_parent"]

        assert serves["replica"] == "r0"
        assert watch.value("gpu_memory_total_bytes", gpu_uuid=serves["gpu_uuid"]) == 9856 * MIB
        assert watch.value("gpu_power_watts", gpu_uuid=parent) == 70


def test_gp20_index_and_uuid_do_as_well():
    known = [replicas.Device(uuid=f"GPU-{n}aa", index=n) for n in range(3)]
    told = Replica(series=(("replica", "r0"),), gpus=("1", "GPU-2aa", "GPU-0", "GPU-", "7"))

    found, unknown = replicas.serves([told], known, lambda _: ())

    assert [uuid for uuid, _ in found] == ["GPU-1aa", "GPU-2aa", "GPU-0aa"]
    assert unknown == ["r0: no GPU here is called 'GPU-'", "r0: no GPU here is called '7'"]


def test_gp21_counters_that_dcgm_reads_are_left_alone_unless_told_otherwise(fake):
    with socket.create_server(("127.0.0.1", 0)) as dcgm:
        port = dcgm.getsockname()[1]
        with watching(fake, dcgm_port=port) as watch:
            watch.wait_until_read()

            assert watch.of(0, "gpu_activity_supported") == 0
            assert (
                watch.of(0, "gpu_field_unavailable", field="gpu_activity", reason="dcgm_present")
                == 1
            )
            assert watch.of(0, "gpu_sm_active_ratio") is None
        with watching(fake, dcgm_port=port, activity="on") as watch:
            watch.wait_for(lambda: watch.of(0, "gpu_sm_active_ratio") is not None)

            assert watch.of(0, "gpu_activity_supported") == 1
