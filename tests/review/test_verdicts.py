"""Each of the four verdicts, from a week in which it is right."""

from dataclasses import replace

import pytest

from domain.errors import InputError
from review.period import Kind
from review.plan import Act
from review.review_value import FORMAT, from_json, to_json
from review.scores import Promise
from review.verdict import Flag, VerdictKind
from review.weekly import review
from tests.review import fleets, weeks


@pytest.fixture(scope="module")
def starved():
    """Prefill is short, decode has room: a decode worker should move."""
    period = weeks.week(2, 6, per_s=30, prompt=2500)
    promise = Promise(ttft_s=0.5, tpot_s=0.02, target=0.9)
    return review(period, weeks.question(promise=promise, transfer_failures=0, start_s=90.0))


@pytest.fixture(scope="module")
def fine():
    return review(weeks.week(1, 1, per_s=12), weeks.question())


def test_a_promise_that_is_missed_and_could_be_kept_moves_a_worker_canary_first(starved):
    assert starved.verdict.kind is VerdictKind.MOVE
    assert starved.verdict.says == ("Canary first: Move 1 decode → prefill (2P:6D → 3P:5D)")
    assert starved.verdict.reasons[1].startswith("with 3P:5D 9")
    assert starved.verdict.reasons[1].endswith(", at the same cost")
    assert starved.observed.goodput < 0.95
    (chosen,) = (each for each in starved.alternatives if each.split == starved.verdict.aim)
    assert chosen.sureness.meets >= 0.95
    assert Flag.CANARY in chosen.flags
    assert chosen.money.per_week == starved.alternatives[0].money.per_week


def test_the_move_has_a_plan_that_drains_before_it_adds(starved):
    acts = [step.act for step in starved.plan.steps]

    assert acts == [Act.DRAIN, Act.ADD]
    assert starved.plan.lowest_workers == 7
    assert starved.plan.most_workers == 8
    assert "drain" in starved.plan.steps[0].says


def test_a_promise_that_is_kept_where_nothing_cheaper_surely_keeps_it_needs_nothing(fine):
    assert fine.verdict.kind is VerdictKind.DO_NOTHING
    assert fine.verdict.says == "Keep 1P:1D"
    assert fine.plan is None
    assert fine.advice.goodput == fine.alternatives[0].sureness.goodput


def test_too_many_workers_are_a_move_that_saves_money():
    found = review(weeks.week(3, 3, per_s=12), weeks.question())

    assert found.verdict.kind is VerdictKind.MOVE
    assert found.verdict.aim.workers < 6
    saved = found.alternatives[0].money.per_week - next(
        each.money.per_week for each in found.alternatives if each.split == found.verdict.aim
    )
    assert saved >= 10 * 168
    assert f"for {saved:.0f} USD a week less" in found.verdict.reasons[1]


def test_a_first_token_that_one_request_alone_cannot_have_in_time_is_infeasible():
    promise = Promise(ttft_s=0.03, tpot_s=0.02, target=0.95)

    found = review(weeks.week(2, 2, per_s=8), weeks.question(promise=promise))

    assert found.verdict.kind is VerdictKind.INFEASIBLE
    assert "no number of workers helps" in found.verdict.says


def test_more_than_any_split_can_carry_is_infeasible_and_names_the_nearest():
    found = review(weeks.week(2, 1, per_s=200), weeks.question())

    assert found.verdict.kind is VerdictKind.INFEASIBLE
    assert "comes nearest" in found.verdict.says


def test_a_model_that_does_not_reproduce_what_was_seen_recommends_nothing():
    """Every third request waits for something that no stage tells of."""
    period = weeks.week(2, 2, per_s=12)
    late = period.first_s.copy()
    late[::3] += 2.0
    odd = replace(period, first_s=late, last_s=period.last_s + (late - period.first_s))

    found = review(odd, weeks.question())

    assert found.verdict.kind is VerdictKind.NO_RECOMMENDATION
    assert found.verdict.gate == "replay"
    assert "P99 TTFT" in found.verdict.says
    assert "allowed 20% and 2 points" in found.verdict.says
    assert [each.split for each in found.alternatives] == [found.split]
    assert found.advice is None


def test_the_current_split_comes_first_and_merged_workers_are_always_among_the_rest(starved):
    splits = [str(each.split) for each in starved.alternatives]

    assert splits[0] == "2P:6D"
    assert {"3P:5D", "1P:7D", "8 merged", "2P:5D", "1P:6D"} <= set(splits)
    (merged,) = (each for each in starved.alternatives if each.split.merged)
    assert merged.flags == (Flag.LOW_CONFIDENCE,)


def test_a_review_reads_back_as_the_same_value(starved, fine):
    for told in (starved, fine):
        assert from_json(to_json(told)) == told


def test_the_same_review_is_the_same_text(fine):
    again = review(weeks.week(1, 1, per_s=12), weeks.question())

    assert to_json(again) == to_json(fine)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("no json", "it is no JSON"),
        ("[]", "its format is None"),
        ('{"format": 7}', f"its format is 7, {FORMAT} is understood"),
        ('{"format": 1}', "an object with at_s"),
    ],
)
def test_what_is_no_review_is_an_error_that_says_where(text, says):
    with pytest.raises(InputError, match="review") as error:
        from_json(text)

    assert says in str(error.value)


def test_a_damaged_review_names_the_place(fine):
    text = to_json(fine).replace('"goodput":', '"goodput": "x", "was":', 1)

    with pytest.raises(InputError, match=r"review\.\w+.* is not"):
        from_json(text)


def test_last_weeks_advice_stands_beside_what_came(fine):
    last = replace(fine.advice, at_s=1.0)

    told = review(weeks.week(1, 1, per_s=12, seed=4), weeks.question(last=last)).track_record

    assert told.comparable
    assert told.followed is None
    assert told.goodput is not None
    assert "was foretold for 1P:1D" in told.says


def test_progress_is_told_between_replays():
    said = []

    review(weeks.week(2, 1, per_s=12), weeks.question(), progress=lambda *each: said.append(each))

    assert [done for done, _, _ in said] == sorted(done for done, _, _ in said)
    assert said[-1][0] == said[-1][1]


def test_mixed_gpu_types_are_counted_apart():
    slower = Kind(role="prefill", gpu="B", engine_version="1")
    split = fleets.split(2, 1).changed([(slower, 1)])

    assert str(split) == "3P:1D (2 A prefill, 1 B prefill)"
