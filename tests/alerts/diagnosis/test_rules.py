"""Every rule: where it speaks, where it must not, and what it says where a signal is missing."""

from dataclasses import replace
from functools import partial

import pytest

from alerts.definition import load
from alerts.diagnosis.catalogue import RULES
from alerts.diagnosis.diagnosis import NotEvaluated
from alerts.diagnosis.gathering import TOO_LATE
from alerts.diagnosis.inquest import diagnose
from alerts.diagnosis.judgement import judge, judge_one
from alerts.diagnosis.rule import Finding, When
from alerts.diagnosis.signals import Signal, Signals
from collector.reader import StoreReader
from domain.request import Stage
from stagewatch.demo.serve import OBJECTIVES
from tests.alerts.diagnosis.situations import C1_BY_CLOCK, SITUATIONS, numbers, situation

BY_ID = {rule.id: rule for rule in RULES}
LISTS = {
    Signal.THROTTLE_EFFECT: "slowed",
    Signal.SPEED: "speeds",
    Signal.STOOD_STILL: "stood",
    Signal.ABORTED: "aborted",
    Signal.ENDED: "restarted",
    Signal.COLD_TTFT: "arrived",
}


def without(signals, *dropped):
    def kept(told):
        return {name: value for name, value in told.items() if name not in dropped}

    if Signal.LAST_GAPS in dropped and signals.aborted:
        cut = [replace(each, last_gap_s=None) for each in signals.aborted]
        signals = replace(signals, aborted=cut)
    return replace(
        signals,
        numbers=kept(signals.numbers),
        places=kept(signals.places),
        **{LISTS[each]: None for each in dropped if each in LISTS},
    )


def test_every_rule_has_its_situation_and_every_id_is_one_rule():
    assert set(SITUATIONS) == set(BY_ID)
    assert len(BY_ID) == len(RULES)


@pytest.mark.parametrize("name", SITUATIONS)
def test_it_speaks_with_a_number_and_one_next_step(name):
    found = judge_one(BY_ID[name], SITUATIONS[name][0])

    assert isinstance(found, Finding)
    assert not found.contradicted
    assert found.cause
    assert all(found.evidence)
    assert found.next_step or BY_ID[name].action


@pytest.mark.parametrize("name", SITUATIONS)
def test_it_is_silent_or_contradicted_where_one_thing_is_otherwise(name):
    found = judge_one(BY_ID[name], SITUATIONS[name][1])

    assert found is None or (isinstance(found, Finding) and found.contradicted)


@pytest.mark.parametrize(
    ("name", "signal"), [(rule.id, signal) for rule in RULES for signal in rule.needs]
)
def test_without_a_signal_it_is_not_evaluated_and_names_it(name, signal):
    found = judge_one(BY_ID[name], without(SITUATIONS[name][0], signal))

    assert isinstance(found, NotEvaluated)
    assert any(signal.value in each for each in found.missing)


@pytest.mark.parametrize("name", [rule.id for rule in RULES if rule.either])
def test_without_any_of_several_signals_it_is_not_evaluated(name):
    found = judge_one(BY_ID[name], without(SITUATIONS[name][0], *BY_ID[name].either))

    assert isinstance(found, NotEvaluated)


@pytest.mark.parametrize("name", [rule.id for rule in RULES if rule.compares])
def test_without_a_before_it_is_not_evaluated(name):
    found = judge_one(BY_ID[name], replace(SITUATIONS[name][0], before={}))

    assert isinstance(found, NotEvaluated)
    assert any("before" in each for each in found.missing)


@pytest.mark.parametrize("name", [rule.id for rule in RULES if rule.at_least])
def test_below_its_minimum_of_requests_it_is_not_evaluated(name):
    few = numbers(SITUATIONS[name][0], REQUESTS=BY_ID[name].at_least - 1)

    found = judge_one(BY_ID[name], few)

    assert isinstance(found, NotEvaluated)
    assert found.missing == (f"{BY_ID[name].at_least - 1} of {BY_ID[name].at_least} requests",)


@pytest.mark.parametrize("name", [rule.id for rule in RULES if rule.when is When.SLOW])
def test_while_nothing_is_slow_a_number_is_no_cause(name):
    assert judge_one(BY_ID[name], replace(SITUATIONS[name][0], slow=False)) is None


