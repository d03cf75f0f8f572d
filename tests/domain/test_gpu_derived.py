"""What follows from GPU readings and engine counters together."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.energy import EnergyWindow, energy_per_token, fit_energy
from domain.headroom import headroom
from domain.straggler import GroupMember, stragglers
from domain.throttle import HARMFUL, throttle_shares, worst_of
from domain.wedge import GpuSign, WedgeState, wedge

seconds = st.floats(0, 1e6)
IDLING = GpuSign(power_w=13, idle_power_w=11)


def test_a_share_is_the_counters_growth_over_the_window():
    assert throttle_shares({"sw_power_cap": 123.0}, 300) == {"sw_power_cap": 0.41}


@given(st.dictionaries(st.sampled_from(HARMFUL), seconds), st.floats(1e-3, 1e6))
def test_a_share_is_never_more_than_all_of_it(held_s, observed_s):
    shares = throttle_shares(held_s, observed_s)

    assert shares.keys() == held_s.keys()
    assert all(0 <= share <= 1 for share in shares.values())


@pytest.mark.parametrize("observed_s", [0, -1, math.nan])
def test_a_window_that_nobody_observed_has_no_shares(observed_s):
    assert throttle_shares({"hw_thermal": 1.0}, observed_s) == {}


def test_a_counter_that_fell_has_no_share():
    assert throttle_shares({"hw_thermal": -1.0, "sw_thermal": math.nan}, 60) == {}


def test_the_slowest_gpu_of_a_group_sets_its_pace():
    worst = worst_of({"a": {"sw_power_cap": 0.1}, "b": {"sw_power_cap": 0.41, "sync_boost": 0.9}})

    assert (worst.gpu_uuid, worst.cause, worst.share) == ("b", "sw_power_cap", 0.41)


def test_a_share_below_the_floor_is_not_worth_a_word():
    assert worst_of({"a": {"sw_power_cap": 0.1}}, at_least=0.2) is None
    assert worst_of({"a": {"sw_power_cap": 0.0}}) is None
    assert worst_of({}) is None


def test_requests_without_tokens_on_idling_gpus_are_a_wedged_engine():
    found = wedge(requests_running=4, flat_s=61, gpus=[IDLING])

    assert found.state is WedgeState.WEDGED
    assert found.evidence[0] == "4 requests run and no token came for 61 s"
    assert found.missing == ("activity",)


def test_the_same_at_500_watts_is_only_suspect():
    found = wedge(requests_running=4, flat_s=61, gpus=[GpuSign(power_w=500, idle_power_w=11)])

    assert found.state is WedgeState.SUSPECT
    assert found.contra == ("a GPU draws more power than when idle",)


def test_busy_gpus_that_move_nothing_are_wedged_whatever_they_draw():
    resting = GpuSign(power_w=500, idle_power_w=70, tensor_active=0.0, dram_bandwidth=0.002)

    assert wedge(requests_running=1, flat_s=60, gpus=[resting]).state is WedgeState.WEDGED


def test_one_gpu_at_work_leaves_doubt():
    working = GpuSign(power_w=400, idle_power_w=11)

    assert wedge(requests_running=4, flat_s=99, gpus=[IDLING, working]).state is WedgeState.SUSPECT


def test_gpus_that_say_nothing_confirm_nothing():
    found = wedge(requests_running=4, flat_s=99, gpus=[GpuSign()])

    assert found.state is WedgeState.SUSPECT
    assert found.missing == ("power", "activity")
    assert wedge(requests_running=4, flat_s=99, gpus=[]).state is WedgeState.SUSPECT


@pytest.mark.parametrize(("running", "flat_s"), [(0, 1e6), (4, 59), (0, 0)])
def test_no_requests_or_fresh_tokens_are_nothing(running, flat_s):
    found = wedge(requests_running=running, flat_s=flat_s, gpus=[IDLING])

    assert found.state is WedgeState.NOTHING


def test_an_engine_that_does_not_say_is_not_judged():
    found = wedge(requests_running=None, flat_s=None, gpus=[IDLING])

    assert found.state is WedgeState.UNKNOWN
    assert found.missing == ("requests_running", "tokens")


def test_the_gpu_that_is_slower_than_the_others_is_told():
    group = {
        name: GroupMember(sm_clock_hz=1.98e9, temperature_c=60, pcie_lanes=16) for name in "abcd"
    }
    group["c"] = GroupMember(sm_clock_hz=1.2e9, temperature_c=84, pcie_lanes=8)

    assert [(each.gpu_uuid, each.what, each.others) for each in stragglers(group)] == [
        ("c", "pcie_lanes", 16),
        ("c", "sm_clock_hz", 1.98e9),
        ("c", "temperature_c", 60),
    ]


@given(st.floats(1e8, 3e9), st.integers(1, 8))
def test_a_group_that_is_slow_as_a_whole_has_no_straggler(clock_hz, size):
    group = {str(number): GroupMember(sm_clock_hz=clock_hz) for number in range(size)}

    assert stragglers(group) == []


def test_one_of_two_can_be_told_and_one_alone_cannot():
    pair = {"a": GroupMember(nvlinks_active=18), "b": GroupMember(nvlinks_active=17)}

    assert [each.gpu_uuid for each in stragglers(pair)] == ["b"]
    assert stragglers({"b": GroupMember(nvlinks_active=1)}) == []
    assert stragglers({"a": GroupMember(), "b": GroupMember()}) == []


def test_joules_per_token_with_what_idling_would_have_cost():
    found = energy_per_token(60_000, 40_000, observed_s=100, idle_w=150)

    assert found.joules == 1.5
    assert found.idle_share == 0.25


def test_energy_without_tokens_is_no_price():
    assert energy_per_token(60_000, 0, observed_s=100) is None
    assert energy_per_token(math.nan, 10, observed_s=100) is None
    assert energy_per_token(10, 10, observed_s=1).idle_share is None


@given(st.floats(10, 500), st.floats(0.01, 2), st.floats(0.1, 20), st.integers(0, 999))
def test_a_mixed_pool_is_taken_apart_when_its_windows_differ(idle_w, a, b, seed):
    dice = random.Random(seed)  # noqa: S311 - invented traffic
    windows = []
    for _ in range(30):
        prompt, output = dice.uniform(0, 90_000), dice.uniform(0, 9_000)
        joules = idle_w * 60 + a * prompt + b * output
        windows.append(
            EnergyWindow(joules=joules, prompt_tokens=prompt, output_tokens=output, observed_s=60)
        )

    fit = fit_energy(windows)

    assert fit.idle_w == pytest.approx(idle_w, rel=1e-5)
    assert fit.joules_per_prompt_token == pytest.approx(a, rel=1e-5)
    assert fit.joules_per_output_token == pytest.approx(b, rel=1e-5)
    assert fit.r_squared == pytest.approx(1)


def test_windows_that_are_few_or_all_alike_tell_nothing_apart():
    one = EnergyWindow(joules=9e4, prompt_tokens=1e4, output_tokens=1e3, observed_s=60)
    idle = EnergyWindow(joules=9e4, prompt_tokens=0, output_tokens=0, observed_s=60)

    assert fit_energy([one] * 5) is None
    assert fit_energy([one] * 40) is None
    assert fit_energy([idle] * 40) is None


def test_the_fullest_resource_binds():
    found = headroom(
        {"dram_bandwidth": 0.8, "tensor_active": 0.3, "kv_cache_usage": None},
        gpus=10,
        role="decode",
    )

    assert (found.resource, found.expected) == ("dram_bandwidth", True)
    assert found.gpus_left == pytest.approx(2)


def test_a_decode_pool_bound_by_its_cache_is_not_what_its_role_expects():
    found = headroom({"dram_bandwidth": 0.4, "kv_cache_usage": 0.97}, gpus=4, role="decode")

    assert (found.resource, found.expected) == ("kv_cache_usage", False)
    assert headroom({"dram_bandwidth": 0.4}, gpus=4).expected is None


def test_nothing_known_is_no_headroom_and_utilisation_is_refused():
    assert headroom({"dram_bandwidth": None}, gpus=4) is None
    with pytest.raises(ValueError, match="not how much is left"):
        headroom({"gpu_busy": 0.1}, gpus=4)
