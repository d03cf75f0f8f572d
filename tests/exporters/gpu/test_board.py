"""One board, asked through the real bindings: what it says, and what it costs when it cannot."""

import os
import subprocess
import sys

import pytest

from exporters.gpu.failure import reason_of
from exporters.gpu.nvml import Unavailable
from tests.exporters.gpu.watching import board, loaded
from tests.fake_nvml.library import MIB, FakeNvml


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now_s = 1000.0

    def __call__(self):
        return self.now_s


def test_every_level_is_in_base_units(fake):
    fake.set(0, **{"util.gpu": 97, "util.memory": 61, "mem.used": 70_000 * MIB, "clock.sm": 1410})

    with board(fake) as one:
        levels = one.read()["levels"]

    assert levels["gpu_busy"] == 0.97
    assert levels["gpu_memory_busy"] == 0.61
    assert levels["gpu_memory_used"] == 70_000 * MIB
    assert levels["gpu_sm_clock"] == 1.41e9
    assert levels["gpu_sm_clock_max"] == 1.98e9
    assert levels["gpu_power"] == 70.0
    assert levels["gpu_power_limit"] == levels["gpu_power_limit_max"] == 700.0
    assert levels["gpu_temperature"] == 33.0
    assert levels["gpu_memory_temperature"] == 43.0
    assert levels["gpu_thermal_margin"] == 54.0
    assert levels["gpu_margin_limit/shutdown"] == -8.0
    assert levels["gpu_nvlinks"] == levels["gpu_nvlinks_active"] == 18.0
    assert levels["gpu_fabric_state"] == 3.0


def test_memory_adds_up_and_used_leaves_out_what_is_reserved(fake):
    with board(fake) as one:
        levels = one.read()["levels"]

    parts = [levels[f"gpu_memory_{part}"] for part in ("reserved", "used", "free")]
    assert sum(parts) == levels["gpu_memory_total"] == 81559 * MIB


def test_counters_are_in_base_units(fake):
    fake.set(0, **{"energy_mj": 5_000_000, "power_mw": 0, "field.138": 3, "pcie.replay": 7})

    with board(fake) as one:
        totals = one.read()["totals"]

    assert totals["gpu_energy"] == 5000.0
    assert totals["gpu_nvlink_sent"] == 3072.0
    assert totals["gpu_pcie_sent"] == 5e6
    assert totals["gpu_pcie_replays"] == 7.0


def test_time_throttled_is_told_by_cause(fake):
    fake.set(0, **{"field.74": 2_500_000_000, "field.270": 40_000_000, "reasons": 0x4})

    with board(fake) as one:
        told = one.read()

    assert told["totals"]["gpu_throttle/sw_power_cap"] == pytest.approx(2.5)
    assert told["totals"]["gpu_throttle/hw_thermal"] == pytest.approx(0.04)
    assert told["levels"]["gpu_throttled/sw_power_cap"] == 1.0
    assert told["levels"]["gpu_throttled/hw_thermal"] == 0.0


@pytest.mark.parametrize("code", [4, 8, 11, 777])
def test_one_question_that_fails_costs_only_its_own_answer(fake, code):
    fake.set(0, **{"err.DeviceGetPowerUsage": code})

    with board(fake) as one:
        told = one.read()

    assert "gpu_power" not in told["levels"]
    assert told["absent"]["gpu_power"] == reason_of(code)
    assert told["levels"]["gpu_temperature"] == 33.0


@pytest.mark.parametrize("code", [6, 10, 21, 27])
def test_no_value_at_the_moment_is_neither_a_value_nor_a_fault(fake, code):
    fake.set(0, **{"err.DeviceGetPowerUsage": code})

    with board(fake) as one:
        told = one.read()

    assert "gpu_power" not in told["levels"]
    assert "gpu_power" not in told["absent"]


@pytest.mark.parametrize(("code", "word"), [(15, "gpu_lost"), (16, "reset_required")])
def test_a_gpu_that_is_gone_is_asked_nothing_more(fake, code, word):
    fake.set(0, **{"err.DeviceGetMaxClockInfo": code})

    with board(fake) as one:
        assert one.read() == {"down": word, "call": "gpu_sm_clock_max"}


