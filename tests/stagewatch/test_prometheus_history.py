"""The past of a Prometheus: what it remembers is told once, however it is asked for."""

import json
import math
import re
from collections import Counter
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from collector.native_histogram import CUSTOM_BUCKETS
from collector.remote_write_settings import RemoteWriteSettings
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from domain.errors import ConfigError, InputError
from stagewatch.__main__ import main
from stagewatch.prometheus.api import Access, PrometheusApi
from stagewatch.prometheus.history import History, Span
from tests.collector import storing
from tests.exporters.fake_engine import serving
from tests.stagewatch.prometheus_world import BEGIN_MS, STEP_MS, Told, scrape_of, totals

RANGE = re.compile(r"\{.*\}\[(\d+)ms\]")


class Past:
    """What a Prometheus remembers, and how much of it it is willing to tell at once."""

    def __init__(self, scrapes, most=10**9, external=None):
        self.samples = {}
        for at_ms, found in scrapes:
            for labels, value in found:
                self.samples.setdefault(labels, []).append((at_ms, value))
        self.most, self.external = most, external or {}
        self.answers = {}
        self.asked = Counter()
        self.headers = []

    def __call__(self, request):
        path = urlsplit(request.path)
        asked = parse_qs(path.query)
        if request.command == "POST":
            asked = parse_qs(request.server.requests[-1][2].decode())
        self.asked[path.path] += 1
        self.headers.append(request.headers)
        status, told = self.answers.get(path.path) or self._answer(path.path, asked)
        body = told if isinstance(told, bytes) else json.dumps(told).encode()
        request.send_response(status)
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def _answer(self, path, asked):
        if path.endswith("/status/config"):
            config = json.dumps({"global": {"external_labels": self.external}})
            return 200, {"status": "success", "data": {"yaml": config}}
        if path.endswith("/values"):
            label = path.split("/")[-2]
            values = {dict(labels).get(label) for labels in self.samples} - {None}
            return 200, {"status": "success", "data": sorted(values)}
        (query,), (until,) = asked["query"], asked["time"]
        until_ms = round(float(until) * 1000)
        after_ms = until_ms - int(RANGE.fullmatch(query)[1])
        found = [
            {
                "metric": dict(labels),
                "values": [
                    [at_ms / 1000, str(value)]
                    for at_ms, value in samples
                    if after_ms <= at_ms <= until_ms  # both ends, as Prometheus 2 has it
                ],
            }
            for labels, samples in self.samples.items()
        ]
        if sum(len(each["values"]) for each in found) > self.most:
            error = "query processing would load too many samples into memory in query execution"
            return 422, {"status": "error", "errorType": "execution", "error": error}
        return 200, {
            "status": "success",
            "data": {"resultType": "matrix", "result": [e for e in found if e["values"]]},
        }


def scrapes_of(numbers, **more):
    return [
        (BEGIN_MS + number * STEP_MS, scrape_of(100 + 2 * number, **more)) for number in numbers
    ]


def span(begin, end, step_ms=0):
    """The window that holds the scrapes after `begin` and up to `end`."""
    return Span(
        since_ms=BEGIN_MS + begin * STEP_MS, until_ms=BEGIN_MS + end * STEP_MS, step_ms=step_ms
    )


@contextmanager
def asking(past, **access):
    with serving(past) as fake:
        api = PrometheusApi(fake.root, Access(**access))
        try:
            yield api
        finally:
            api.close()


def told_of(past, *spans, **options):
    told = Told()
    with asking(past) as api:
        for each in spans:
            history = History(api, RemoteWriteSettings(), **options)
            for export in history.exports(each):
                told.metrics(export)
    return told


def same(n):
    return dict.fromkeys(("tokens", "started", "ttft", "e2e"), n)


def test_everything_between_two_instants_is_told():
    told = told_of(Past(scrapes_of(range(50))), span(10, 30))

    assert totals(told) == same(2 * 20)


def test_windows_side_by_side_leave_nothing_out_and_tell_nothing_twice():
    told = told_of(Past(scrapes_of(range(50))), span(0, 13), span(13, 14), span(14, 49))

    assert totals(told) == same(2 * 49)


@pytest.mark.parametrize("most", [100, 1000, 10**9])
def test_a_server_that_tells_little_at_once_is_asked_for_less(most):
    past = Past(scrapes_of(range(60)), most=most)

    told = told_of(past, span(0, 59))

    assert totals(told) == same(2 * 59)


def test_a_server_that_cannot_tell_a_second_is_an_error():
    with pytest.raises(InputError, match="one second is more than it can answer"):
        told_of(Past(scrapes_of(range(60)), most=3), span(0, 59))


def test_what_it_adds_when_it_writes_is_added_here_as_well():
    past = Past(scrapes_of(range(20)), external={"region": "eu", "prometheus": "a"})

    told = told_of(past, span(0, 19))

    assert totals(told, region="eu") == same(2 * 19)


