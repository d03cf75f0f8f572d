"""Money, sizes, sureness and plans: formulas with their worked numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ConfigError
from review.gate import fleet_gate
from review.load import louder, with_hit_rate
from review.money import Price, PriceTerms, money_of, per_10k_tokens
from review.period import Kind, Worker, period_of
from review.plan import Act, plan_of
from review.scores import Day
from review.sizing import kv_bytes, queue_capacity, size, workers_for
from review.uncertainty import sureness
from tests.review import fleets
from tests.review.step_by_step import DECODE, PREFILL
from tests.review.weeks import PROMISE

splits = st.builds(fleets.split, st.integers(1, 6), st.integers(1, 6))


def test_ten_thousand_tokens_at_360_a_second_for_2_10_an_hour_cost_1_6_cents():
    assert per_10k_tokens(2.1, 360) == pytest.approx(0.0162, abs=5e-5)
    assert per_10k_tokens(2.1, 0) is None


def test_ten_requests_a_second_of_eight_seconds_on_four_slots_are_20_workers_and_96_in_line():
    assert workers_for(10, 8, 4) == 20
    assert queue_capacity(10, 8) == 96


def test_a_kv_cache_is_keys_and_values():
    """Llama-3-8B in 16 bits: 128 KiB a token."""
    assert kv_bytes(layers=32, kv_heads=8, head_size=128, bytes_per_value=2, tokens=1) == 131_072


def test_a_split_costs_its_workers_and_idles_for_the_rest():
    prices = (Price(per_hour=2.0, gpu="A"), Price(per_hour=1.2, gpu="A", terms=PriceTerms.RESERVED))

    money = money_of(
        fleets.split(2, 3), prices, good_per_s=5.0, good_tokens_per_s=1000.0,
        load={"prefill": 0.5, "decode": 0.25},
    )  # fmt: skip

    assert money.per_week == 10 * 168
    assert money.per_1k_good == pytest.approx(10 / 5 / 3600 * 1000)
    assert money.idle_per_week == pytest.approx(168 * (4 * 0.5 + 6 * 0.75))
    assert money.reserved_saves_per_week == pytest.approx(168 * 5 * 0.8)
    assert money.spot_saves_per_week is None


def test_a_worker_without_a_price_leaves_money_unknown_and_two_currencies_are_an_error():
    asked = {"good_per_s": 1.0, "good_tokens_per_s": 1.0}
    mixed = (Price(per_hour=2.0, gpu="A"), Price(per_hour=2.0, gpu="A", currency="EUR"))

    assert money_of(fleets.split(1, 1), (Price(per_hour=2.0, gpu="B"),), **asked) is None
    with pytest.raises(ConfigError, match="one currency"):
        money_of(fleets.split(1, 1), mixed, **asked)


def test_the_formulas_begin_where_the_load_is():
    """10/s of 1000 tokens at 41 ms: 0.41 prefill seconds a second; 60 tokens at about 12 ms."""
    load = fleets.load([n / 10 for n in range(6000)], 1000, 60)

    found = size(load, fleets.model(decode_kv=100_000), PREFILL, DECODE, PROMISE)

    assert found.prefill_load == pytest.approx(0.405, abs=0.01)
    assert found.prefill == 2
    assert found.decode == 1
    assert found.peak_per_s == pytest.approx(10, rel=0.01)


@given(st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), min_size=2, max_size=9))
def test_sureness_lies_within_what_days_allow(pairs):
    days = [Day(good=a, total=1000) for a, _ in pairs]
    base = [Day(good=b, total=1000) for _, b in pairs]

    found = sureness(days, base, target=0.5, error=0.01, draws=300)

    assert 0 <= found.meets <= 1 - 0.5 ** len(pairs)
    assert 0 <= found.better <= 1 - 0.5 ** len(pairs)
    assert found.goodput_interval.low <= found.goodput <= found.goodput_interval.high
    assert found.change_interval.low <= found.change <= found.change_interval.high
    assert found.goodput == pytest.approx(sum(a for a, _ in pairs) / (1000 * len(pairs)))


def test_an_error_of_the_replay_counts_against_meeting_the_target():
    days = [Day(good=992, total=1000)] * 7

    sure = sureness(days, days, target=0.99)
    doubtful = sureness(days, days, target=0.99, error=0.01)

    assert sure.meets == 1 - 0.5**7
    assert doubtful.meets == 0
    assert doubtful.goodput_interval.low == pytest.approx(0.982)


@given(splits, splits, st.integers(0, 3))
def test_a_plan_ends_at_its_aim_and_never_needs_more_workers_than_there_are(current, aim, spare):
    if aim.workers > current.workers + spare:
        with pytest.raises(ConfigError, match="spare_workers"):
            _plan(current, aim, spare)
        return

    plan = _plan(current, aim, spare)

    counts = dict(current.counts)
    for step in plan.steps:
        counts[step.kind] += 1 if step.act is Act.ADD else -1
        assert sum(counts.values()) == step.workers_after <= current.workers + spare
    assert counts == dict(aim.counts)


def _plan(current, aim, spare):
    return plan_of(current, aim, spare_workers=spare, generation_p99_s=9.0, start_s=60.0,
                   ttft_promise_s=1.0, loads={"prefill": 0.3, "decode": 0.9})  # fmt: skip


@given(st.floats(0.5, 3.0), st.integers(0, 99))
def test_louder_traffic_has_its_factor_and_stays_in_order(factor, seed):
    load = fleets.poisson(3000, 10, seed=seed)

    found = louder(load, factor, seed=seed)

    assert len(found) == pytest.approx(3000 * factor, rel=0.06)
    assert (found.arrival_s[1:] >= found.arrival_s[:-1]).all()
    assert found.arrival_s.max() <= load.length_s


def test_fewer_hits_make_more_new_tokens():
    load = fleets.load([0.0, 1.0], 1000, 5, cached=400)

    assert with_hit_rate(load, 0.5).new_tokens.tolist() == [800, 800]


def test_two_versions_in_one_period_are_a_change_that_must_be_split():
    kinds = [Kind(role="decode", gpu="A", engine_version=v) for v in ("0.9", "0.10")]
    workers = [Worker(name=str(n), kind=kind) for n, kind in enumerate(kinds)]
    period = period_of({"arrival_s": [1.0]}, workers, since_s=0, length_s=10)

    gate = fleet_gate(period, ())

    assert not gate.passed
    assert "0.10, 0.9" in gate.why