def test_a_gpu_that_comes_back_is_read_again(fake):
    with board(fake, 3) as one:
        fake.set(3, lost=1)
        lost = one.read()
        fake.set(3, lost=None)
        back = one.read()

    assert lost["down"] == "gpu_lost"
    assert back["levels"]["gpu_power"] == 70.0


def test_what_a_board_cannot_tell_is_asked_again_after_ten_minutes(fake):
    clock = Clock()
    fake.set(0, **{"err.DeviceGetPerformanceState": 3})

    with board(fake, now=clock) as one:
        assert one.read()["absent"]["gpu_performance_state"] == "not_supported"
        fake.set(0, **{"err.DeviceGetPerformanceState": None})
        clock.now_s += 590
        soon = one.read()
        clock.now_s += 11
        later = one.read()

    assert "gpu_performance_state" not in soon["levels"]
    assert later["levels"]["gpu_performance_state"] == 0.0


def test_what_changes_rarely_is_asked_every_ten_seconds(fake):
    clock = Clock()

    with board(fake, now=clock) as one:
        one.read()
        fake.set(0, **{"ecc.volatile.uncorrected": 2})
        clock.now_s += 5
        same = one.read()["levels"]["gpu_ecc_uncorrected"]
        clock.now_s += 5
        new = one.read()["levels"]["gpu_ecc_uncorrected"]

    assert (same, new) == (0.0, 2.0)


def test_energy_is_summed_up_from_power_where_there_is_no_counter(fake):
    clock = Clock()
    fake.set(0, energy_mj=None, power_mw=650_000)

    with board(fake, now=clock) as one:
        first = one.read()["totals"]["gpu_energy/power_integral"]
        for _ in range(10):
            clock.now_s += 1
            told = one.read()

    assert first == 0.0
    assert told["totals"]["gpu_energy/power_integral"] == pytest.approx(6500)
    assert told["absent"]["gpu_energy"] == "not_supported"
    assert "gpu_energy" not in told["totals"]


def test_no_energy_is_made_up_for_a_gap(fake):
    clock = Clock()
    fake.set(0, energy_mj=None, power_mw=650_000)

    with board(fake, now=clock) as one:
        one.read()
        clock.now_s += 60

        assert one.read()["totals"]["gpu_energy/power_integral"] == 0.0


def test_a_board_that_the_question_woke_is_not_believed_at_once(fake):
    clock = Clock()
    fake.set(0, **{"persistence": 0, "util.gpu": 100})

    with board(fake, now=clock) as one:
        waking = one.read()
        clock.now_s += 5
        awake = one.read()

    assert waking["absent"]["gpu_busy"] == "waking"
    assert awake["levels"]["gpu_busy"] == 1.0


def test_activity_is_what_happened_between_two_readings(fake):
    fake.set(0, **{"gpm.2": 90, "gpm.5": 41.5, "gpm.10": 88.25})

    with board(fake) as one:
        first, second = one.read()["levels"], one.read()["levels"]

    assert "gpu_tensor_active" not in first
    assert second["gpu_sm_active"] == pytest.approx(0.9)
    assert second["gpu_tensor_active"] == pytest.approx(0.415)
    assert second["gpu_dram_bandwidth"] == pytest.approx(0.8825)


def test_activity_that_is_missing_in_part_is_told_in_part(fake):
    fake.set(0, **{"gpm.5": None})

    with board(fake) as one:
        one.read()
        second = one.read()["levels"]

    assert "gpu_tensor_active" not in second
    assert second["gpu_sm_active"] == 0.0


def test_activity_zero_on_a_busy_board_is_suspect_and_sampling_starts_anew(fake):
    fake.set(0, **{"util.gpu": 99, "gpm.2": 0})

    with board(fake) as one:
        told = [one.read()["levels"] for _ in range(8)]

    assert "gpu_reading_suspect/activity_zero" not in told[3]
    assert any("gpu_reading_suspect/activity_zero" in each for each in told[4:])


def test_without_permission_everything_else_is_told(fake):
    fake.set(0, **{"err.GpmSampleGet": 4})

    with board(fake) as one:
        told = one.read()

    assert told["absent"]["gpu_activity"] == "no_permission"
    assert told["levels"]["gpu_power"] == 70.0


