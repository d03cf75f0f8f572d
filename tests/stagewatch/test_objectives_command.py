"""`stagewatch slo validate`, `schema`, `import` and `export`: what they print, and how they end."""

import argparse
import time

import pytest

from alerts.definition import load
from alerts.schema import schema_text
from stagewatch.slo_command import add_parser, run
from tests.alerts.test_openslo import SLO
from tests.alerts.test_sloth import FILE
from tests.collector.storing import metrics, span, traces, writing
from tests.collector.test_slices import TTFT, page


def slo(*words):
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return run(parser.parse_args(["slo", *map(str, words)]))


@pytest.fixture
def file(tmp_path):
    def write(text, name="objectives.yaml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_validate_says_what_a_file_means(file, capsys):
    path = file("""
    - p99 ttft <= 1.5s over 30d where use_case=chat
    - p90 e2e <= 30s
    - {name: both, all_of: [chat-ttft, e2e-p90]}
    """)

    assert slo("validate", path) == 0

    out = capsys.readouterr().out
    assert out.startswith("chat-ttft: p99 ttft <= 1.5s over 30d where use_case=chat\n")
    assert "  page-quick: burns more than 14.4x in 1h and in 5min; a total outage fires it" in out
    assert "  note: page-quick is left out: a total outage burns 10x" in out
    assert "both: all of chat-ttft, e2e-p90" in out


def test_validate_names_each_bad_file_and_goes_on(file, capsys):
    bad, good = file("- p99 tftt <= 1s\n", "bad.yaml"), file("- p99 ttft <= 1s\n", "good.yaml")

    assert slo("validate", bad, good) == 1

    captured = capsys.readouterr()
    assert f"{bad}:1:3: 'tftt' is no latency" in captured.err
    assert captured.out.startswith("ttft:")


def test_validate_tries_a_text_of_ones_own(file, capsys):
    assert slo("validate", file("- {phrase: p99 ttft <= 1s, summary: '{{ name'}")) == 1
    assert "slo 'ttft', summary" in capsys.readouterr().err


def test_validate_names_the_edges_of_a_coarse_source(file, tmp_path, capsys):
    """W8, SL6: edges 1.0 and 2.5; SL13: nothing beyond the top edge is sure."""
    now_s = time.time()
    with writing(tmp_path, now=lambda: now_s) as writer:
        low = [0.7] * 985 + [1.0110] * 11 + [2.52] * 4
        high = [1.0] * 985 + [2.47] * 11 + [5.0] * 4
        writer.metrics(metrics(*page(low, high, int(now_s) - 60)))
    path = file("- p99 ttft <= 1.5s\n- {name: b, phrase: p99 ttft <= 1s}\n- p99 e2e <= 1s\n")

    assert slo("validate", path, "--data-dir", tmp_path) == 0

    notes = [line for line in capsys.readouterr().out.splitlines() if "coarse" in line]
    assert len(notes) == 1
    assert "the source of ttft <= 1.5s is coarse: it decides 1s and 2.5s exactly" in notes[0]


def test_validate_has_no_doubt_about_spans(file, tmp_path, capsys):
    now_s = time.time()
    with writing(tmp_path, now=lambda: now_s) as writer:
        writer.traces(traces(span(1, end_s=int(now_s) - 60, **{TTFT: 0.1})))

    assert slo("validate", file("- p99 ttft <= 1.5s"), "--data-dir", tmp_path) == 0
    assert "coarse" not in capsys.readouterr().out


def test_validate_says_where_nobody_has_measured(file, tmp_path, capsys):
    now_s = time.time()
    with writing(tmp_path, now=lambda: now_s) as writer:
        writer.traces(traces(span(1, end_s=int(now_s) - 60, **{TTFT: 0.1})))

    path = file("- p99 ttft <= 1.5s\n- p99 ttft <= 1.5s where service=caht\n")
    assert slo("validate", path, "--data-dir", tmp_path) == 0

    notes = [line for line in capsys.readouterr().out.splitlines() if "note:" in line]
    assert len(notes) == 1
    assert "nobody has measured ttft there" in notes[0]


def test_schema_prints_what_editors_read(capsys):
    assert slo("schema") == 0
    assert capsys.readouterr().out == schema_text()


def test_import_prints_our_file_and_tells_the_rest_elsewhere(file, capsys):
    assert slo("import", file(FILE, "sloth.yml"), "--from", "sloth") == 1

    captured = capsys.readouterr()
    assert [each.id for each in load(captured.out)] == ["chat-ttft"]
    assert "left out: 'sum(rate(http_requests_total" in captured.err
    assert captured.err.endswith("1 objectives taken over, 2 left out\n")


def test_what_comes_from_openslo_goes_back_there(file, capsys):
    assert slo("import", file(SLO, "slo.yaml"), "--from", "openslo") == 0
    ours = capsys.readouterr().out
    assert slo("export", file(ours), "--to", "openslo") == 0
    theirs = capsys.readouterr().out

    assert slo("import", file(theirs, "back.yaml"), "--from", "openslo") == 0
    assert capsys.readouterr().out == ours


def test_two_of_one_name_are_not_printed_as_one_file(file, capsys):
    assert slo("import", file(SLO), file(SLO, "again.yaml"), "--from", "openslo") == 1

    captured = capsys.readouterr()
    assert not captured.out
    assert "'Chat TTFT' is promised already" in captured.err


def test_an_export_says_what_openslo_cannot(file, capsys):
    path = file("- preset: chat\n- {name: all, all_of: [chat-ttft, chat-itl]}\n")

    assert slo("export", path, "--to", "openslo") == 1
    assert "OpenSLO v1 has no composites" in capsys.readouterr().err


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path, capsys):
    assert slo("import", tmp_path / "none.yaml", "--from", "openslo") == 1
    assert "No such file" in capsys.readouterr().err