@pytest.mark.parametrize("name", SITUATIONS)
def test_with_nothing_but_what_it_needs_a_rule_is_evaluated(name):
    rule, whole = BY_ID[name], SITUATIONS[name][0]
    needed = {*rule.needs, *rule.compares, *rule.either}
    extra = [each for each in (*whole.numbers, *whole.places) if each not in needed]
    kept = {Signal.REQUESTS} if rule.at_least else set()

    found = judge_one(rule, without(whole, *(set(extra) - kept)))

    assert found is None or isinstance(found, Finding)


def test_of_no_signals_nothing_is_found_and_every_rule_says_why():
    found = judge(Signals())

    assert found.causes == found.contradicted == found.savings == ()
    assert {each.rule for each in found.not_evaluated} == set(BY_ID)
    assert all(each.missing for each in found.not_evaluated)


def test_at_most_three_causes_are_named():
    every = Signals()
    for one, _ in SITUATIONS.values():
        every = replace(
            every,
            numbers={**every.numbers, **one.numbers},
            before={**every.before, **one.before},
            places={**every.places, **one.places},
        )

    assert len(judge(every).causes) == 3


def test_a_throttled_gpu_without_enough_requests_is_told_by_its_clock():
    found = judge_one(BY_ID["C1"], C1_BY_CLOCK)

    assert found.place == "GPU-3"
    assert "SM clock at 60 %" in found.evidence[1]


def test_a_throttled_gpu_that_is_as_fast_as_the_others_is_contradicted():
    slowed = [replace(SITUATIONS["C1"][0].slowed[0], factor=1.01, low=0.98, high=1.04)]

    found = judge_one(BY_ID["C1"], replace(SITUATIONS["C1"][0], slowed=slowed))

    assert found.contradicted
    assert "[0.98, 1.04]" in found.contra[0]


def test_a_low_clock_of_an_idle_gpu_is_no_finding():
    idle = replace(C1_BY_CLOCK, places={**C1_BY_CLOCK.places, Signal.GPU_BUSY: {"GPU-3": 0.02}})

    assert judge_one(BY_ID["C1"], idle) is None


def test_load_that_all_take_but_one_is_no_reason_for_the_queue_of_that_one():
    told = replace(SITUATIONS["B9"][0], pools={Stage.QUEUE: "r1"})

    assert not judge_one(BY_ID["B9"], told).contradicted
    alone = judge_one(BY_ID["B9"], replace(told, lone=frozenset({Stage.QUEUE})))
    assert alone.contradicted
    assert alone.contra == ("only r1 queues: its like take the load",)


def test_a_question_that_there_was_no_time_for_is_not_taken_for_an_answer(rehearsed):
    folder, end_s = rehearsed("network")
    reader = StoreReader(folder)
    promises = load(OBJECTIVES)
    try:
        asked = partial(diagnose, reader, "assistant", end_s, promises)
        hurried, whole = asked(budget_s=-1.0), asked(budget_s=60.0)
    finally:
        reader.close()

    assert (hurried.hurried, whole.hurried) == (True, False)
    assert any(TOO_LATE in word for each in hurried.not_evaluated for word in each.missing)


def test_a_way_as_long_as_ever_is_contradicted_and_without_a_before_needs_waiting_clients():
    alike = SITUATIONS["D6"][1]
    alone = situation(places={Signal.NETWORK_BY_REGION: {"ap": 0.16}}, clients_wait=False)

    assert judge_one(BY_ID["D6"], alike) is None or judge_one(BY_ID["D6"], alike).contradicted
    assert judge_one(BY_ID["D6"], alone) is None
    assert judge_one(BY_ID["D6"], replace(alone, clients_wait=True)).place == "ap"


@pytest.mark.parametrize(("name", "stage"), [("D6", Stage.NETWORK), ("E8", Stage.KV_TRANSFER)])
def test_a_stage_beside_the_one_that_grew_most_is_not_why_even_where_nothing_else_is_found(
    name, stage
):
    told = SITUATIONS[name][0]

    assert [each.rule for each in judge(replace(told, guilty=stage)).causes] == [name]
    beside = judge(replace(told, guilty=Stage.DECODE))
    assert beside.causes == ()
    assert beside.contradicted[0].contra == ("what grew most is decode",)