def test_a_target_that_was_down_is_down_and_not_as_it_was_before():
    scrapes = scrapes_of(range(5))
    scrapes += [(BEGIN_MS + n * STEP_MS, scrape_of(0, up=0.0)) for n in range(5, 9)]
    scrapes += scrapes_of(range(9, 12))

    told = told_of(Past(scrapes), span(0, 11))

    assert told.levels("stagewatch_up") == [1.0] * 4 + [0.0] * 4 + [1.0] * 3
    assert totals(told) == same(2 * 11)


def test_a_gap_is_a_gap():
    past = Past(scrapes_of([0, 1, 2, 12, 13]))

    told = told_of(past, span(0, 13))

    assert len(told.levels("stagewatch_up")) == 4
    assert totals(told) == same(2 * 13)


def test_after_a_gap_of_hours_counting_begins_anew():
    told = told_of(Past(scrapes_of([0, 1, 2, 500, 501])), span(0, 501))

    assert totals(told) == same(2 * 3)


def test_of_two_that_scraped_the_same_one_is_believed():
    twins = scrapes_of(range(20), prometheus_replica="a")
    twins += [(at + 3000, found) for at, found in scrapes_of(range(20), prometheus_replica="b")]

    told = told_of(Past(twins), span(0, 20))

    assert totals(told) == same(2 * 19)


def test_a_step_leaves_scrapes_out_and_nothing_of_what_they_counted():
    past = Past(scrapes_of(range(41)))

    told = told_of(past, span(0, 40, step_ms=60_000))

    assert len(told.levels("stagewatch_up")) == 10
    assert totals(told) == same(2 * 40)


@pytest.mark.parametrize("steps_ms", [(0, 60_000), (60_000, 0), (60_000, 90_000)])
def test_quiet_times_told_in_other_steps_are_known_as_well(tmp_path, steps_ms):
    finished = [100 + number // 7 for number in range(60)]  # mostly nothing happens
    scrapes = [(BEGIN_MS + at * STEP_MS, scrape_of(n)) for at, n in enumerate(finished)]
    store = open_store(tmp_path)
    with Writer(store, CollectorSettings(), now=lambda: BEGIN_MS / 1000 + 1000) as writer:
        found = []
        for step_ms in steps_ms:
            with asking(Past(scrapes)) as api:
                for export in History(api, RemoteWriteSettings()).exports(span(0, 56, step_ms)):
                    writer.metrics(export)
            writer.settle()
            found.append(storing.distribution(tmp_path, "ttft").n)
    store.close()

    assert found == [8, 8]


def test_a_window_without_an_engine_says_so():
    node = [(BEGIN_MS, [((("__name__", "node_load1"), ("instance", "n"), ("job", "node")), 1.0)])]

    with pytest.raises(InputError, match="no metric of an engine in that window, among 1"):
        told_of(Past(node), span(-1, 5))


@pytest.mark.parametrize(
    ("status", "told", "words"),
    [
        (400, {"status": "error", "error": "invalid regexp"}, r"refuses the question \(400\)"),
        (401, {"status": "error", "error": "no"}, "PROMETHEUS_TOKEN"),
        (200, b"<html>", "and no JSON"),
        (502, b"bad gateway", "answers 502"),
        (200, {"status": "success", "data": {"resultType": "vector"}}, "else than a matrix"),
        (
            200,
            {"status": "success", "warnings": ["store down"], "data": {}},
            "may lack data: store down",
        ),
    ],
)
def test_an_answer_that_is_none_is_an_error_and_not_a_zero(status, told, words):
    past = Past(scrapes_of(range(5)))
    past.answers["/api/v1/query"] = status, told

    with pytest.raises(InputError, match=words):
        told_of(past, span(0, 4))


def test_nobody_there_is_an_error():
    api = PrometheusApi("http://127.0.0.1:9", Access())

    with pytest.raises(InputError, match="cannot be reached"):
        api.label_values("job", None, since_s=0, until_s=1)
    api.close()


@pytest.mark.parametrize("url", ["prometheus:9090", "http://", "http://me:secret@prom:9090"])
def test_an_address_that_is_none_or_holds_a_password_is_refused(url):
    with pytest.raises(ConfigError) as refused:
        PrometheusApi(url, Access())

    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("access", "header"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"user": "me", "password": "pw"}, "Basic bWU6cHc="),
        ({}, None),
    ],
)
def test_who_asks_says_who_he_is(access, header):
    past = Past(scrapes_of(range(3)))
    with asking(past, **access) as api:
        api.label_values("job", None, since_s=0, until_s=1)

    assert past.headers[-1].get("authorization") == header


@pytest.mark.parametrize("selector", ["vllm:x", "job=chat", '{job="a"', 'up{job="a"}'])
def test_a_selector_must_be_one_of_labels(selector):
    with asking(Past([])) as api, pytest.raises(ConfigError, match="is no selector of labels"):
        History(api, RemoteWriteSettings(), selector=selector)


