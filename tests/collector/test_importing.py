"""Files of every kind go in as what a sender would have sent; what cannot be read says why."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collector.importing import import_files
from collector.intake import Outcome as Answer
from collector.intake import Overloaded
from collector.request_tables import span_of
from domain.errors import InputError
from domain.labels import value_of
from domain.request import LegKind, Outcome
from tests.collector.storing import (
    NOW_S,
    OVERLOAD,
    distribution,
    gauge_of,
    histogram_of,
    legs_in,
    metrics,
    number,
    tables,
    writing,
)
from tests.paths import RECORDED

DEFAULT = RECORDED / "vllm" / "default" / "client.jsonl"
TRUTH = json.loads((RECORDED / "vllm" / "truth.json").read_text())


def imported(path, *files, **told):
    with writing(path) as writer:
        found = list(import_files(files, writer, **told))
        writer.settle()
    return found


def test_a_file_of_spans_is_taken_whole(tmp_path):
    (found,) = imported(tmp_path, OVERLOAD / "all-spans.bin")

    assert (found.taken, found.rejected, found.message) == (148, 0, "")
    assert distribution(tmp_path, "e2e", 86_400).n == 136


def test_protobuf_and_json_of_the_same_spans_are_the_same(tmp_path):
    imported(tmp_path / "a", OVERLOAD / "all-spans.bin")
    imported(tmp_path / "b", OVERLOAD / "all-spans.otlp.json")

    assert tables(tmp_path / "a") == tables(tmp_path / "b")


def test_what_the_client_measured_is_within_the_bound(tmp_path):
    imported(tmp_path, OVERLOAD / "client.jsonl", labels={"service": "vllm-tiny"})

    truth = TRUTH["overload"]["client"]
    for metric, key in (("ttft", "ttft_whole"), ("e2e", "e2e"), ("tpot", "tpot")):
        found = distribution(tmp_path, metric, 86_400, source="client", service="vllm-tiny")
        assert found.n == truth[key]["n"] == 134
        for q in (50, 95, 99):
            assert found.quantile(q / 100).value_s == pytest.approx(
                truth[key][f"P{q}"], rel=0.00542
            )


def test_every_gap_of_whole_answers_is_an_observation(tmp_path):
    lines = [json.loads(line) for line in DEFAULT.read_text().splitlines()]
    gaps = sorted(gap for line in lines for gap in line["itl"])

    imported(tmp_path, DEFAULT)

    found = distribution(tmp_path, "itl", 86_400)
    assert found.n == len(gaps) == 2212
    assert found.quantile(0.5).value_s == pytest.approx(0.005173, rel=0.0055)
    assert distribution(tmp_path, "itl_max").quantile(0.99).value_s == pytest.approx(
        0.060035, rel=0.0055
    )


def test_how_the_recorded_requests_ended(tmp_path):
    imported(tmp_path, OVERLOAD / "client.jsonl")

    legs = legs_in(tmp_path)
    ended = [leg.outcome for leg in legs]
    assert {outcome: ended.count(outcome) for outcome in Outcome} == {
        Outcome.OK: 134,
        Outcome.FAILED: 0,
        Outcome.CANCELLED: 10,
        Outcome.REJECTED: 6,
    }
    assert number(tmp_path, "requests_cancelled") == (10, 10.0)
    assert all(leg.kind is LegKind.CLIENT for leg in legs)


def test_a_table_without_ids_imported_twice_changes_nothing(tmp_path):
    imported(tmp_path, DEFAULT)
    before = tables(tmp_path)
    imported(tmp_path, DEFAULT, DEFAULT)

    assert tables(tmp_path) == before
    assert len(legs_in(tmp_path)) == 80


@pytest.mark.parametrize(
    ("row", "outcome"),
    [
        ({"status": 200, "finish": "stop"}, Outcome.OK),
        ({"status": 200}, Outcome.FAILED),  # a stream that was cut off
        ({"status": 400}, Outcome.REJECTED),
        ({"status": "404"}, Outcome.REJECTED),
        ({"status": 429}, Outcome.FAILED),
        ({"status": 503}, Outcome.FAILED),
        ({"error": "connection refused"}, Outcome.FAILED),
        ({"status": 200, "aborted": True}, Outcome.CANCELLED),
        ({"status": 200, "outcome": "rejected"}, Outcome.REJECTED),
    ],
)
def test_how_a_request_ended_is_told_by_status_and_reason(row, outcome):
    span = span_of({"t_send": 1.0, "e2e": 2.0, **row}, says_how_it_ended=True)

    told = {a.key: a.value.string_value for a in span.attributes}
    assert told["stagewatch.outcome"] == outcome.value


ROWS = [
    {"t_send": NOW_S - 60, "ttft": 0.5, "e2e": 2.5, "output_tokens": 5, "model": "llama"},
    {"t_send": NOW_S - 59, "ttft": None, "e2e": 1.0, "output_tokens": None, "model": "llama"},
]


def as_csv(path):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, ROWS[0])
        writer.writeheader()
        writer.writerows(ROWS)


def as_parquet(path):
    pq.write_table(pa.Table.from_pylist(ROWS), path)


def as_lines(path):
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n")


@pytest.mark.parametrize(
    ("suffix", "write"), [("csv", as_csv), ("parquet", as_parquet), ("jsonl", as_lines)]
)
def test_a_table_says_the_same_in_every_format(tmp_path, suffix, write):
    write(tmp_path / f"requests.{suffix}")

    imported(tmp_path, tmp_path / f"requests.{suffix}", labels={"service": "chat"})

    first, second = sorted(legs_in(tmp_path), key=lambda leg: leg.start_at_ns)
    assert (first.ttft_s, first.e2e_s, first.decode_s, first.tpot_s) == (0.5, 2.5, 2.0, 0.5)
    assert (second.ttft_s, second.e2e_s, second.output_tokens) == (None, 1.0, None)
    assert value_of(first.labels, "model") == "llama"


def test_a_file_of_metrics_is_told_from_one_of_spans(tmp_path):
    export = metrics(
        histogram_of(
            Metric(name="stagewatch_ttft_seconds", unit="s"),
            [1.0],
            start_s=NOW_S - 9,
            end_s=NOW_S - 7,
        ),
        gauge_of(Metric(name="stagewatch_up"), 1, at_s=NOW_S - 7),
    )
    (tmp_path / "metrics.pb").write_bytes(export.SerializeToString())

    (found,) = imported(tmp_path, tmp_path / "metrics.pb")

    assert (found.taken, found.rejected) == (2, 0)
    assert distribution(tmp_path, "ttft").n == 1


def test_lines_of_otlp_json_are_exports(tmp_path):
    one = json.loads((OVERLOAD / "all-spans.otlp.json").read_text())
    lines = [json.dumps({"resourceSpans": [each]}) for each in one["resourceSpans"]]
    (tmp_path / "spans.jsonl").write_text("\n".join(lines))

    imported(tmp_path, tmp_path / "spans.jsonl")

    assert len(legs_in(tmp_path)) == 136


def test_pages_that_follow_each_other_are_read_together_and_in_order(tmp_path):
    seen = []

    def pages(paths):
        seen.append([path.name for path in paths])
        yield metrics(gauge_of(Metric(name="stagewatch_up"), 1, at_s=NOW_S - 7))

    files = [OVERLOAD / "00-before.prom", OVERLOAD / "01-during.prom", OVERLOAD / "all-spans.bin"]
    found = imported(tmp_path, *files, pages=pages)

    assert seen == [["00-before.prom", "01-during.prom"]]
    assert [each.path.name for each in found] == ["01-during.prom", "all-spans.bin"]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("x.txt", b"hello", "nothing here reads such a file"),
        ("x.bin", b"\xff\xff garbage", "neither an ExportTraceServiceRequest nor"),
        ("x.bin", b"", "neither an ExportTraceServiceRequest nor"),
        ("x.json", b"[1, 2", "the body is no JSON"),
        ("x.json", b"[]", "not an object"),
        ("x.jsonl", b'{"t_send": 1}\n{oops\n', "line 2: it is no JSON object"),
        ("x.jsonl", b'{"ttft": 1}\n', "row 1: it does not say when"),
        ("x.jsonl", b'{"t_send": "noon"}\n', "row 1: start is 'noon', which is no number"),
        ("x.parquet", b"PAR1 not really", "no Parquet file"),
        ("x.prom", b"up 1\n", "nothing here reads such a file"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path, name, content, problem):
    (tmp_path / name).write_bytes(content)

    with pytest.raises(InputError, match=problem):
        imported(tmp_path, tmp_path / name)


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(InputError, match="there is no such file"):
        imported(tmp_path, tmp_path / "nowhere.bin")


class _Busy:
    """An intake that is full at first."""

    def __init__(self):
        self.asked = 0

    def traces(self, _):
        self.asked += 1
        if self.asked == 1:
            raise Overloaded(0.001)
        return Answer(rejected=1, message="1 span refused")

    def metrics(self, _):
        raise AssertionError


def test_an_intake_that_is_full_is_asked_again():
    intake = _Busy()

    (found,) = import_files([DEFAULT], intake)

    assert intake.asked == 2
    assert (found.taken, found.rejected, found.message) == (79, 1, "1 span refused")
