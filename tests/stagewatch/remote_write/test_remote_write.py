"""What we write to a Prometheus: in order, once, and kept while nobody takes it."""

import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from collector.remote_write_messages import TimeSeries, WriteRequest
from domain.errors import ConfigError
from stagewatch.remote_write.message import STALE, series_of, write_request
from stagewatch.remote_write.settings import RemoteWriteOutSettings
from stagewatch.remote_write.writer import RemoteWriter
from stagewatch.summary.family import Family, Sample
from stagewatch.summary.summary import Told
from tests.e2e.prometheus_process import BINARY, Prometheus


def told(at_s, value=1.0, *, families=("stagewatch_x",), of_s=None, **labels):
    return Told(
        at_s=at_s,
        families=[
            Family(
                name=name,
                help="",
                samples=[Sample(labels=tuple(sorted(labels.items())), value=value, at_s=of_s)],
            )
            for name in families
        ],
    )


def read(body):
    """(labels, value, instant in ms) of every sample."""
    request = WriteRequest.FromString(body)
    series = [TimeSeries.FromString(each) for each in request.timeseries]
    return [
        ({label.name: label.value for label in each.labels}, sample.value, sample.timestamp)
        for each in series
        for sample in each.samples
    ]


@contextmanager
def receiving(*answers):
    """A receiver that gives these answers, then 204; what it was sent, and with which headers."""
    taken, left = [], list(answers)

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, headers = left.pop(0) if left else (204, {})
            taken.append(
                (status, dict(self.headers), read(bytes(cramjam.snappy.decompress_raw(body))))
            )
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_):
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/write", taken
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def answering(body):
    """A receiver that refuses all, in these words."""

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(500)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/write"
        server.shutdown()


_MADE = []


def writer(url, folder, **settings):
    _MADE.append(RemoteWriter(RemoteWriteOutSettings(url=url, **settings), url, folder))
    return _MADE[-1]


@pytest.fixture(autouse=True)
def _closing():
    yield
    while _MADE:
        _MADE.pop().close()


def sent(taken):
    return [sample for status, _, samples in taken if status == 204 for sample in samples]


def test_a_message_is_what_remote_write_asks_for(tmp_path):
    with receiving() as (url, taken):
        found = writer(
            url, tmp_path, headers={"X-Scope-OrgID": "a"}, labels={"job": "s", "zone": ""}
        )
        found.put(told(12.5, 0.25, service="chat", bound="low"))
        assert found.send_some(0.0) == 0.0
        assert found.send_some(0.0) is None

    ((_, headers, samples),) = taken
    assert samples == [
        ({"__name__": "stagewatch_x", "bound": "low", "job": "s", "service": "chat"}, 0.25, 12_500)
    ]
    assert headers["Content-Encoding"] == "snappy"
    assert headers["X-Prometheus-Remote-Write-Version"] == "0.1.0"
    assert headers["X-Scope-OrgID"] == "a"


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a", "b", "job", "_z", "zone"]), st.text(max_size=4)),
        max_size=8,
    )
)
def test_labels_are_sorted_never_empty_and_series_never_twice(samples):
    families = [
        Family(
            name="stagewatch_x",
            help="",
            samples=[Sample(labels=tuple(each.items()), value=0) for each in samples],
        )
    ]

    body = write_request(series_of(families, {"job": "s"}), (), at_s=1)

    series = [TimeSeries.FromString(each) for each in WriteRequest.FromString(body).timeseries]
    pairs = [[(label.name, label.value) for label in each.labels] for each in series]
    assert all(names == sorted(names) for names in pairs)
    assert all(value for each in pairs for _, value in each)
    assert len({tuple(each) for each in pairs}) == len(pairs)


