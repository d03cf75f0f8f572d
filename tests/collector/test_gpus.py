"""GPUs over a window of a real store: what each says, and what pools and engines make of it."""

import pytest

from collector.gpu_answer import gpus_answer
from collector.query import Window
from collector.reader import StoreReader
from collector.store import open_store
from domain.condition import ConditionKind, sentence
from domain.gpu import Sight
from domain.wedge import WedgeState
from tests.collector.gpu_fleet import NOW, WELL, fleet, gpu_id

QUARTER = Window(since_s=NOW - 900, until_s=NOW)
CHAT = {"service": "chat", "replica": "r0", "role": "decode", "pool": "a"}
RUNNING = {"requests_running": 4}


def answer(folder, gpus, engines=(), *, window=QUARTER, step_s=None, where=(), **more):
    fleet(folder, gpus, engines, **more)
    return ask(folder, lambda reader: reader.gpus(window, where=where, step_s=step_s))


def ask(folder, question):
    reader = StoreReader(folder, now=lambda: float(NOW))
    try:
        return question(reader)
    finally:
        reader.close()


def well(ago_s, *, serves=(), **counters):
    del ago_s
    return WELL, counters, serves


def at_work(_):
    return WELL, {"gpu_energy": 5000}, [CHAT]


def decoding(_):
    return {**RUNNING, "kv_cache_usage": 0.5}, {"prompt_tokens": 900, "generation_tokens": 2000}


@pytest.fixture(scope="module")
def throttled(tmp_path_factory):
    """One GPU whose power cap holds for 4 s of every 10 in the last five minutes."""

    def held(ago_s):
        counters = {"gpu_throttle/sw_power_cap": 4 if ago_s <= 300 else 0}
        return WELL, {**counters, "gpu_throttle/hw_thermal": 0}, []

    return answer(tmp_path_factory.mktemp("held"), [held], step_s=60, every_s=10)


def test_throttle_seconds_are_told_by_cause_and_as_a_share_of_what_was_observed(throttled):
    (gpu,) = throttled.gpus

    assert gpu.held_s == {"sw_power_cap": 120.0, "hw_thermal": 0.0}
    assert gpu.observed_s == pytest.approx(900, abs=15)
    assert gpu.shares["sw_power_cap"] == pytest.approx(120 / 900, abs=0.01)
    assert gpu.shares["hw_thermal"] == 0.0


def test_each_step_says_what_held_the_clocks_down_in_it(throttled):
    (gpu,) = throttled.gpus
    held = [each.held.get("sw_power_cap", 0.0) for each in gpu.moments]

    assert held[:10] == [0.0] * 10
    assert held[10:] == pytest.approx([0.4] * 5)
    assert [each.sight for each in gpu.moments] == [Sight.UP] * 15


@pytest.mark.parametrize("every_s", [30, 60])
def test_a_share_does_not_depend_on_how_often_a_sidecar_pushes(tmp_path, every_s):
    def held(_):
        return WELL, {"gpu_throttle/hw_thermal": every_s / 4}, []

    (gpu,) = answer(tmp_path, [held], every_s=every_s).gpus

    assert gpu.shares["hw_thermal"] == pytest.approx(0.25, rel=0.08)


def test_time_that_nobody_observed_dilutes_no_share(tmp_path):
    def held(ago_s):
        return None if ago_s > 300 else (WELL, {"gpu_throttle/hw_thermal": 5}, [])

    (gpu,) = answer(tmp_path, [held], step_s=60, every_s=10).gpus

    assert gpu.observed_s == pytest.approx(300, abs=15)
    assert gpu.shares["hw_thermal"] == pytest.approx(0.5, rel=0.05)
    assert [each.sight for each in gpu.moments[:9]] == [Sight.NOT_OBSERVED] * 9


