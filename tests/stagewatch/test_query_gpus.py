"""`stagewatch query gpus`: the same as a table, JSON and CSV, without a zero that nobody told."""

import argparse
import csv
import io
import json

import pytest

from stagewatch.query_command import add_parser, run
from tests.collector.gpu_fleet import NOW, WELL, fleet

CHAT = {"service": "chat", "replica": "r0", "role": "decode", "pool": "a"}
HOSTILE = {"service": "chat", "replica": "\x1b[2Jr1\nup", "role": "decode", "pool": "b"}


def held(_):
    return WELL, {"gpu_throttle/hw_thermal": 5, "gpu_energy": 5000}, [CHAT]


def lost(_):
    return {"gpu_up": 0, "gpu_index": 1, "gpu_down/gpu_lost": 1}, {}, [CHAT]


def bare(_):
    return {"gpu_up": 1, "gpu_index": 2}, {}, [HOSTILE]


def stuck(ago_s):
    return {"requests_running": 3}, {"generation_tokens": 90 if ago_s > 120 else 0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpus")
    fleet(path, [held, lost, bare], [(CHAT, stuck)], length_s=600)
    return path


def asked(capsys, folder, *words):
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    times = ("--from", str(NOW - 600), "--to", str(NOW))
    arguments = parser.parse_args(["query", "gpus", "--data-dir", str(folder), *times, *words])
    assert run(arguments) == 0
    return capsys.readouterr().out


def test_the_table_says_what_is_down_first_and_what_is_not_told(capsys, folder):
    lines = asked(capsys, folder).splitlines()

    assert lines[1].startswith("DOWN lost")
    assert "hw thermal 25" in next(line for line in lines if line.startswith("up     0 "[:3]))
    assert "busy, sm active" in next(line for line in lines if " 2 GPU-" in line)


def test_pools_and_engines_that_stand_still_follow(capsys, folder):
    text = asked(capsys, folder)

    assert "pool chat a decode: 1 GPU, 1 replica; bound by power" in text
    assert "suspect: chat/r0: 3 requests run and no token came for 120 s" in text
    assert "not told: " in text


def test_a_name_cannot_move_the_cursor_or_make_a_line(capsys, folder):
    text = asked(capsys, folder)

    assert "\x1b" not in text
    assert not any(line.startswith("up\n") for line in text.splitlines())
    assert "�[2Jr1�up" in text


def test_csv_leaves_empty_what_nobody_told(capsys, folder):
    rows = list(csv.DictReader(io.StringIO(asked(capsys, folder, "--format", "csv"))))
    by_index = {row["index"]: row for row in rows}

    assert by_index["1"]["power_w"] == ""
    assert by_index["2"]["throttle_hw_thermal_s"] == ""
    assert float(by_index["0"]["throttle_hw_thermal_s"]) == 150
    assert by_index["1"]["up"] == "False"


def test_json_is_what_the_server_answers(capsys, folder):
    told = json.loads(asked(capsys, folder, "--format", "json", "--where", "pool=a"))

    assert [each["index"] for each in told["gpus"]] == [1, 0]


def test_where_there_is_none_it_says_the_next_command(capsys, folder):
    assert "stagewatch exporter gpu --once" in asked(capsys, folder, "--where", "node=nowhere")
