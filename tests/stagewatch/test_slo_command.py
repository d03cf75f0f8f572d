"""`stagewatch slo`: what it prints, and how it ends."""

import argparse
import json

import pytest

from alerts.evaluator import Evaluator
from alerts.tables import open_state
from stagewatch.slo_command import add_parser, run
from tests.alerts.fleet import START_S, Fleet, chat, outage
from tests.paths import ROOT


def slo(*words):
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return run(parser.parse_args(["slo", *map(str, words)]))


def test_test_prints_a_line_for_each_expectation(capsys):
    (path,) = (ROOT / "tests" / "scenarios").glob("w01*.yaml")

    assert slo("test", path) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "5 of 5 expectations hold"
    assert lines[2].endswith("minute 488 (08:09 UTC): page true, tier quick: ok")


def test_test_ends_with_one_when_an_expectation_fails(tmp_path, capsys):
    (good,) = (ROOT / "tests" / "scenarios").glob("w01*.yaml")
    path = tmp_path / "wrong.yaml"
    path.write_text(good.read_text().replace("at: 487, page: false", "at: 487, page: true"))

    assert slo("test", path) == 1
    assert "4 of 5 expectations hold" in capsys.readouterr().out


def test_a_file_that_is_no_scenario_is_one_clear_error(tmp_path, capsys):
    assert slo("test", tmp_path / "none.yaml") == 1
    assert "cannot be read" in capsys.readouterr().err


def test_a_file_that_is_no_scenario_holds_up_no_other(tmp_path, capsys):
    (good,) = (ROOT / "tests" / "scenarios").glob("w01*.yaml")

    assert slo("test", tmp_path / "none.yaml", good) == 1
    assert "5 of 5 expectations hold\n1 of 2 files cannot be read" in capsys.readouterr().out


@pytest.fixture
def data_dir(tmp_path):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    evaluator = Evaluator(Fleet(outage(60, 20)), chat(), state)
    evaluator.tick(START_S + 11)
    evaluator.tick(START_S + 80 * 60 + 11)
    state.dispose()
    return tmp_path


def test_status_says_how_promises_stand_and_ends_with_one_while_one_pages(data_dir, capsys):
    assert slo("status", "--data-dir", data_dir) == 1

    assert capsys.readouterr().out.startswith("page         chat: budget ")


def test_status_is_one_json_object_for_machines(data_dir, capsys):
    assert slo("status", "--data-dir", data_dir, "--format", "json") == 1

    assert json.loads(capsys.readouterr().out)["slos"][0]["id"] == "chat"


def test_status_without_any_state_says_where_to_begin(tmp_path, capsys):
    assert slo("status", "--data-dir", tmp_path) == 1
    assert "stagewatch up" in capsys.readouterr().err