def test_what_a_gpu_does_not_tell_is_none_and_named_and_never_0(tmp_path):
    (gpu,) = answer(tmp_path, [lambda _: ({"gpu_up": 1, "gpu_temperature": 50}, {}, [])]).gpus
    told = gpus_answer(ask(tmp_path, lambda reader: reader.gpus(QUARTER)))["gpus"][0]

    assert gpu.held_s is None
    assert gpu.energy_j is None
    assert {"gpu_power", "gpu_memory_used", "gpu_throttle", "gpu_energy"} <= set(gpu.missing)
    assert (told["power_w"], told["energy_j"], told["throttle"]["seconds"]) == (None, None, None)
    assert told["throttle"]["share"] is None
    assert told["stragglers"] is None


def test_a_gpu_that_does_not_answer_comes_first_with_its_reason_and_without_old_values(tmp_path):
    def lost(ago_s):
        if ago_s > 60:
            return WELL, {}, []
        return {"gpu_up": 0, "gpu_index": 1, "gpu_down/gpu_lost": 1}, {"gpu_xid_errors/79": 1}, []

    found = answer(tmp_path, [well, lost])

    assert [each.uuid for each in found.gpus] == [gpu_id(1), gpu_id(0)]
    first = found.gpus[0]
    assert (first.up, first.reason) == (False, "gpu_lost")
    assert first.now == {"gpu_index": 1.0}
    assert first.xids == {"79": 3}


def test_a_gpu_of_which_nothing_was_heard_lately_is_neither_up_nor_down(tmp_path):
    (gpu,) = answer(tmp_path, [lambda ago_s: None if ago_s < 200 else (WELL, {}, [])]).gpus

    assert gpu.up is None
    assert gpu.now == {}
    assert gpu.missing == ("gpu_up",)


def test_the_slow_gpu_of_a_replica_is_told_against_the_others(tmp_path):
    def slow(_):
        return {**WELL, "gpu_sm_clock": 1.2e9}, {}, [CHAT]

    found = answer(tmp_path, [at_work, slow, at_work, well])
    off = {each.uuid: each.straggles for each in found.gpus}

    assert [(each.what, each.others) for each in off[gpu_id(1)]] == [("sm_clock_hz", 1.98e9)]
    assert off[gpu_id(0)] == ()
    assert off[gpu_id(3)] is None  # it serves nobody: there are no others


def test_a_decode_pool_says_what_binds_it_and_what_an_output_token_costs(tmp_path):
    found = answer(tmp_path, [at_work, at_work], [(CHAT, decoding)])
    (pool,) = found.pools

    assert (pool.gpus, pool.replicas) == (2, 1)
    assert (pool.headroom.resource, pool.headroom.expected) == ("power", False)
    assert pool.headroom.used == pytest.approx(500 / 700)
    assert pool.headroom.gpus_left == pytest.approx(2 * (1 - 500 / 700))
    assert pool.energy.joules_per_output_token == pytest.approx(5.0)
    assert pool.energy.joules_per_prompt_token is None
    assert pool.energy.observed_s == pytest.approx(900, abs=60)


def test_energy_and_tokens_are_compared_over_the_same_time_only(tmp_path):
    """Half of the time nobody reads the GPUs; tokens of that half would make energy look cheap."""

    def half(ago_s):
        return at_work(ago_s) if ago_s <= 420 else None

    found = answer(tmp_path, [half, half], [(CHAT, decoding)])

    assert found.pools[0].energy.joules_per_output_token == pytest.approx(5.0)
    assert found.pools[0].energy.observed_s == pytest.approx(420, abs=60)


def test_a_pool_of_which_one_gpu_tells_no_energy_has_no_price_and_says_so(tmp_path):
    found = answer(tmp_path, [at_work, lambda _: (WELL, {}, [CHAT])], [(CHAT, decoding)])

    assert found.pools[0].energy is None
    assert "gpu_energy and tokens at one time" in found.pools[0].missing


def test_a_pool_whose_engine_counts_no_tokens_says_which(tmp_path):
    found = answer(tmp_path, [at_work], [(CHAT, lambda _: (RUNNING, {}))])

    assert found.pools[0].energy is None
    assert "generation_tokens" in found.pools[0].missing
    assert "kv_cache_usage" in found.pools[0].missing


