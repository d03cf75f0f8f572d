"""A page over HTTP: whatever the other side does ends within the deadline and says why."""

import asyncio
import gzip
import socket
import threading
import time
import tracemalloc

import pytest

from exporters.engine.failure import ScrapeError
from exporters.engine.scrape import fetch, http_client
from tests.exporters.fake_engine import answering, serving

PAGE = b"a 1\n" * 100
LIMIT = 1_000_000


def fetched(url, *, timeout_s=5.0, max_bytes=LIMIT):
    async def once():
        async with http_client() as client:
            return await fetch(client, url, timeout_s=timeout_s, max_bytes=max_bytes)

    return asyncio.run(once())


def refusal(answer, **limits):
    with serving(answer) as engine, pytest.raises(ScrapeError) as refused:
        fetched(engine.url, **limits)
    return refused.value


def test_a_page_arrives():
    with serving(answering(PAGE)) as engine:
        assert fetched(engine.url) == PAGE.decode()


def test_a_compressed_page_arrives():
    answer = answering(gzip.compress(PAGE), headers=[("content-encoding", "gzip")])

    with serving(answer) as engine:
        assert fetched(engine.url) == PAGE.decode()


def hang(request):
    request.server.closing.wait()


def trickle(request):
    """A byte now and then for ever: no single read ever times out."""
    request.send_response(200)
    request.end_headers()
    while not request.server.closing.wait(0.02):
        request.wfile.write(b"a")
        request.wfile.flush()


def trickle_headers(request):
    request.wfile.write(b"HTTP/1.1 200 OK\r\nx-slow: ")
    while not request.server.closing.wait(0.02):
        request.wfile.write(b"a")
        request.wfile.flush()


@pytest.mark.parametrize("answer", [hang, trickle, trickle_headers])
def test_a_server_that_takes_for_ever_is_cut_off_at_the_deadline(answer):
    begun = time.monotonic()

    failure = refusal(answer, timeout_s=0.3)

    assert failure.reason == "timeout"
    assert "0.3 s" in str(failure)
    assert time.monotonic() - begun < 2


def endless(request):
    request.send_response(200)
    request.end_headers()
    while not request.server.closing.is_set():
        request.wfile.write(b"a 1\n" * 10_000)


def test_an_endless_page_is_cut_off_at_its_size():
    failure = refusal(endless, max_bytes=100_000)

    assert failure.reason == "too_large"
    assert "max_page_bytes" in str(failure)


def test_a_compressed_bomb_does_not_go_off():
    bomb = gzip.compress(b"a 1\n" * 20_000_000, 1)  # every 64 kB of it are 15 MB
    tracemalloc.start()

    failure = refusal(answering(bomb, headers=[("content-encoding", "gzip")]), max_bytes=1_000_000)

    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert failure.reason == "too_large"
    assert peak_bytes < 8_000_000


def test_a_compressed_page_that_ends_too_early_is_cut_off():
    half = gzip.compress(bytes(range(256)) * 100)[:-20]

    failure = refusal(answering(half, headers=[("content-encoding", "gzip")]))

    assert failure.reason == "cut_off"


def test_a_page_that_says_gzip_and_is_none_is_refused():
    failure = refusal(answering(PAGE, headers=[("content-encoding", "gzip")]))

    assert failure.reason == "encoding"


def test_an_encoding_that_nobody_asked_for_is_refused():
    assert refusal(answering(PAGE, headers=[("content-encoding", "br")])).reason == "encoding"


def cut(request):
    request.send_response(200)
    request.send_header("content-length", "100000")
    request.end_headers()
    request.wfile.write(PAGE)
    request.close_connection = True


def test_a_connection_that_breaks_off_in_the_page_is_no_page():
    assert refusal(cut).reason == "cut_off"


@pytest.mark.parametrize("status", [204, 404, 500, 503])
def test_a_status_that_is_not_ok_is_its_own_reason(status):
    failure = refusal(answering(b"", status=status))

    assert failure.reason == f"http_{status}"
    assert f"answers {status}" in str(failure)


def test_a_redirect_is_not_followed_and_names_where_to():
    answer = answering(b"", status=307, headers=[("location", "http://elsewhere/metrics")])

    failure = refusal(answer)

    assert failure.reason == "redirect"
    assert "http://elsewhere/metrics" in str(failure)


def test_bytes_that_are_no_text_are_refused():
    assert refusal(answering(b"a 1\n\xff\xfe\x00")).reason == "binary"


def test_a_port_where_nobody_listens_is_refused():
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]

        with pytest.raises(ScrapeError) as refused:
            fetched(f"http://127.0.0.1:{port}/metrics")

    assert refused.value.reason == "refused"
    assert f"127.0.0.1:{port}" in str(refused.value)


def test_a_name_that_does_not_exist_is_unreachable():
    with pytest.raises(ScrapeError) as refused:
        fetched("http://no-such-engine.invalid/metrics")

    assert refused.value.reason in ("unreachable", "timeout")


def test_something_that_does_not_speak_http_is_no_page():
    listener = socket.create_server(("127.0.0.1", 0))

    def speak():
        connection, _ = listener.accept()
        connection.recv(1000)
        connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")
        connection.close()

    thread = threading.Thread(target=speak)
    thread.start()
    with listener, pytest.raises(ScrapeError) as refused:
        fetched(f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
    thread.join()

    assert refused.value.reason == "cut_off"


def test_a_hung_engine_delays_nobody_else():
    async def both(hung, good):
        async with http_client() as client:
            slow = asyncio.create_task(fetch(client, hung, timeout_s=5, max_bytes=LIMIT))
            begun = time.monotonic()
            for _ in range(5):
                await fetch(client, good, timeout_s=5, max_bytes=LIMIT)
            spent_s = time.monotonic() - begun
            slow.cancel()
            await asyncio.gather(slow, return_exceptions=True)
            return spent_s

    with serving(hang) as hung, serving(answering(PAGE)) as good:
        assert asyncio.run(both(hung.url, good.url)) < 3