def test_a_series_that_is_gone_is_said_to_have_ended_once(tmp_path):
    with receiving() as (url, taken):
        found = writer(url, tmp_path)
        for at_s, families in (
            (1, ("stagewatch_x", "stagewatch_y")),
            (2, ("stagewatch_x",)),
            (3, ("stagewatch_x",)),
        ):
            found.put(told(at_s, families=families))
            found.send_some(0.0)

    of_y = [
        (value, at_ms)
        for labels, value, at_ms in sent(taken)
        if labels["__name__"] == "stagewatch_y"
    ]
    assert of_y[0] == (1.0, 1000)
    assert [(value != value, at_ms) for value, at_ms in of_y[1:]] == [(True, 2000)]  # noqa: PLR0124 - NaN
    assert STALE != STALE  # noqa: PLR0124 - the same


def test_what_has_an_instant_of_its_own_is_written_once_of_it_and_never_ended(tmp_path):
    with receiving() as (url, taken):
        found = writer(url, tmp_path)
        for at_s, of_s, families in (
            (200, 60, ("stagewatch_x",)),
            (215, 60, ("stagewatch_x",)),
            (230, None, ()),
            (245, 120, ("stagewatch_x",)),
        ):
            found.put(told(at_s, families=families, of_s=of_s))
            found.send_some(0.0)

    assert [(value, at_ms) for _, value, at_ms in sent(taken)] == [(1.0, 60_000), (1.0, 120_000)]


@pytest.mark.parametrize("status", [500, 503, 429, 401, 404])
def test_what_is_not_taken_waits_and_nothing_overtakes_it(tmp_path, status):
    with receiving((status, {}), (status, {"Retry-After": "7"})) as (url, taken):
        found = writer(url, tmp_path)
        found.put(told(1))
        assert 0.25 <= found.send_some(0.0) <= 0.5
        found.put(told(2))
        assert found.send_some(0.0) == 7.0
        assert found.counts()["stagewatch_remote_write_out_retried_total"] == 2
        assert found.send_some(0.0) == 0.0

    assert [at_ms for _, _, at_ms in sent(taken)] == [1000, 2000]
    assert found.counts()["stagewatch_remote_write_out_sent_total"] == 2


def test_samples_that_are_refused_are_dropped_counted_and_take_no_other_with_them(tmp_path):
    with receiving((400, {}), (400, {})) as (url, taken):
        found = writer(url, tmp_path)
        found.put(told(1))
        found.put(told(2))
        while found.send_some(0.0) is not None:
            pass

    assert [at_ms for _, _, at_ms in sent(taken)] == [2000]
    assert found.counts()["stagewatch_remote_write_out_refused_total"] == 1


def test_what_waits_outlives_the_process(tmp_path):
    with receiving() as (url, taken):
        with writer("http://127.0.0.1:9/write", tmp_path) as away:
            away.put(told(1))
        with writer(url, tmp_path):
            until_s = time.monotonic() + 5
            while not sent(taken) and time.monotonic() < until_s:
                time.sleep(0.02)

    assert [at_ms for _, _, at_ms in sent(taken)] == [1000]


def test_beyond_its_bytes_the_oldest_goes_and_the_loss_is_counted_and_not_written(tmp_path):
    with receiving((503, {})) as (url, taken):
        found = writer(url, tmp_path, spool_bytes=64 * 1024)
        names = [f"stagewatch_{n:05}" for n in range(600)]
        for at_s in range(1, 60):
            found.put(told(at_s, at_s * 1.1, families=names))
        while found.send_some(0.0) is not None:
            pass

    instants = sorted({at_ms for _, _, at_ms in sent(taken)})
    assert instants[-1] == 59_000
    assert 0 < len(instants) < 59
    assert found.counts()["stagewatch_remote_write_out_lost_total"] == 59 - len(instants)
    assert all(labels["__name__"] in names for labels, _, _ in sent(taken))


def test_nobody_answers_is_a_problem_after_the_third_time(tmp_path):
    found = writer("http://127.0.0.1:9/write", tmp_path)
    found.put(told(1))
    said = []
    for _ in range(3):
        found.send_some(0.0)
        said.append(found.problem())

    assert said[:2] == [None, None]
    assert "no answer" in said[2]


