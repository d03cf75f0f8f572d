"""`stagewatch probe ladder`: what it asks first, what it prints, where results go, how it ends."""

import io
import json
import os
import pty
import signal
import subprocess
import sys
import threading

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from domain.errors import ConfigError
from exporters.ladder.announcement import announcement, is_loopback
from exporters.ladder.budget import Budget
from exporters.ladder.course import Course
from exporters.ladder.model_name import only_model
from exporters.ladder.plan import Guards, Plan
from exporters.ladder.progress import Progress
from stagewatch.__main__ import main, parser
from stagewatch.ladder_order import delivery_of, order_of
from tests.e2e.running import Stagewatch
from tests.exporters.fake_engine import answering, serving
from tests.exporters.ladder.planted import SHORT, sample
from tests.exporters.probe.streaming_server import StreamingServer
from tests.paths import ROOT

QUICK = {"first_token_s": 0.02, "gap_s": 0.004, "tokens": 8}
FEW = ("--prompts", "short=40", "--output-tokens", "8", "--runs", "1", "--requests", "6")
OK = ExportMetricsServiceResponse().SerializeToString()


def parsed(*words):
    return parser().parse_args(["probe", "ladder", *words])


def ordered(*words, url="http://127.0.0.1:1"):
    return order_of(parsed("--target", url, "--model", "m", *words))


def test_a_whole_ladder_from_the_command_line(capsys, tmp_path):
    reports = [tmp_path / f"report.{ending}" for ending in ("html", "json", "csv")]
    with StreamingServer(**QUICK) as server:
        words = ["--target", server.url, "--model", "m", "--concurrency", "1,2", *FEW]
        words += ["--objective", "ttft<=5s", "--price-per-hour", "2", "--for-rate", "3"]
        words += [word for path in reports for word in ("--out", str(path))]
        status = main(["probe", "ladder", *words])
    said = capsys.readouterr()

    assert status == 0
    assert "At least 99 % of requests keep TTFT ≤ 5 s up to 2 at a time" in said.out
    assert "3 requests/s x" in said.out
    assert "run 1/1: 6/6 requests" in said.err
    told = json.loads(reports[1].read_text())
    loops = [step["loop"] for step in told["shapes"][0]["steps"]]
    assert loops == ["closed", "closed", "open", "open", "open"]
    assert "<svg" in reports[0].read_text()
    assert len(reports[2].read_text().splitlines()) == 6


def test_the_answer_on_standard_output_is_one_object(capsys):
    with StreamingServer(**QUICK) as server:
        words = ["--target", server.url, "--model", "m", "--concurrency", "1", *FEW]
        status = main(["probe", "ladder", *words, "--loop", "closed", "--format", "json"])

    assert status == 0
    assert json.loads(capsys.readouterr().out)["schema"] == "stagewatch.ladder/1"


def test_objectives_that_no_step_keeps_are_status_1(capsys):
    with StreamingServer(**QUICK) as server:
        words = ["--target", server.url, "--model", "m", "--concurrency", "1", *FEW]
        status = main(["probe", "ladder", *words, "--loop", "closed", "--objective", "ttft<=1ms"])

    assert status == 1
    assert "At no step do 99 % of requests keep TTFT ≤ 1 ms: at 1 it is 0 of 6." in (
        capsys.readouterr().out
    )


def test_an_endpoint_that_is_not_there_is_status_1_with_a_way_out(capsys):
    status = main(["probe", "ladder", "--target", "http://127.0.0.1:1", "--model", "m", *FEW])

    assert status == 1
    assert "the connection is refused" in capsys.readouterr().err


