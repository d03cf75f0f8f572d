"""An alert keeps the answer of the minute in which it fired, and the one found last."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.diagnosed import Diagnosed, diagnosed_of, keep_diagnoses
from alerts.diagnosis.codec import diagnosis_from
from alerts.diagnosis.diagnosis import Cause, Diagnosis, NotEvaluated, StageLine
from alerts.diagnosis.rule import Confidence
from alerts.diagnosis.signals import Baseline
from alerts.diagnosis.telling import diagnosis_json
from alerts.tables import AlertRow, open_state, writing
from domain.objective import Severity
from domain.request import Stage

words = st.text(max_size=20)
many = st.lists(words, max_size=3).map(tuple)
seconds = st.floats(0, 1e6)
causes = st.builds(
    Cause,
    rule=words,
    title=words,
    cause=words,
    stage=st.none() | st.sampled_from(Stage),
    place=words,
    confidence=st.sampled_from(Confidence),
    severity=st.sampled_from(Severity),
    evidence=many,
    contra=many,
    missing=many,
    next_step=words,
)
answers = st.builds(
    Diagnosis,
    at_s=st.integers(1, 2**31),
    service=words,
    since_s=st.integers(1, 2**31),
    until_s=st.integers(1, 2**31),
    slow=st.booleans(),
    baseline=st.sampled_from(Baseline),
    stages=st.lists(
        st.builds(
            StageLine,
            stage=st.sampled_from(Stage),
            mean_s=st.none() | seconds,
            before_s=st.none() | seconds,
            share_of_growth=st.none() | st.floats(0, 1),
            reason=words,
        ),
        max_size=3,
    ).map(tuple),
    causes=st.lists(causes, max_size=3).map(tuple),
    contradicted=st.lists(causes, max_size=1).map(tuple),
    savings=st.lists(causes, max_size=1).map(tuple),
    not_evaluated=st.lists(st.builds(NotEvaluated, rule=words, missing=many), max_size=3).map(
        tuple
    ),
    trouble=words,
)


@given(answers)
def test_what_is_kept_as_json_is_read_back_as_it_was(answer):
    assert diagnosis_from(json.loads(json.dumps(diagnosis_json(answer)))) == answer


CAUSE = Cause(
    rule="B9",
    title="sudden load",
    cause="more is asked",
    stage=Stage.QUEUE,
    place="chat",
    confidence=Confidence.HIGH,
    severity=Severity.TICKET,
    evidence=("6 ×",),
    contra=(),
    missing=(),
    next_step="scale out",
)
FIRST = Diagnosis(at_s=600, service="chat", since_s=0, until_s=600, slow=True, causes=(CAUSE,))


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    empty = dict.fromkeys(("objective_name", "dedup_key", "message", "blame"), "")
    flags = dict.fromkeys(("told", "inhibited", "stale"), False)
    with writing(engine) as session, session.begin():
        session.add(
            AlertRow(
                id="a",
                objective_id="o",
                tier="page",
                severity="page",
                started_at_s=600,
                why="[]",
                **empty,
                **flags,
            )
        )
    yield engine
    engine.dispose()


def kept(state, *answers):
    for each in answers:
        with writing(state) as session, session.begin():
            keep_diagnoses(session, [("a", each)])
    with writing(state) as session:
        return diagnosed_of(session, "a")


def test_nobody_has_looked_yet(state):
    assert kept(state) is None


def test_the_first_answer_stays_and_the_last_one_stands_beside_it(state):
    second = replace(FIRST, at_s=900, causes=(replace(CAUSE, evidence=("7 ×",)),))
    third = replace(FIRST, at_s=1200, causes=(replace(CAUSE, rule="C1", place="r1"),))

    found = kept(state, FIRST, FIRST, second, third)

    assert found == Diagnosed(first=FIRST, latest=third)
    assert found.changed == third
    assert Diagnosed(first=FIRST, latest=second).changed is None


def test_an_answer_that_failed_is_replaced_and_replaces_none(state):
    failed = replace(FIRST, at_s=660, causes=(), trouble="OSError: gone")

    assert kept(state, failed).first.trouble == "OSError: gone"
    assert kept(state, FIRST) == Diagnosed(first=FIRST)
    assert kept(state, replace(failed, at_s=900)) == Diagnosed(first=FIRST)


def test_an_answer_in_a_hurry_takes_the_place_of_none_and_makes_room_for_the_next(state):
    hurried = replace(FIRST, at_s=900, causes=(), hurried=True)
    whole = replace(FIRST, at_s=1200, causes=(replace(CAUSE, rule="C1"),))

    assert kept(state, FIRST, hurried) == Diagnosed(first=FIRST)
    assert kept(state, hurried, whole) == Diagnosed(first=FIRST, latest=whole)