def test_a_gpu_of_two_pools_is_the_price_of_neither(tmp_path):
    other = {**CHAT, "replica": "r1", "role": "prefill", "pool": "b"}
    both = [lambda _: (WELL, {"gpu_energy": 5000}, [CHAT, other])]

    found = answer(tmp_path, both, [(CHAT, decoding), (other, decoding)])

    assert [each.energy for each in found.pools] == [None, None]
    assert all("serves another one too" in " ".join(each.missing) for each in found.pools)


def test_a_pool_that_does_both_is_taken_apart_by_minutes_that_differ(tmp_path):
    mixed = {**CHAT, "role": "both"}

    def minute(ago_s):
        return (ago_s - 1) // 60

    def tokens(ago_s):
        at = minute(ago_s)
        return 1000 + 400 * (at % 5), 300 + 100 * (at * 7 % 4)

    def gpu(ago_s):
        prompt, output = tokens(ago_s)
        return WELL, {"gpu_energy": 700 + 0.2 * prompt + 3.0 * output}, [mixed]

    def engine(ago_s):
        prompt, output = tokens(ago_s)
        return RUNNING, {"prompt_tokens": prompt, "generation_tokens": output}

    window = Window(since_s=NOW - 1800, until_s=NOW)
    found = answer(tmp_path, [gpu], [(mixed, engine)], window=window, length_s=1800)
    energy = found.pools[0].energy

    assert energy.joules_per_prompt_token == pytest.approx(0.2, rel=0.02)
    assert energy.joules_per_output_token == pytest.approx(3.0, rel=0.02)
    assert energy.fit.r_squared > 0.99


def test_an_instance_has_no_energy_of_its_own(tmp_path):
    def instance(_):
        told = {"gpu_memory_used": 1e9, "gpu_memory_total": 1e10, "gpu_sm_active": 0.5}
        return told, {}, [CHAT], {"gpu_parent": gpu_id(0)}

    found = answer(tmp_path, [well, instance], [(CHAT, decoding)])
    part = next(each for each in found.gpus if each.parent)

    assert part.up is True
    assert "gpu_power" not in part.missing
    assert found.pools[0].energy is None
    assert any("MIG" in each for each in found.pools[0].missing)


def test_an_instance_that_is_gone_is_not_up_for_its_board_is(tmp_path):
    def instance(ago_s):
        told = ({"gpu_sm_active": 0.5}, {}, [], {"gpu_parent": gpu_id(0)})
        return told if ago_s > 300 else None

    found = answer(tmp_path, [well, instance])

    assert {each.uuid: each.up for each in found.gpus} == {gpu_id(0): True, gpu_id(1): None}


def stuck(ago_s):
    """Tokens came until two minutes before the end."""
    grown = 2000 if ago_s > 120 else 0
    return RUNNING, {"prompt_tokens": grown, "generation_tokens": grown}


def gone_idle(power_w):
    """Rests for five minutes at 110 W, works, and then draws so much while requests hang."""

    def tell(ago_s):
        if ago_s > 600:
            return {**WELL, "gpu_busy": 0, "gpu_power": 110}, {}, [CHAT]
        if ago_s > 120:
            return WELL, {}, [CHAT]
        told = {**WELL, "gpu_busy": 0.96, "gpu_power": power_w}
        return {n: v for n, v in told.items() if n != "gpu_tensor_active"}, {}, [CHAT]

    return tell


def test_gp15_requests_without_tokens_on_gpus_in_their_idle_band_are_wedged(tmp_path):
    found = answer(tmp_path, [gone_idle(115)], [(CHAT, stuck)])
    verdict = found.replicas[0].wedge

    assert verdict.state is WedgeState.WEDGED
    assert verdict.evidence == (
        "4 requests run and no token came for 120 s",
        "all its GPUs draw no more than when idle (115 W, at rest 110 W)",
    )
    assert verdict.missing == ("activity",)


