"""The door to the collector: over TLS with one's own certificates, and without any collector."""

import asyncio
import ssl

import pytest

from domain.errors import ConfigError
from exporters.delivery.delivery import open_delivery
from exporters.delivery.settings import DeliverySettings
from tests.exporters.delivery.outboxes import OWNER, export, names_in
from tests.exporters.fake_engine import Fake, answering, serving
from tests.exporters.probe.certificates import made


def delivered(settings, *names):
    """Puts exports of these names and leaves; how many wait then."""

    async def put():
        async with open_delivery(settings, kind="engine") as delivery:
            for name in names:
                delivery.put(export(name))
            await delivery.flush()
            return delivery.waiting(OWNER).exports

    return asyncio.run(put())


@pytest.fixture
def collector(tmp_path, monkeypatch):
    """A collector that speaks TLS with a certificate that only its owner knows."""
    own = made(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.file, own.key)
    begin = Fake.__init__

    def begin_with_tls(fake, answer):
        begin(fake, answer)
        fake.socket = context.wrap_socket(fake.socket, server_side=True)

    monkeypatch.setattr(Fake, "__init__", begin_with_tls)
    with serving(answering(b"")) as fake:
        fake.ca_file = own.file
        yield fake


def settings(collector, tmp_path, **changes):
    address = f"https://localhost:{collector.server_port}"
    told = {"endpoint": address, "spool_dir": tmp_path / "spool", **changes}
    return DeliverySettings(**told)


def test_a_certificate_of_ones_own_is_believed_when_it_is_named(collector, tmp_path):
    assert delivered(settings(collector, tmp_path, ca_file=collector.ca_file), "a", "b") == 0
    assert names_in(collector.requests[0][2]) == ["a", "b"]


def test_a_certificate_that_nobody_named_is_not_believed_and_nothing_is_lost(collector, tmp_path):
    assert delivered(settings(collector, tmp_path), "a") == 1
    assert not collector.requests


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_a_file_without_certificates_is_one_clear_error(collector, tmp_path, content):
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)

    with pytest.raises(ConfigError, match="Name a file of certificates"):
        delivered(settings(collector, tmp_path, ca_file=file), "a")


def test_without_an_endpoint_nothing_is_kept_and_nothing_is_written(tmp_path):
    told = DeliverySettings(endpoint=None, spool_dir=tmp_path / "spool")

    assert delivered(told, "a", "b") == 0
    assert not list(tmp_path.iterdir())


def test_exporters_of_different_kinds_share_a_directory(tmp_path):
    told = DeliverySettings(endpoint="http://127.0.0.1:9", spool_dir=tmp_path)

    async def both():
        async with (
            open_delivery(told, kind="engine") as first,
            open_delivery(told, kind="probe") as second,
        ):
            first.put(export("a"))
            return first.waiting(OWNER).exports, second.waiting(OWNER).exports

    assert asyncio.run(both()) == (1, 0)