def test_nothing_is_sent_elsewhere_without_a_yes(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    status = main(["probe", "ladder", "--target", "http://192.0.2.1", "--model", "m"])
    said = capsys.readouterr().err

    assert status == 2
    assert "nothing was sent" in said
    assert "at most   9\u202f801 requests" in said


def test_a_dry_run_says_the_plan_and_sends_nothing(capsys):
    with StreamingServer(**QUICK) as server:
        words = ["--target", server.url, "--model", "m", "--dry-run"]
        status = main(["probe", "ladder", *words, "--price-input", "3", "--price-output", "15"])
        sent = server.truth()

    assert (status, sent) == (0, [])
    said = capsys.readouterr().out
    assert "50 % of the best rate" in said
    assert "P99 = rank 99 of 100" in said
    assert "costs     $" in said


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("http://127.0.0.1:8000", True),
        ("http://127.9.9.9/v1", True),
        ("http://localhost:8000", True),
        ("http://[::1]:8000/v1", True),
        ("http://10.0.0.1", False),
        ("http://localhost.example.com", False),
        ("http://127.0.0.1.example.com", False),
        ("https://api.example.com", False),
        ("http://", False),
    ],
)
def test_only_what_surely_is_this_machine_is_not_asked_about(url, is_here):
    assert is_loopback(url) is is_here


def test_a_person_at_a_terminal_is_asked():
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "stagewatch", "probe", "ladder"]
    command += ["--target", "http://192.0.2.1", "--model", "m"]
    process = subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    os.write(ours, b"n\n")
    _, said = process.communicate(timeout=60)
    os.close(ours)
    os.close(theirs)

    assert process.returncode == 2
    assert "Send all that? [y/N]" in said


def test_ctrl_c_ends_with_a_report_and_status_1(tmp_path):
    report = tmp_path / "report.json"
    with StreamingServer(**QUICK) as server:
        words = ["--target", server.url, "--model", "m", "--requests", "100000", "--runs", "1"]
        words += ["--concurrency", "1", "--prompts", "short", "--loop", "closed"]
        process = subprocess.Popen(
            [sys.executable, "-m", "stagewatch", "probe", "ladder", *words, "--out", str(report)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while len(server.truth()) < 12:
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)

    assert process.returncode == 1
    assert "The ladder was not climbed to the end: interrupted." in out
    assert json.loads(report.read_text())["shapes"][0]["steps"][0]["requests"] > 3


def test_every_exchange_goes_to_the_store_as_the_probe_saw_it(capsys):
    with serving(answering(OK)) as collector, StreamingServer(**QUICK) as server:
        words = ["--target", server.url, "--model", "m", "--concurrency", "2", *FEW]
        words += ["--loop", "closed", "--endpoint", collector.root, "--service", "chat"]
        main(["probe", "ladder", *words])
        sent = len(server.truth())
    capsys.readouterr()

    counted = {"stagewatch_ttft_seconds": 0.0, "stagewatch_probes_total": 0.0}
    for path, headers, body in collector.requests:
        assert path == "/v1/metrics"
        for resource in _decoded(headers, body).resource_metrics:
            told = {each.key: each.value.string_value for each in resource.resource.attributes}
            assert told["service.name"] == "chat"
            assert told["stagewatch.use_case"] == "load-test"
            for metric in resource.scope_metrics[0].metrics:
                if metric.name in counted:
                    counted[metric.name] += _count(metric)
    assert counted == {"stagewatch_ttft_seconds": sent, "stagewatch_probes_total": sent}


def _decoded(headers, body):
    import gzip

    plain = gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body
    return ExportMetricsServiceRequest.FromString(plain)


def _count(metric):
    if metric.HasField("sum"):
        return sum(point.as_double for point in metric.sum.data_points)
    low = [
        point
        for point in metric.exponential_histogram.data_points
        if {each.value.string_value for each in point.attributes} & {"low"}
    ]
    return sum(point.count for point in low)


@pytest.mark.slow
def test_a_real_collector_answers_with_what_the_ladder_saw(capsys, tmp_path):
    with (
        Stagewatch("up", "--data-dir", str(tmp_path)) as stagewatch,
        StreamingServer(**QUICK) as server,
    ):
        words = ["--target", server.url, "--model", "m", "--concurrency", "2", *FEW]
        words += ["--loop", "closed", "--endpoint", stagewatch.otlp_url, "--service", "chat"]
        main(["probe", "ladder", *words])
        sent = len(server.truth())

        def seen():
            told = stagewatch.get(
                "/api/v1/quantile", metric="ttft", q="0.5", where=["source=probe", "service=chat"]
            )
            found = [point["n"] for series in told["series"] for point in series["points"]]
            return found if sum(found) == sent else None

        assert stagewatch.eventually(seen, within_s=30, what=f"{sent} first tokens")
    capsys.readouterr()


def test_the_only_model_is_asked_for():
    with serving(answering(b'{"data": [{"id": "llama"}]}')) as engine:
        assert only_model(f"{engine.root}/v1/chat/completions", {}) == "llama"
        assert order_of(parsed("--target", engine.root)).target.model == "llama"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"data": [{"id": "a"}, {"id": "b"}]}', "serves 2 models: a, b"),
        (b'{"data": []}', "serves 0 models: none"),
        (b"[]", "does not say which models"),
        (b"<html>", "does not say which models"),
        (b"[" * 100_000, "does not say which models"),
        (b" " * 2_000_000, "does not say which models"),
    ],
)
def test_where_there_is_no_only_model_it_must_be_said(body, says):
    with (
        serving(answering(body)) as engine,
        pytest.raises(ConfigError, match=says) as refused,
    ):
        only_model(engine.root, {})

    assert "--model NAME" in str(refused.value)