def test_what_a_receiver_answers_is_in_the_log_on_one_line_without_our_secrets(tmp_path, caplog):
    with answering(b"no such key: Bearer sesame-17\nERROR all is lost") as url:
        found = writer(url, tmp_path, headers={"Authorization": "Bearer sesame-17"})
        found.put(told(1))
        for _ in range(3):
            found.send_some(0.0)

    (line,) = [each.getMessage() for each in caplog.records]
    assert line.endswith("HTTP 500 no such key: *** ERROR all is lost; samples wait")
    assert found.problem() == "remote_write_out: HTTP 500"


def test_the_end_does_not_wait_for_a_receiver_that_hangs(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as hangs:
        url = f"http://127.0.0.1:{hangs.getsockname()[1]}/write"
        with writer(url, tmp_path) as found:
            found.put(told(1))
            time.sleep(0.3)
            begun_s = time.monotonic()
        assert time.monotonic() - begun_s < 4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"url": "prometheus:9090"}, "no web address"),
        ({"url": "http://a:b@prometheus:9090"}, "password"),
        ({"url": "http://p/w", "headers": {"Content-Type": "x"}}, "no header that can be set"),
        ({"url": "http://p/w", "headers": {"A": "x\r\nB: y"}}, "no header may hold"),
        ({"url": "http://p/w", "labels": {"__name__": "x"}}, "no name of a label"),
    ],
)
def test_what_cannot_work_is_refused(settings, said):
    with pytest.raises(ValidationError, match=said):
        RemoteWriteOutSettings(**settings)


def test_certificates_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ConfigError, match=r"remote_write_out\.ca_file"):
        writer("https://p/w", tmp_path / "spool", ca_file=tmp_path / "no.pem")


_OURS = "stagewatch_remote_write_out_"


def _until(holds):
    until_s = time.monotonic() + 20
    while not holds() and time.monotonic() < until_s:
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.skipif(BINARY is None, reason="there is no `prometheus` on this machine")
def test_a_real_prometheus_takes_it_after_an_outage_and_ends_what_is_gone(tmp_path):
    now_s = time.time()
    minute_s = int(now_s) // 60 * 60 - 600
    prometheus = Prometheus(
        tmp_path / "prometheus", lambda _: {}, options=("--web.enable-remote-write-receiver",)
    )
    with writer(f"{prometheus.url}/api/v1/write", tmp_path / "spool") as found:
        found.put(told(now_s - 20, 1.0, families=("stagewatch_x", "stagewatch_y"), service="chat"))
        found.put(told(now_s - 10, 2.0, service="chat"))
        with prometheus:
            _until(lambda: prometheus.ask("stagewatch_x"))
            (series,) = prometheus.ask("stagewatch_x[1m]")
            gone = prometheus.ask("stagewatch_y"), prometheus.ask("stagewatch_y[1m]")

            with writer(f"{prometheus.url}/api/v1/write", tmp_path / "other spool") as restarted:
                restarted.put(told(now_s - 5, 3.0, of_s=minute_s, service="old"))
                _until(lambda: restarted.counts()[f"{_OURS}sent_total"] == 1)
            with writer(f"{prometheus.url}/api/v1/write", tmp_path / "other spool") as restarted:
                restarted.put(told(now_s - 4, 3.0, of_s=minute_s, service="old"))
                restarted.put(told(now_s - 3, 4.0, service="chat"))
                _until(lambda: restarted.counts()[f"{_OURS}sent_total"] == 2)
                refused = restarted.counts()[f"{_OURS}refused_total"]
            (stamped,) = prometheus.ask('stagewatch_x{service="old"}[30m]')
            (after,) = prometheus.ask('stagewatch_x{service="chat"}[1m]')

    assert series["metric"] == {"__name__": "stagewatch_x", "job": "stagewatch", "service": "chat"}
    assert [value for _, value in series["values"]] == ["1", "2"]
    assert stamped["values"] == [[minute_s, "3"]], "written again by the next process, it is one"
    assert [value for _, value in after["values"]] == ["1", "2", "4"]
    assert refused == 0
    assert gone[0] == [], "it has ended"
    assert gone[1], "and it was there"
