"""The cause on an alert's page: at once, while it is looked for, when it changes, and when nobody could look."""

from dataclasses import replace

import pytest

from alerts.blame import Blame
from alerts.diagnosed import Diagnosed
from alerts.diagnosis.diagnosis import NotEvaluated, StageLine
from dashboard.alert_cause import found_causes, headline, likely
from dashboard.viewer import Viewer
from domain.request import Stage
from tests.alerts.test_diagnosed import CAUSE, FIRST
from tests.dashboard.reading import text
from tests.dashboard.test_alert_pages import FIRED, NOW_S

VIEWER = Viewer(now_s=NOW_S + 60)
ELSE = replace(CAUSE, rule="C2", cause="r1 is slower than its like", stage=None, place="r1")


def words(*components):
    return " ".join(" ".join(text(each) for each in components if each is not None).split())


def told(diagnosed, record=FIRED):
    found = found_causes(record, diagnosed, VIEWER)
    return words(*(found if isinstance(found, list) else [found]))


def test_the_line_names_cause_stage_place_and_next_step():
    line = words(likely(FIRED, Diagnosed(first=FIRST), VIEWER))

    assert "Likely cause:" in line
    assert "more is asked (stage queue, chat, high confidence)" in line
    assert "Next: scale out" in line


def test_a_cause_of_no_stage_says_which_grew_most():
    stages = (
        StageLine(stage=Stage.QUEUE, mean_s=1.0, share_of_growth=0.8),
        StageLine(stage=Stage.DECODE, mean_s=1.0, share_of_growth=0.2),
    )
    found = Diagnosed(first=replace(FIRST, causes=(ELSE,), stages=stages))

    assert "r1 is slower than its like (queue grew most, high confidence)" in words(
        likely(FIRED, found, VIEWER)
    )


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (FIRED, "Looking for the cause…"),
        (replace(FIRED, started_at_s=NOW_S - 3600), ""),
        (replace(FIRED, resolved_at_s=NOW_S), ""),
        (replace(FIRED, kind="condition"), ""),
    ],
)
def test_only_a_new_alert_whose_cause_is_looked_for_says_so(record, line):
    assert words(likely(record, None, VIEWER)) == line


def test_what_is_now_comes_first_and_what_was_when_it_fired_stays():
    found = Diagnosed(first=FIRST, latest=replace(FIRST, at_s=900, causes=(ELSE,)))

    assert "When it fired: more is asked" in words(likely(FIRED, found, VIEWER))
    page = told(found)
    assert page.index("R1 is slower") < page.index("What was found when it fired")
    assert page.index("What was found when it fired") < page.index("More is asked (B9")


def test_what_nobody_could_judge_is_by_no_means_fine():
    missing = (
        NotEvaluated(rule="E3", missing=("vllm:prefix_cache_hits_total",)),
        NotEvaluated(rule="A5", missing=("100 of 300 requests",)),
    )
    page = told(Diagnosed(first=replace(FIRST, causes=(), not_evaluated=missing)))

    assert "No rule that could be judged explains it." in page
    assert "2 rules could not be judged, which is not the same as fine" in page
    assert "E3: signal vllm:prefix_cache_hits_total absent" in page
    assert "A5: 100 of 300 requests" in page


def test_a_diagnosis_that_failed_says_why_and_the_stage_is_told_all_the_same():
    record = replace(FIRED, blame=Blame(stage=Stage.QUEUE, now_s=2.0, next_step="look"))
    failed = Diagnosed(first=replace(FIRST, causes=(), trouble="OSError: gone"))
    page = told(failed, record)

    assert "The cause could not be looked for: OSError: gone" in page
    assert "Queue is the longest stage" in page


def test_of_two_next_steps_the_one_with_evidence_stays():
    record = replace(
        FIRED,
        message="chat pages. Queue grew. Next: look. Not measured: network.",
        blame=Blame(stage=Stage.QUEUE, next_step="look"),
    )

    assert headline(record, Diagnosed(first=FIRST)) == (
        "chat pages. Queue grew. Not measured: network."
    )
    assert headline(record, None) == record.message


def test_names_that_turn_a_line_are_shown_as_marks():
    hostile = replace(CAUSE, cause="\u202er0 is fine", place="<img src=x>\x1b[2J")
    found = Diagnosed(first=replace(FIRST, causes=(hostile,)))

    assert (words(likely(FIRED, found, VIEWER)) + told(found)).isprintable()