def test_where_nobody_is_a_models_name_would_not_help():
    with pytest.raises(ConfigError, match="Is the server running there") as refused:
        only_model("http://127.0.0.1:1", {})

    assert "--model" not in str(refused.value)


def test_a_list_of_models_that_is_refused_is_said_in_our_words():
    with (
        serving(answering(b"", status=404)) as engine,
        pytest.raises(ConfigError, match=r"which models there are: it answers 404\. Say which"),
    ):
        only_model(engine.root, {})


def test_a_model_called_like_a_terminals_commands_does_not_command_the_terminal():
    hostile = b'{"data": [{"id": "\\u001b[2J\\u0007evil"}]}'
    with serving(answering(hostile)) as engine:
        order = order_of(parsed("--target", engine.root))

    assert order.target.model == "\x1b[2J\x07evil"
    assert "model [2Jevil\n" in announcement(order)


def test_secrets_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("KEY", "hush")

    assert ordered("--api-key-env", "KEY").target.api_key.get_secret_value() == "hush"
    assert delivery_of(
        parsed("--target", "http://x", "--token-env", "KEY", "--endpoint", "http://c:4318")
    ).token.get_secret_value() == ("hush")
    with pytest.raises(ConfigError, match="NOT_SET is not set"):
        ordered("--api-key-env", "NOT_SET")


def test_words_become_a_plan():
    order = ordered(
        *("--concurrency", "4,1", "--prompts", "short,code=512", "--rate", "1,2.5"),
        *("--max-errors", "25", "--price-input", "1", "--price-output", "2", "--max-spend", "9"),
    )

    assert [each.prompt_tokens for each in order.plan.shapes] == [128, 512]
    assert [each.concurrency for each in order.plan.closed] == [1, 4, 1, 4]
    assert (order.plan.rates_hz, order.plan.rate_shares) == ((1.0, 2.5), ())
    assert order.plan.guards == Guards(max_spend=9.0, max_error_share=0.25)