@pytest.mark.parametrize("profile", ["h100", "h200", "a100", "l4", "gb10"])
def test_every_profile_is_read_and_nothing_is_rejected(boards, profile):
    with board(boards(profile, 1)) as one:
        told = one.read()

    assert told["levels"]["gpu_power"] > 10
    assert not told["rejected"]
    assert all(value == value for value in told["levels"].values())  # noqa: PLR0124 - no NaN


def test_only_hopper_and_newer_tell_of_activity(boards):
    with board(boards("a100", 1)) as one:
        told = one.read()

    assert told["absent"]["gpu_activity"] == "not_supported"
    assert told["levels"]["gpu_temperature_limit/slowdown"] == 89.0


def test_a_mig_instance_has_its_own_memory_and_activity_and_the_board_the_rest(fake):
    fake.enable_mig(0)
    fake.set(0, procs=f"{os.getpid()}:{5 * MIB}:10:0")

    with board(fake) as one:
        one.read()
        told = one.read()

    instances = {each["uuid"]: each for each in told["instances"]}
    fourth = instances[fake.mig_uuid(0, 3)]
    assert len(instances) == 7
    assert fourth["gi"] == 10
    assert fourth["levels"]["gpu_memory_total"] == 9856 * MIB
    assert fourth["levels"]["gpu_sm_active"] == 0.5
    assert fourth["pids"] == [os.getpid()]
    assert "gpu_power" not in fourth["levels"]
    assert told["levels"]["gpu_power"] == 70.0
    assert told["absent"]["gpu_busy"] == "not_supported"


def test_compute_instances_share_the_memory_of_their_gpu_instance(fake):
    fake.enable_mig(0, shared=True)

    with board(fake) as one:
        instances = one.read()["instances"]

    assert ["gpu_memory_total" in each["levels"] for each in instances] == [True] + [False] * 6


def test_mig_that_is_switched_while_we_watch_is_seen(fake):
    with board(fake) as one:
        before = len(one.read()["instances"])
        fake.enable_mig(0)
        during = len(one.read()["instances"])
        fake.disable_mig(0)
        after = one.read()

    assert (before, during, len(after["instances"])) == (0, 7, 0)


def test_holes_among_the_instances_are_normal(fake):
    fake.enable_mig(0)
    fake.set(0, **{"mig2.uuid": None, "mig5.uuid": None})

    with board(fake) as one:
        told = one.read()

    assert len(told["instances"]) == 5
    assert "gpu_instances" not in told["absent"]


def test_instances_that_cannot_be_listed_cost_the_board_nothing(fake):
    fake.set(0, **{"mig.mode": 1, "err.DeviceGetMaxMigDeviceCount": 999})

    with board(fake) as one:
        told = one.read()

    assert told["absent"]["gpu_instances"] == "unknown_error"
    assert told["levels"]["gpu_power"] == 70.0


def test_an_old_driver_is_asked_by_its_old_names(tmp_path):
    """In a process of its own: what a process once linked to stays linked."""
    fake = FakeNvml(tmp_path, "a100", 1, old=True)
    code = (
        "from exporters.gpu.nvml import Nvml; from exporters.gpu.board import Board\n"
        f"n = Nvml(); n.ask('nvmlInit'); print(Board(n, {fake.uuid(0)!r}).read())"
    )

    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **fake.env(), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=True,
    )

    assert "'gpu_memory_total': 85899345920.0" in run.stdout
    assert "'gpu_temperature': 33.0" in run.stdout
    assert "'gpu_processes': 0.0" in run.stdout
    assert "'gpu_memory_reserved'" not in run.stdout


def test_handles_of_a_reloaded_driver_are_given_up(fake):
    with board(fake) as one:
        one.read()
        fake.set(epoch=1)

        assert one.read()["down"] == "unknown_error"


def test_a_call_the_bindings_do_not_have_is_not_supported(fake):
    with loaded(fake) as nvml, pytest.raises(Unavailable) as missing:
        nvml.ask("nvmlDeviceGetMemoryInfo_v2")

    assert missing.value.reason == "not_supported"
