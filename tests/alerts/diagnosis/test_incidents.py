"""The demo's incidents, through the real store: each is named first, with its stage and its place."""

import argparse
import json
import time

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from alerts.definition import load
from alerts.diagnosis.api import diagnosis_router
from alerts.diagnosis.inquest import diagnose, diagnose_asked
from alerts.diagnosis.telling import diagnosis_json, lines, text
from collector.reader import StoreReader
from collector.times import instant_at
from dashboard.causes import cause_list, causes_told
from domain.request import Stage
from stagewatch.demo.incidents import INCIDENTS
from stagewatch.demo.serve import OBJECTIVES
from stagewatch.diagnose_command import add_parser, run
from tests.alerts.diagnosis.rehearsal import SERVICES, STARTED_S

RULES = {
    "queue": "B9",
    "slow-decode": "A4",
    "replica-throttled": "C2",
    "network": "D6",
    "stall": "E13",
}
PROMISES = load(OBJECTIVES)


def diagnosed(rehearsed, name, *, budget_s=60.0):
    folder, end_s = rehearsed(name)
    reader = StoreReader(folder)
    try:
        service = SERVICES.get(name, "assistant")
        return diagnose(reader, service, end_s, PROMISES, budget_s=budget_s)
    finally:
        reader.close()


@pytest.mark.parametrize("name", sorted(INCIDENTS))
def test_an_incident_is_the_first_cause_with_its_place(rehearsed, name):
    found = diagnosed(rehearsed, name)
    first = found.causes[0]

    assert first.rule == RULES[name], [each.rule for each in found.causes]
    assert first.place == INCIDENTS[name].place
    assert first.stage in (INCIDENTS[name].stage, None)
    assert first.confidence == "high"
    assert found.slow


def test_before_it_begins_nothing_is_named_and_what_was_not_evaluated_is(rehearsed):
    folder, _ = rehearsed("slow-decode")
    reader = StoreReader(folder)
    found = diagnose(reader, "assistant", STARTED_S + 110, PROMISES)
    reader.close()

    assert found.causes == ()
    assert not found.slow
    assert {"C1", "A8", "D5"} <= {each.rule for each in found.not_evaluated}
    assert [line.stage for line in found.stages] == list(Stage)


def test_without_promises_only_what_does_harm_by_itself_is_told(rehearsed):
    folder, end_s = rehearsed("stall")
    reader = StoreReader(folder)
    found = diagnose(reader, "assistant", end_s)
    reader.close()

    assert found.causes[0].rule == "E13"
    assert "an objective on TTFT" in str(found.not_evaluated)


def test_out_of_time_the_dear_signals_are_named_as_not_asked(rehearsed):
    found = diagnosed(rehearsed, "replica-throttled", budget_s=-1.0)

    missing = {each.rule: each.missing for each in found.not_evaluated}
    assert missing["C2"] == ("speed by replica at like load (not asked: it took too long)",)


def test_it_takes_less_than_a_second_of_cpu_even_with_proof(rehearsed):
    diagnosed(rehearsed, "replica-throttled")
    began_s = time.process_time()

    diagnosed(rehearsed, "replica-throttled")

    assert time.process_time() - began_s < 1.0


def test_the_json_is_as_promised_and_the_text_says_the_same(rehearsed):
    answer = diagnosis_json(diagnosed(rehearsed, "queue"))
    first = answer["causes"][0]

    assert {"at", "stages", "causes", "not_evaluated"} <= set(answer)
    assert set(first) >= {
        *("rule", "cause", "stage", "place", "confidence", "evidence", "contra", "next")
    }
    words = text(json.loads(json.dumps(answer)))
    assert all(each in words for each in first["evidence"])
    assert "not evaluated, which is not the same as fine" in words


def test_a_notification_has_at_most_three_lines_with_cause_and_next_step(rehearsed):
    told = lines(diagnosed(rehearsed, "stall"))

    assert 1 <= len(told) <= 3
    assert "assistant-decode-1 stands still" in told[0]
    assert max(map(len, told)) <= 300


@pytest.fixture
def client(rehearsed):
    folder, end_s = rehearsed("queue")
    reader = StoreReader(folder)
    app = FastAPI()
    app.include_router(
        diagnosis_router(reader, PROMISES, instant=instant_at, clock=lambda: float(end_s))
    )
    yield TestClient(app)
    reader.close()


def test_the_api_answers_for_the_only_service_at_an_instant(client):
    answer = client.get("/api/v1/diagnosis").json()

    assert answer["service"] == "assistant"
    assert answer["causes"][0]["rule"] == "B9"
    assert answer == client.get("/api/v1/diagnosis", params={"service": "assistant"}).json()


class _Beside:
    """The store of the rehearsal, with services in it that nobody hears anything of."""

    def __init__(self, reader, *names):
        self._reader, self._names = reader, names

    def __getattr__(self, name):
        return getattr(self._reader, name)

    def label_values(self, label, window):
        return sorted({*self._reader.label_values(label, window), *self._names})


def test_without_a_name_the_service_that_is_worst_off_is_answered_for(rehearsed):
    folder, end_s = rehearsed("queue")
    reader = StoreReader(folder)

    found = diagnose_asked(_Beside(reader, "a-calm-one", "zebra"), None, end_s, PROMISES)
    alone = diagnose_asked(reader, None, end_s, PROMISES)
    reader.close()

    assert (found.service, found.slow, found.causes[0].rule) == ("assistant", True, "B9")
    assert found.others == (("a-calm-one", False), ("zebra", False))
    assert "elsewhere: zebra breaks no promise" in text(diagnosis_json(found))
    assert alone.others == ()


@pytest.mark.parametrize(
    ("asked", "where"), [({"service": "nobody"}, "service"), ({"at": "yesterday"}, "at")]
)
def test_a_wrong_question_is_refused_with_the_way_out(client, asked, where):
    answer = client.get("/api/v1/diagnosis", params=asked)

    assert answer.status_code == 400
    assert answer.json()["where"] == where
    assert answer.json()["remedy"]


def test_the_command_tells_and_exits_with_1_where_something_is_wrong(capsys, rehearsed, tmp_path):
    folder, end_s = rehearsed("stall")
    config = tmp_path / "stagewatch.yaml"
    config.write_text(f"objectives: [{OBJECTIVES}]\n")
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    common = ["diagnose", "--data-dir", str(folder), "--at", str(end_s), "--config", str(config)]

    assert run(parser.parse_args(common)) == 1
    assert "1. assistant-decode-1 stands still" in capsys.readouterr().out
    assert run(parser.parse_args([*common, "--format", "json"])) == 1
    assert json.loads(capsys.readouterr().out)["causes"][0]["rule"] == "E13"


def test_the_alert_page_can_show_a_cause_with_what_speaks_against_it_and_what_is_missing(rehearsed):
    found = diagnosed(rehearsed, "slow-decode")

    shown = causes_told(found)[0]

    assert shown.title == "Decode is slow: batch, context or memory bandwidth (A4, high confidence)"
    assert shown.unknown == ["throttle reasons by GPU"]
    assert shown.place == "stage decode, assistant-decode"
    assert shown.next_step == found.causes[0].next_step
    assert cause_list([shown]) is not None
