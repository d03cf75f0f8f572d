"""Public failures of planners, as small inputs with the right answer (cases RB1 to RB8)."""

import numpy as np
import pytest

from review.alternatives import alternatives_of, merged_of
from review.gate import data_gate, diagnosis_gate
from review.load import load_of
from review.loads import Loads
from review.period import period_of
from review.plan import plan_of
from review.rails import Rails
from review.scores import Promise, Score
from review.simulation import simulate
from review.triggers import Signals, triggers_of
from review.verdict import VerdictKind
from review.weekly import review
from tests.review import fleets, weeks


def signals(**told):
    score = Score(requests=1000, ttft_p50_s=0.2, ttft_p95_s=0.4, ttft_p99_s=0.5, tpot_p50_s=0.01,
                  tpot_p95_s=0.015, tpot_p99_s=0.018, wait_p99_s=0.01, goodput=0.99)  # fmt: skip
    basis = {
        "score": score, "promise": Promise(ttft_s=1, tpot_s=0.02), "workers": (),
        "loads": Loads(prefill=0.5, decode=0.5, prefill_worst=0.6), "e2e_p50_s": 5.0,
        "output_p50_tokens": 200, "run_time": 1.0, "handover_p50_s": 0.01, "hit_ratio": 0.3,
        "blocked": False, "transfer_failures": 0,
    }  # fmt: skip
    return {each.rule: each for each in triggers_of(Signals(**{**basis, **told}))}


def test_rb1_demand_is_what_arrived():
    """20/s arrive, one worker completes 4/s, 16/s are refused."""
    at_s = np.arange(72_000) / 20
    done = np.arange(72_000) % 5 == 0
    period = period_of(
        {
            "arrival_s": at_s,
            "prompt_tokens": np.where(done, 500, -1),
            "output_tokens": np.where(done, 50, -1),
            "outcome": np.where(done, 0, 1),
        },
        (), since_s=0, length_s=3600,
    )  # fmt: skip

    load = load_of(period)

    assert load.demand_per_s == 20
    assert load.drawn == 57_600
    assert (load.context_tokens == 500).all()


def test_rb2_bursts_are_replayed_with_their_line():
    """4/s, a minute of 9/s, 4/s again, 0.22 s each: the mean says fine."""
    gaps = np.concatenate([np.full(7200, 1 / 4), np.full(540, 1 / 9), np.full(6960, 1 / 4)])
    at_s = np.cumsum(gaps)
    curve = {"base_s": 0.22, "token_s": 0.0, "attention_s": 0.0, "square_s": 0.0,
             "budget_tokens": 100.0}  # fmt: skip
    load = fleets.load(at_s, 100, 1)

    one, two = (
        simulate(load, fleets.split(n, 1), fleets.model(prefill=curve)).prefilled_s for n in (1, 2)
    )

    assert len(load) == 14_700
    assert np.median(one) == pytest.approx(0.22, abs=0.01)
    assert np.quantile(one, 0.99) == pytest.approx(55.5, abs=0.5)
    assert one.max() == pytest.approx(59.0, abs=0.5)
    assert two.max() == pytest.approx(0.22, abs=0.001)


def test_rb4_a_plan_drains_as_long_as_answers_take_and_flags_a_shorter_setting():
    plan = plan_of(
        fleets.split(2, 3), fleets.split(2, 2), spare_workers=0, generation_p99_s=41.0,
        start_s=None, ttft_promise_s=1.0, drain_configured_s=5.0,
    )  # fmt: skip

    assert plan.drain_s == 41
    assert "wait up to 41 s" in plan.steps[0].says
    assert any("configured at 5 s" in risk and "41 s" in risk for risk in plan.risks)


def test_rb5_an_idle_pool_is_a_finding_and_merging_is_among_the_answers():
    found = signals(loads=Loads(prefill=0.10, decode=0.68, prefill_worst=0.1))["E9"]
    one_each = fleets.split(1, 1)

    assert found.fired
    assert "merged" in found.says
    assert merged_of(one_each) in alternatives_of(one_each, None, Rails())


def test_rb6_prefill_has_a_signal_of_its_own():
    found = signals(loads=Loads(prefill=0.95, decode=0.30, prefill_worst=0.95))
    splits = alternatives_of(fleets.split(2, 2), None, Rails(spare_workers=1))

    assert found["B4"].fired
    assert found["B4"].says.endswith("for prefill")
    assert {"3P:1D", "3P:2D"} <= {str(each) for each in splits}


def test_rb7_too_little_data_is_said_and_nothing_is_recommended():
    """3 whole days, 12 k requests."""
    at_s = np.linspace(0, 3 * 86_400 - 1, 12_000)
    period = period_of({"arrival_s": at_s}, (), since_s=0, length_s=3 * 86_400)

    gate = data_gate(period, Rails())
    small = review(
        weeks.week(1, 1, days=3, per_day=500), weeks.question(rails={"requests_min": 20_000})
    )

    assert gate.why.startswith("3 of 5 days, 12 k of 20 k requests")
    assert small.verdict.kind is VerdictKind.NO_RECOMMENDATION
    assert small.verdict.says.startswith("No recommendation: 3 of 5 days, 1500 of 20 k requests")


def test_rb8_unbalanced_run_times_are_flagged_and_failed_transfers_come_first():
    found = signals(run_time=1 / 6, transfer_failures=3)

    assert found["RB8"].fired
    assert "1 : 6" in found["RB8"].says
    assert found["E6"].fired
    assert not diagnosis_gate(["3 KV transfers failed (E6)"]).passed


def test_a_signal_that_nobody_sent_is_absent_and_not_fine():
    found = signals(transfer_failures=None, hit_ratio=None)

    assert found["E6"].fired is None
    assert found["E3"].missing == ("cached prompt tokens",)


def test_a_line_before_prefill_while_decode_is_full_asks_for_decode():
    line = Score(requests=9, ttft_p50_s=1.0, ttft_p95_s=9.0, ttft_p99_s=20.0, tpot_p50_s=0.01,
                 tpot_p95_s=0.01, tpot_p99_s=0.01, wait_p99_s=16.0, goodput=0.5)  # fmt: skip

    full = signals(score=line, blocked=True)["A3"]
    free = signals(score=line)["A3"]

    assert "+1 decode" in full.says
    assert full.against
    assert "+1 prefill" in free.says