def test_gp15_the_same_at_500_watts_is_suspect(tmp_path):
    found = answer(tmp_path, [gone_idle(500)], [(CHAT, stuck)])

    assert found.replicas[0].wedge.state is WedgeState.SUSPECT
    assert found.replicas[0].wedge.contra == ("a GPU draws more power than when idle",)


def test_gp15_a_gpu_that_never_rested_confirms_nothing_by_its_power(tmp_path):
    """Its least power is no idle power: it may have worked all day."""
    found = answer(tmp_path, [lambda _: (WELL, {}, [CHAT])], [(CHAT, stuck)])

    assert found.replicas[0].wedge.state is WedgeState.SUSPECT
    assert "power" in found.replicas[0].wedge.missing


def test_gp15_without_requests_or_with_tokens_nothing_is_wedged(tmp_path):
    idle = [(CHAT, lambda ago_s: ({"requests_running": 0}, stuck(ago_s)[1]))]

    assert answer(tmp_path, [gone_idle(115)], idle).replicas[0].wedge.state is WedgeState.NOTHING


def test_a_long_answer_is_no_stall_for_want_of_new_prompts(tmp_path):
    engine = [(CHAT, lambda _: (RUNNING, {"prompt_tokens": 0, "generation_tokens": 90}))]

    assert answer(tmp_path, [gone_idle(500)], engine).replicas[0].wedge.state is WedgeState.NOTHING


def test_an_engine_that_is_not_watched_is_unknown_with_what_is_missing(tmp_path):
    verdict = answer(tmp_path, [at_work]).replicas[0].wedge

    assert verdict.state is WedgeState.UNKNOWN
    assert verdict.missing == ("requests_running", "tokens")


def test_a_stall_says_what_its_gpus_do(tmp_path):
    def engine(ago_s):
        values, counters = stuck(ago_s)
        return {**values, "engine_stalled": float(ago_s <= 100)}, counters

    fleet(tmp_path, [gone_idle(115)], [(CHAT, engine)])
    (stall,) = ask(tmp_path, lambda reader: reader.conditions(NOW, kinds=[ConditionKind.STALLED]))

    assert stall.gpus == "All its GPUs draw no more than when idle (115 W, at rest 110 W)."
    assert stall.gpus in sentence(stall, at_s=NOW)


def test_a_stall_without_known_gpus_says_nothing_of_any(tmp_path):
    def engine(ago_s):
        values, counters = stuck(ago_s)
        return {**values, "engine_stalled": float(ago_s <= 100)}, counters

    fleet(tmp_path, [], [(CHAT, engine)])
    (stall,) = ask(tmp_path, lambda reader: reader.conditions(NOW, kinds=[ConditionKind.STALLED]))

    assert stall.gpus == ""


@pytest.mark.parametrize(
    ("where", "places"),
    [
        ((), [0, 1]),
        ((("node", "n1"),), [0, 1]),
        ((("node", "n2"),), []),
        ((("service", "chat"),), [0]),
        ((("gpu_uuid", gpu_id(1)),), [1]),
    ],
)
def test_one_asks_for_a_machine_a_gpu_or_whom_it_serves(tmp_path, where, places):
    found = answer(tmp_path, [at_work, well], where=where, length_s=120)

    assert [each.uuid for each in found.gpus] == [gpu_id(place) for place in places]


def test_an_empty_store_knows_no_gpus(tmp_path):
    open_store(tmp_path).close()
    found = ask(tmp_path, lambda reader: reader.gpus(QUARTER, step_s=60))

    assert (list(found.gpus), list(found.pools), list(found.nodes)) == ([], [], [])


def test_a_service_that_no_gpu_serves_has_none_and_no_pool(tmp_path):
    fleet(tmp_path, [at_work], [(CHAT, decoding)])
    of_chat, of_nobody = (
        ask(tmp_path, lambda reader, name=name: reader.gpus(QUARTER, where=(("service", name),)))
        for name in ("chat", "nobody's")
    )

    assert of_chat.gpus
    assert not [*of_nobody.gpus, *of_nobody.replicas, *of_nobody.pools]