def test_an_open_loop_alone_needs_its_rates():
    assert ordered("--loop", "open", "--rate", "2").plan.concurrencies == ()
    assert ordered("--loop", "open").plan.rate_shares == (0.5, 0.8, 0.95)
    assert ordered("--loop", "closed").plan.rate_shares == ()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--concurrency", "1,x"), "is no list of numbers"),
        (("--prompts", "tiny"), "is no prompt"),
        (("--prompts", "code=0"), "are no request"),
        (("--prompts", "code=9999999"), "are no request"),
        (("--prompts", "code=" + "9" * 5000), "is no prompt"),
        (("--output-tokens", "0"), "are no request"),
        (("--max-in-flight", "0"), "--max-in-flight"),
        (("--max-requests", "3"), "--max-requests"),
        (("--run-seconds", "nan"), "--run-seconds"),
        (("--max-errors", "101"), "--max-errors"),
        (("--max-spend", "-1", "--price-input", "1", "--price-output", "1"), "--max-spend"),
        (("--for-rate", "nan"), "above 0 requests/s"),
        (("--rate", "inf"), "at most 10 000"),
        (("--objective", "fast"), "is no objective"),
        (("--kind", "bedrock"), "needs a `region`"),
        (("--timeout", "-1"), "greater than 0"),
    ],
)
def test_wrong_words_are_refused_with_the_way_out(words, says):
    with pytest.raises(ConfigError, match=says):
        ordered(*words)


@pytest.mark.parametrize("url", ["engine:8000", "http://user:password@host", "ftp://host"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigError, match="probe ladder: url"):
        ordered(url=url)


def test_the_collectors_address_must_be_one():
    with pytest.raises(ConfigError, match="--endpoint"):
        delivery_of(parsed("--target", "http://x", "--endpoint", "collector"))


def test_the_plan_says_when_it_stops():
    said = announcement(ordered("--requests", "40", "--max-requests", "500"))

    assert "P99 = max of 40" in said
    assert "all at 500 requests" in said
    assert "a step when more than 10 % fail" in said


class _Terminal(io.StringIO):
    def isatty(self):
        return True


def progress(out, now):
    plan = Plan(shapes=(SHORT,), concurrencies=(1, 2), rounds=2, requests=2)
    course = Course(warm_up=0, measured=2, guards=Guards())
    told = Progress(plan, out=out, clock=lambda: now[0])
    told.begin(plan.closed[0], 1, course, Budget(Guards(), plan.price))
    return told, course


def test_progress_on_a_terminal_is_one_line_that_is_rewritten(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    out, now = _Terminal(), [0.0]
    told, course = progress(out, now)
    for at_s in (0.1, 0.3, 0.4, 20.0):
        now[0] = at_s
        course.end(sample(at_s=at_s))
        told.tell()
    told.end()

    lines = out.getvalue().split("\r")[1:]
    assert len(lines) == 4  # begin, 0.3, 20, end
    assert lines[-1].endswith("\n")
    assert max(map(len, lines)) <= 80
    assert "1 min 00 s left" in lines[-1]


def test_progress_elsewhere_is_plain_lines_and_few_of_them():
    out, now = io.StringIO(), [0.0]
    told, _ = progress(out, now)
    for at_s in range(12):
        now[0] = float(at_s)
        told.tell()

    assert "\r" not in out.getvalue()
    assert len(out.getvalue().splitlines()) == 2


def test_importing_the_command_loads_none_of_what_it_runs():
    code = "import stagewatch.probe_command, sys; print(*sys.modules)"

    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()

    assert {"httpx", "pydantic", "numpy", "asyncio", "h11"}.isdisjoint(loaded)


def test_a_ladder_runs_outside_the_main_thread_too(capsys):
    """Signals belong to the main thread; whoever runs a ladder in another one has none to lose."""
    with StreamingServer(**QUICK) as server:
        words = ["probe", "ladder", "--target", server.url, "--model", "m", "--concurrency", "1"]
        done = []
        thread = threading.Thread(
            target=lambda: done.append(main([*words, *FEW, "--loop", "closed"]))
        )
        thread.start()
        thread.join(60)
    capsys.readouterr()

    assert done == [0]
