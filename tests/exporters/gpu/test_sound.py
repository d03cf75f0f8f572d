"""Readings that cannot be, and boards that stand still."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.gpu.processes import Held, agree
from exporters.gpu.questions import CAUSES, causes_in
from exporters.gpu.sound import Suspicion, is_sound


@given(st.sampled_from(["gpu_busy", "gpu_power", "gpu_temperature", "total:gpu_energy"]))
def test_what_is_no_number_is_never_sound(key):
    assert not is_sound(key, math.nan, {})
    assert not is_sound(key, math.inf, {})
    assert not is_sound(key, -math.inf, {})


@pytest.mark.parametrize(
    ("key", "value", "sound"),
    [
        ("gpu_busy", 1.0, True),
        ("gpu_busy", 42949672.95, False),
        ("gpu_temperature", 149.0, True),
        ("gpu_temperature", 4294967291.0, False),
        ("gpu_thermal_margin", -3.0, True),
        ("gpu_power", 1400.0, True),
        ("gpu_power", 1401.0, False),
        ("gpu_memory_used", 81.0, False),
        ("total:gpu_energy", -1.0, False),
        ("gpu_margin_limit/shutdown", -8.0, True),
    ],
)
def test_a_reading_must_lie_where_a_board_can_be(key, value, sound):
    others = {"gpu_power_limit": 700.0, "gpu_memory_total": 80.0}

    assert is_sound(key, value, others) is sound


@given(st.integers(0, 2**11 - 1))
def test_idle_is_no_throttling_and_a_finer_cause_stands_for_the_hardware_slowdown(mask):
    causes = causes_in(mask)

    assert causes <= set(CAUSES.values())
    assert causes_in(mask | 1) == causes_in(mask | 2) == causes
    assert not ({"hw_thermal", "hw_power_brake"} & causes and "hw_slowdown" in causes)


def still(power_w):
    return {"gpu_busy": 0.95, "gpu_sm_clock": 1.98e9, "gpu_temperature": 60.0, "gpu_power": power_w}


def test_readings_that_stand_still_while_power_moves_are_suspect():
    suspicion = Suspicion()
    found = [suspicion.add(still(300.0 + 100 * (turn % 2))) for turn in range(70)]

    assert found[50] == frozenset()
    assert found[-1] == {"frozen"}


def test_a_board_at_rest_is_not_suspect():
    suspicion = Suspicion()

    assert {suspicion.add(still(70.0)) for _ in range(200)} == {frozenset()}


def test_one_reading_that_moves_ends_the_suspicion():
    suspicion = Suspicion()
    for turn in range(70):
        suspicion.add(still(300.0 + 100 * (turn % 2)))

    assert suspicion.add({**still(300.0), "gpu_temperature": 61.0}) == frozenset()


held = st.builds(Held, st.integers(1, 30_000), st.none() | st.integers(0, 10**9))


@given(st.lists(held, max_size=8, unique_by=lambda one: one.pid))
def test_a_list_whose_processes_all_exist_and_fit_is_believed(listed):
    seen = frozenset(one.pid for one in listed)

    assert agree(listed, 10.0**10, most_pid=32_768, seen=seen)
    assert agree(listed, 10.0**10, most_pid=32_768, seen=frozenset())


@pytest.mark.parametrize(
    ("listed", "seen"),
    [
        ([Held(0, 4200)], {0}),
        ([Held(99_999, 1)], set()),
        ([Held(1, 1), Held(2, 1)], {1}),
        ([Held(1, 60), Held(2, 41)], {1, 2}),
    ],
)
def test_a_list_that_contradicts_itself_is_not(listed, seen):
    assert not agree(listed, 100.0, most_pid=32_768, seen=frozenset(seen))
