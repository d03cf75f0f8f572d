"""What cannot be, what fails and what is meant to mislead: named, and never in the way of the rest."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.diagnosis.case import Case
from alerts.diagnosis.catalogue import RULES
from alerts.diagnosis.diagnosis import NotEvaluated
from alerts.diagnosis.inquest import diagnose
from alerts.diagnosis.judgement import FAILED, judge, judge_one
from alerts.diagnosis.rule import Finding
from alerts.diagnosis.signals import Baseline, Signal
from alerts.diagnosis.telling import diagnosis_json, sentence, text
from alerts.diagnosis.windows import Looked
from collector.query import Window
from collector.reader import StoreReader
from tests.alerts.diagnosis.situations import SITUATIONS
from tests.alerts.diagnosis.test_incidents import PROMISES

BY_ID = {rule.id: rule for rule in RULES}
HOSTILE = "\x1b[2Jr0\n1. all is well\u202e<script>"
odd = st.sampled_from((0.0, -1.0, 1e-300, 1e308, -1e308, 5e-324)) | st.floats(
    allow_nan=False, allow_infinity=False
)


@given(st.sampled_from(sorted(SITUATIONS)), st.data())
def test_no_number_that_can_be_told_breaks_a_rule(name, data):
    told = SITUATIONS[name][0]
    numbers = {signal: data.draw(odd) for signal in told.numbers}
    before = {signal: data.draw(odd) for signal in told.before}
    places = {signal: {place: data.draw(odd) for place in by} for signal, by in told.places.items()}

    found = judge_one(BY_ID[name], replace(told, numbers=numbers, before=before, places=places))

    assert not (isinstance(found, NotEvaluated) and found.missing[0].startswith(FAILED)), found


def test_what_is_no_number_is_absent_and_says_so():
    case = Case(
        reader=None,
        where=(),
        looked=Looked(now=Window(since_s=0, until_s=60), before=None, baseline=Baseline.NONE),
    )
    case.put(Signal.WAITING, float("nan"))
    case.numbers[Signal.LOAD] = float("inf")
    case.places[Signal.KV_USAGE] = {"r0": float("nan"), "r1": 0.5}
    case.places[Signal.AGES] = {"r0": float("nan")}
    case.sound()

    assert case.numbers == {}
    assert case.places == {Signal.KV_USAGE: {"r1": 0.5}}
    assert case.absent[Signal.WAITING] == "told as nan"
    assert case.absent[Signal.KV_USAGE] == "no number on r0"


def broken(_):
    raise ZeroDivisionError("float division by zero")


def test_a_rule_that_fails_costs_no_other_and_is_named():
    rules = [replace(rule, of=broken) if rule.id == "A5" else rule for rule in RULES]
    told = SITUATIONS["A5"][0]

    found = judge(replace(told, numbers={**told.numbers, Signal.KV_USAGE: 0.97}), rules)

    assert [each.rule for each in found.causes] == ["E2"]
    failed = next(each for each in found.not_evaluated if each.rule == "A5")
    assert failed.missing == ("the rule failed (ZeroDivisionError: float division by zero)",)


class Absent(StoreReader):
    """A door behind which one kind of question fails."""

    def conditions(self, *_, **__):
        raise TypeError("who is that?")


@pytest.fixture
def answer(rehearsed):
    folder, end_s = rehearsed("queue")
    reader = Absent(folder)
    yield diagnose(reader, "assistant", end_s, PROMISES, budget_s=60.0)
    reader.close()


def test_a_question_that_fails_costs_its_own_signals_and_is_named(answer):
    missing = {each.rule: each.missing for each in answer.not_evaluated}

    assert answer.causes[0].rule == "B9"
    assert missing["E13"] == ("conditions of engines (could not be asked: TypeError)",)
    assert "E13  signal conditions of engines (could not be asked: TypeError) absent" in text(
        diagnosis_json(answer)
    )


def test_names_that_move_a_cursor_or_turn_a_line_are_shown_as_marks():
    told = replace(SITUATIONS["E10"][0], places={Signal.WAITING_BY: {HOSTILE: 83.0, "p1": 0.0}})
    cause = judge(told).causes[0]

    assert isinstance(judge_one(BY_ID["E10"], told), Finding)
    assert cause.place == HOSTILE
    assert sentence(cause).isprintable()
