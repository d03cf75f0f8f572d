"""`stagewatch query` says the same from a folder and from a server, as table, JSON or CSV."""

import argparse
import csv
import io
import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import uvicorn
from fastapi import FastAPI
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collector.api import router
from collector.importing import import_files
from collector.reader import StoreReader
from domain.errors import InputError, StoreError
from stagewatch.query_command import add_parser, run
from tests.alerts.engines import START_S, hang, sidecar
from tests.collector.storing import NOW_S, OVERLOAD, histogram_of, metrics, span, traces, writing
from tests.paths import ROOT

WINDOW = ("--from", "2026-11-29T15:20:00Z", "--to", "2026-11-29T15:30:00Z")
TTFT = "gen_ai__latency__time_to_first_token"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("query")
    with writing(path) as writer:
        files = [OVERLOAD / "all-spans.bin", OVERLOAD / "client.jsonl"]
        list(import_files(files, writer, labels={"service": "vllm-tiny"}))
    return path


@pytest.fixture(scope="module")
def server(folder):
    app = FastAPI()
    reader = StoreReader(folder)
    app.include_router(router(reader))
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", ws="none")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run)
    thread.start()
    while not running.started:
        thread.join(0.01)
    yield f"http://127.0.0.1:{running.servers[0].sockets[0].getsockname()[1]}"
    running.should_exit = True
    thread.join()
    reader.close()


def parsed(*words):
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return parser.parse_args(["query", *words])


@pytest.fixture
def ask(capsys):
    def asked(*words):
        assert run(parsed(*words, *WINDOW)) == 0
        return capsys.readouterr().out

    return asked


def test_json_is_one_object_in_the_form_of_the_api(ask, folder):
    answer = json.loads(
        ask("quantile", "--q", "0.5,0.99", "--format", "json", "--data-dir", str(folder))
    )

    assert answer["q"] == [0.5, 0.99]
    assert [each["points"][0]["n"] for each in answer["series"]] == [136, 136]


@pytest.mark.parametrize(
    "question",
    [
        ("quantile", "--metric", "e2e", "--by", "source", "--step", "30s", "--q", "0.5,0.9"),
        ("stages", "--where", "service=vllm-tiny", "--by", "replica,service"),
        ("requests", "--limit", "7", "--slowest-by", "queue"),
    ],
)
@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_a_folder_and_a_server_say_the_same(ask, folder, server, question, form):
    offline = ask(*question, "--format", form, "--data-dir", str(folder))
    online = ask(*question, "--format", form, "--url", server)

    assert offline == online


def test_a_table_has_units(ask, folder):
    header, line = ask("quantile", "--data-dir", str(folder)).splitlines()

    assert header.split() == ["n", "p50", "p99"]
    assert line.split() == ["136", "10.7", "s", "15.2", "s"]


def test_stages_name_what_nobody_measured(ask, tmp_path):
    with writing(tmp_path) as writer:
        writer.traces(traces(span(1, end_s=NOW_S - 60, **{TTFT: 0.5})))

    table, beneath = ask("stages", "--data-dir", str(tmp_path)).split("\n\n")
    lines = table.splitlines()

    assert [line.split()[0] for line in lines[1:]] == [
        "e2e",
        "network",
        "overhead",
        "queue",
        "prefill",
        "decode",
    ]
    assert all(line.split()[2] == "–" for line in lines[1:])
    assert "network: not measured, no client sends spans" in beneath


def test_doubt_stands_in_the_table(ask, tmp_path):
    points = [
        ("low", [1.0], 70),
        ("high", [2.0], 70),
        ("low", [9.0, 10.0], 100),
        ("high", [9.0, 1e9], 100),
    ]
    with writing(tmp_path) as writer:
        for bound, values_s, ago_s in points:
            writer.metrics(
                metrics(
                    histogram_of(
                        Metric(name="stagewatch_ttft_seconds"),
                        values_s,
                        start_s=NOW_S - ago_s,
                        end_s=NOW_S - ago_s + 1,
                        bound=bound,
                    )
                )
            )

    table = ask("quantile", "--q", "1", "--step", "10s", "--data-dir", str(tmp_path))
    far, near = table.splitlines()[1:]

    assert far.endswith("≥ 9.83 s")
    assert near.endswith("979 ms – 2.02 s")


def test_csv_has_plain_numbers(ask, folder):
    rows = list(
        csv.DictReader(io.StringIO(ask("quantile", "--format", "csv", "--data-dir", str(folder))))
    )

    assert [row["n"] for row in rows] == ["136"]
    assert float(rows[0]["p99_low_s"]) < float(rows[0]["p99_s"]) < float(rows[0]["p99_high_s"])


def test_requests_are_a_line_each(ask, folder):
    rows = list(
        csv.DictReader(
            io.StringIO(
                ask("requests", "--limit", "9", "--format", "csv", "--data-dir", str(folder))
            )
        )
    )

    assert len(rows) == 9
    assert all(len(row["trace_id"]) == 32 for row in rows)
    assert {row["service"] for row in rows} == {"vllm-tiny"}