def test_a_selector_goes_along_with_every_question():
    past = Past(scrapes_of(range(5)))
    with serving(past) as fake:
        api = PrometheusApi(fake.root, Access())
        list(History(api, RemoteWriteSettings(), selector='{job="chat",}').exports(span(0, 4)))
        api.close()
        query = parse_qs(fake.requests[-1][2].decode())["query"][0]

    assert query.startswith('{__name__=~"')
    assert ',job=~"chat",job="chat"}[' in query


def native_json(buckets, count, total):
    return {
        "status": "success",
        "data": {
            "resultType": "matrix",
            "result": [
                {
                    "metric": {"__name__": "vllm:e2e_request_latency_seconds"},
                    "histograms": [
                        [1.5, {"count": str(count), "sum": str(total), "buckets": buckets}]
                    ],
                }
            ],
        },
    }


@pytest.mark.parametrize("schema", range(-4, 9))
def test_a_native_histogram_is_known_by_its_edges(schema):
    def edge(index):
        return repr(2.0 ** (index / 2.0**schema))

    past = Past([])
    places = (-3, 0, 5) if schema >= 0 else (0, 1)
    buckets = [[0, edge(i - 1), edge(i), str(n)] for n, i in enumerate(places, 1)]
    buckets.insert(0, [3, "-1e-09", "1e-09", "4"])
    past.answers["/api/v1/query"] = 200, native_json(buckets, 10, 2.5)

    with asking(past) as api:
        ((series),) = api.samples("{}", after_ms=0, until_ms=5000)
    ((at_ms, found),) = series.samples

    assert (at_ms, found.count, found.sum, found.zero_count) == (1500, 10, 2.5, 4)
    assert found.schema == schema
    assert found.buckets == tuple((i, n) for n, i in enumerate(places, 1))


def test_a_native_histogram_of_other_edges_keeps_them():
    past = Past([])
    buckets = [[0, "0", "0.1", "1"], [0, "0.1", "0.25", "2"], [0, "10", "+Inf", "3"]]
    past.answers["/api/v1/query"] = 200, native_json(buckets, 6, 40)

    with asking(past) as api:
        ((series),) = api.samples("{}", after_ms=0, until_ms=5000)
    ((_, found),) = series.samples

    assert found.schema == CUSTOM_BUCKETS
    assert found.edges == (0.0, 0.1, 0.25, 10.0)
    assert found.buckets == ((1, 1), (2, 2), (4, 3))
    assert math.isclose(found.sum, 40)


def test_the_command_brings_it_into_a_store_twice_and_counts_it_once(tmp_path, capsys, monkeypatch):
    past = Past(scrapes_of(range(30)))
    token = tmp_path / "token"
    token.write_text("letmein\n")
    monkeypatch.setenv("PROMETHEUS_USER", "")
    with serving(past) as fake:
        options = (
            *("import", "--prometheus", fake.root, "--data-dir", str(tmp_path / "store")),
            *("--from", str(BEGIN_MS // 1000), "--to", str(BEGIN_MS // 1000 + 600)),
            *("--rename", "chat=talk", "--role", "talk=both"),
            *("--prometheus-token-file", str(token)),
        )
        codes = [main(options), main(options)]
    said = capsys.readouterr()
    ((labels,),) = storing.rows(
        tmp_path / "store", "SELECT labels FROM series WHERE labels LIKE '%llama%' LIMIT 1"
    )

    assert codes == [0, 0]
    assert "29 scrapes of 1 target taken" in said.out or "30 scrapes of 1 target" in said.out
    assert past.headers[-1]["authorization"] == "Bearer letmein"
    assert {"service": "talk", "role": "both"}.items() <= dict(json.loads(labels)).items()
    assert storing.number(tmp_path / "store", "generation_tokens")[1] == 10 * 2 * 29


def test_a_label_that_no_series_has_is_said_and_not_only_zero_counted(tmp_path, capsys):
    config = tmp_path / "stagewatch.yaml"
    config.write_text("collector: {remote_write: {replica_label: pod}}\n")
    with serving(Past(scrapes_of(range(3)))) as fake:
        options = (
            *("import", "--prometheus", fake.root, "--data-dir", str(tmp_path / "store")),
            *("--from", str(BEGIN_MS // 1000), "--to", str(BEGIN_MS // 1000 + 600)),
            *("--config", str(config)),
        )
        code = main(options)
    said = capsys.readouterr()

    assert code == 0
    assert "0 scrapes of 0 targets" in said.out
    assert "Look at `service_label` and `replica_label`" in said.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ([], "nothing to import"),
        (["x.prom", "--prometheus", "http://h"], "files and a Prometheus at once"),
        (["--prometheus", "ftp://h"], "no address of a Prometheus"),
        (["--prometheus", "http://h", "--from", "yesterday"], "from"),
        (["--prometheus", "http://h", "--step", "soon"], "no duration"),
        (["--prometheus", "http://h", "--prometheus-token-file", "/no/such"], "cannot be read"),
        (["--prometheus", "http://h", "--role", "a=boss"], "no role"),
    ],
)
def test_what_was_typed_wrongly_is_one_line(options, words, capsys):
    assert main(["import", *options]) == 2
    assert words in capsys.readouterr().err
