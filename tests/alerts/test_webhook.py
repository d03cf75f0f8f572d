"""One POST: where it may go, and how its answer is read."""

import pytest

from alerts.receivers.attempt import Fate
from alerts.receivers.settings import WebhookSettings
from alerts.receivers.webhook import Webhook
from tests.alerts.pager import Pager


def send(url, resolver=None, **settings):
    webhook = Webhook(WebhookSettings(name="pager", url=url, timeout_s=2, **settings), resolver)
    try:
        return webhook.send("{}", key="k", now_s=1_772_352_000)
    finally:
        webhook.close()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "192.168.0.9",
        "169.254.169.254",
        "::1",
        "fe80::1%eth0",
        "fd00::1",
        "::ffff:10.0.0.1",
        "0.0.0.0",  # noqa: S104 - an address to refuse
        "224.0.0.1",
        "100.64.0.1",
    ],
)
def test_a_name_that_leads_to_a_private_network_is_refused(address):
    attempt = send("http://hooks.example/", lambda *_: [address])

    assert attempt.fate is Fate.REFUSED
    assert "private" in attempt.detail


def test_one_private_address_among_public_ones_is_enough():
    attempt = send("http://hooks.example/", lambda *_: ["93.184.216.34", "10.0.0.1"])

    assert attempt.fate is Fate.REFUSED


def test_a_name_that_cannot_be_resolved_now_is_tried_again():
    def nowhere(host, port):
        raise OSError(f"no address for {host}:{port}")

    assert send("http://hooks.example/", nowhere).fate is Fate.RETRY


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch):
    monkeypatch.setattr("alerts.receivers.post._is_public", lambda _: True)
    with Pager() as pager:
        port = pager.url.split(":")[2].split("/")[0]
        attempt = send(f"http://hooks.example:{port}/", lambda *_: ["127.0.0.1"])

    assert attempt.fate is Fate.DELIVERED
    assert pager.posts[0]["host"] == f"hooks.example:{port}"


def test_a_redirect_is_not_followed():
    with Pager() as elsewhere, Pager([(302, {"Location": elsewhere.url})]) as pager:
        attempt = send(pager.url, allow_private=True)

    assert attempt.fate is Fate.REFUSED
    assert not elsewhere.posts


@pytest.mark.parametrize(
    ("status", "fate"),
    [
        (200, Fate.DELIVERED),
        (202, Fate.DELIVERED),
        (400, Fate.REFUSED),
        (401, Fate.RETRY),
        (404, Fate.RETRY),
        (410, Fate.REFUSED),
        (408, Fate.RETRY),
        (429, Fate.RETRY),
        (500, Fate.RETRY),
        (503, Fate.RETRY),
    ],
)
def test_what_an_answer_means(status, fate):
    with Pager([(status, {})]) as pager:
        assert send(pager.url, allow_private=True).fate is fate


def test_nobody_there_is_tried_again():
    with Pager() as pager:
        url = pager.url

    assert send(url, allow_private=True).fate is Fate.RETRY


@pytest.mark.parametrize("url", ["ftp://a/", "hooks.example", "http://", "file:///etc/passwd"])
def test_a_url_that_is_no_web_address_is_refused_at_once(url):
    with pytest.raises(ValueError, match="http"):
        WebhookSettings(name="pager", url=url)
