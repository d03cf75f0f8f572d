"""How a connection is made: names, addresses one after the other, certificates, and the floor."""

import asyncio
import contextlib
import socket
import time

import pytest

from domain.errors import ConfigError
from exporters.probe.connection import Connection, libc
from exporters.probe.floor import floor
from tests.exporters.probe.asking import ask, target_of
from tests.exporters.probe.certificates import made
from tests.exporters.probe.raw_server import RawServer
from tests.exporters.probe.streaming_server import StreamingServer


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    return made(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def secure(certificate):
    pem = {"certificate": str(certificate.file), "key": str(certificate.key)}
    with StreamingServer(tokens=3, **pem) as server:
        yield server


@contextlib.contextmanager
def nobody():
    """A port of 127.0.0.1 that refuses."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]


def test_a_refused_connection_says_so_and_was_never_sent():
    with nobody() as port:
        done = ask(target_of(f"http://127.0.0.1:{port}"))

    assert (done.reason, done.sent_at_ns, done.lasted_s) == ("refused", None, None)
    assert "Is anything running there?" in done.trouble


def test_a_name_that_is_none_says_so():
    done = ask(target_of("http://no-such-host.invalid"))

    assert done.reason == "dns"
    assert "no-such-host.invalid" in done.trouble


def test_a_name_that_cannot_be_one_says_so():
    done = ask(target_of(f"http://{'x' * 70}.example"))

    assert done.reason == "dns"


def test_a_name_without_an_address_says_so():
    done = ask(target_of("http://empty.example"), resolve=lambda *_: [])

    assert done.reason == "dns"
    assert "no address" in done.trouble


def test_addresses_are_tried_in_the_resolvers_order_and_the_one_that_answers_is_recorded():
    with StreamingServer(tokens=3) as server:

        def both(_, port):
            return [
                (socket.AF_INET, ("127.0.0.2", port)),
                (socket.AF_INET, ("127.0.0.1", port)),
            ]

        done = ask(target_of(f"http://two.example:{server.port}"), resolve=both)

    assert (done.ok, done.address) == (True, "127.0.0.1")
    assert done.notes[0].startswith("127.0.0.2 did not take the connection (refused) after")


def test_ipv6_is_spoken_to_where_it_is_given():
    try:
        with RawServer(b"HTTP/1.1 500 X\r\n\r\n", family=socket.AF_INET6, host="::1") as six:
            done = ask(target_of(six.url))
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")

    assert (done.address, done.status) == ("::1", 500)


def test_the_order_is_libcs_own():
    ours = [address for _, address in libc("localhost", 80)]
    theirs = [found[4] for found in socket.getaddrinfo("localhost", 80, type=socket.SOCK_STREAM)]

    assert ours == theirs


def test_a_certificate_that_nobody_vouches_for_is_named_with_the_way_out(secure):
    done = ask(target_of(secure.url))

    assert done.reason == "tls"
    assert "its certificate is not trusted" in done.trouble
    assert "ca_file" in done.trouble


def test_a_certificate_of_another_name_is_not_taken(secure, certificate):
    url = f"https://elsewhere.example:{secure.port}"
    target = target_of(url, ca_file=certificate.file)

    done = ask(target, resolve=lambda _, port: [(socket.AF_INET, ("127.0.0.1", port))])

    assert done.reason == "tls"


def test_a_server_that_does_not_speak_tls_is_named():
    with RawServer(b"HTTP/1.1 400 Bad\r\n\r\n") as plain:
        done = ask(target_of(plain.url.replace("http", "https")), timeout_s=5)

    assert done.reason == "tls"


def test_a_ca_file_that_cannot_be_read_is_an_error_of_ours(secure, tmp_path):
    with pytest.raises(ConfigError, match="ca_file"):
        ask(target_of(secure.url, ca_file=tmp_path / "none.pem"))


def test_a_secure_exchange_times_its_handshake_apart(secure, certificate):
    done = ask(target_of(secure.url, ca_file=certificate.file))

    assert done.ok
    assert done.tls_s > 0
    assert done.dns_s is None


def test_the_floor_is_so_many_handshakes_one_at_a_time_and_apart(secure, certificate):
    target = target_of(secure.url, ca_file=certificate.file, handshakes=8)
    asked, begun_s = len(secure.truth()), time.monotonic()

    found = asyncio.run(floor(target, spacing_s=0.05))

    assert time.monotonic() - begun_s >= 7 * 0.05
    assert (len(found.connect_s), len(found.tls_s), found.dns_s) == (8, 8, ())
    assert found.connect_min_s == min(found.connect_s)
    assert found.connect_min_s <= found.connect_median_s
    assert found.tls_min_s > found.connect_min_s
    assert (found.address, found.trouble) == ("127.0.0.1", "")
    assert len(secure.truth()) == asked


def test_a_floor_gives_up_after_three_failures():
    with nobody() as port:
        target = target_of(f"http://127.0.0.1:{port}", handshakes=50)
        found = asyncio.run(floor(target, spacing_s=0.02))

    assert (found.connect_s, found.connect_min_s, found.connect_median_s) == ((), None, None)
    assert "refused" in found.trouble


def test_a_connection_that_is_closed_leaves_no_socket_behind():
    async def often(target):
        for _ in range(20):
            connection = Connection(target)
            await connection.open()
            await connection.close()
            await connection.close()
            assert not connection.alive

    with StreamingServer() as server:
        asyncio.run(often(target_of(server.url)))


def test_an_exchange_that_is_cancelled_lets_go_of_its_connection():
    from exporters.probe.client import exchange
    from tests.exporters.probe.asking import PROMPT

    async def hurried(target):
        connection = Connection(target)
        task = asyncio.create_task(exchange(target, PROMPT, connection=connection, timeout_s=10))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return connection.alive

    with StreamingServer(first_token_s=5) as server:
        assert asyncio.run(hurried(target_of(server.url))) is False