def test_nothing_is_no_traffic_and_no_error(ask, folder):
    where = ("--where", "service=nobody")

    assert ask("quantile", *where, "--data-dir", str(folder)) == "no traffic\n"
    assert ask("quantile", *where, "--format", "csv", "--data-dir", str(folder)) == ""
    assert json.loads(ask("quantile", *where, "--format", "json", "--data-dir", str(folder))) == {
        "metric": "ttft",
        "q": [0.5, 0.99],
        "unit": "s",
        "series": [],
    }


def test_failures_stand_beside_the_values(ask, tmp_path):
    with writing(tmp_path) as writer:
        failed = span(1, end_s=NOW_S - 60, stagewatch__outcome="failed")
        writer.traces(traces(failed, span(2, end_s=NOW_S - 60, **{TTFT: 0.5})))

    header, line = ask("quantile", "--q", "0.5", "--data-dir", str(tmp_path)).splitlines()

    assert header.split() == ["n", "failed", "p50"]
    assert line.split()[:2] == ["1", "1"]


def test_a_folder_without_a_store_says_the_way_out(tmp_path):
    with pytest.raises(StoreError, match="there is no store here"):
        run(parsed("stages", "--data-dir", str(tmp_path)))


def test_a_server_that_is_not_there_says_the_way_out():
    with pytest.raises(InputError, match="Start `stagewatch up`"):
        run(parsed("stages", "--url", "http://127.0.0.1:9"))


def test_an_address_that_is_none_is_refused():
    with pytest.raises(InputError, match="no HTTP address"):
        run(parsed("stages", "--url", "file:///etc/passwd"))


def test_the_servers_own_words_are_passed_on(server):
    with pytest.raises(InputError, match="Did you mean 'service'"):
        run(parsed("quantile", "--where", "srvice=chat", "--url", server))


def test_another_server_is_not_mistaken_for_ours():
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_error(404)

        def log_message(self, *_):
            pass

    other = HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=other.handle_request)
    thread.start()
    with other, pytest.raises(InputError, match="Is this a Stagewatch server"):
        run(parsed("stages", "--url", f"http://127.0.0.1:{other.server_port}"))
    thread.join()


def test_help_loads_nothing_heavy():
    program = (
        "import sys, stagewatch.query_command;"
        "print(sorted({'sqlalchemy', 'fastapi', 'dash', 'numpy', 'uvicorn'} & sys.modules.keys()))"
    )

    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert told.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def hung(tmp_path_factory):
    """The store of an engine that has just been seen to stand still."""
    path = tmp_path_factory.mktemp("hung")
    with sidecar(path) as into:
        for t, values in hang():
            if t <= 18:
                into.push(START_S + t, **values)
    return path


def conditions(capsys, hung, *words, at=START_S + 18):
    assert run(parsed("conditions", "--at", str(at), "--data-dir", str(hung), *words)) == 0
    return capsys.readouterr().out


def test_a_hung_engine_is_a_sentence_and_what_to_do(capsys, hung):
    said = conditions(capsys, hung)

    assert said.startswith("engine stalled (now): vllm-3 of chat has stood still for at least ")
    assert "Next: take the replica out of rotation" in said


def test_later_nobody_knows_whether_it_still_hangs(capsys, hung):
    assert conditions(capsys, hung, at=START_S + 60).startswith("engine stalled (stale): ")


def test_where_nothing_is_wrong_that_is_said(capsys, hung):
    said = conditions(capsys, hung, "--where", "service=code")

    assert said == "nothing is known to be wrong with any engine at 2026-11-29T10:00:18Z\n"


def test_conditions_as_json_and_csv(capsys, hung):
    answer = json.loads(conditions(capsys, hung, "--format", "json"))
    (row,) = csv.DictReader(io.StringIO(conditions(capsys, hung, "--format", "csv")))

    assert [each["kind"] for each in answer["conditions"]] == ["engine stalled"]
    assert (row["service"], row["replica"], row["running"]) == ("chat", "vllm-3", "1")


def test_beside_the_percentiles_of_what_finished_stands_what_did_not(ask, folder):
    said = ask("stages", "--data-dir", str(folder))

    assert "started − finished not counted (answers begun and not ended)" in said
    assert "failed 0, cancelled 10, rejected 6" in said


@pytest.fixture
def guarded():
    """A server that answers only those who bring a token."""
    seen = []

    class Guard(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(self.headers.get("Authorization"))
            allowed = seen[-1] == "Bearer hush"
            body = b'{"detail": "no"}' if not allowed else b'{"at": 0, "conditions": []}'
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Nothing: tests are quiet."""

    server = HTTPServer(("127.0.0.1", 0), Guard)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_token_of_the_environment_opens_a_server_that_answers_nobody_else(
    guarded, monkeypatch, capsys
):
    monkeypatch.delenv("STAGEWATCH_TOKEN", raising=False)
    with pytest.raises(InputError, match="Set STAGEWATCH_TOKEN"):
        run(parsed("conditions", "--url", guarded))

    monkeypatch.setenv("STAGEWATCH_TOKEN", "hush")
    assert run(parsed("conditions", "--url", guarded)) == 0
    assert capsys.readouterr().out
