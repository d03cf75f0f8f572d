"""Keys that a server repeats, and those in addresses, are in nothing that we say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.probe.secret import secrets_of, without
from tests.exporters.probe.asking import ask, target_of
from tests.exporters.probe.raw_server import RawServer, streamed

KEY, TOKEN = "sk-live-0123456789", "tok-9876543210"


def answered(status, body):
    return (f"HTTP/1.1 {status}\r\nserver: {KEY}\r\nconnection: close\r\n\r\n{body}".encode(),)


@pytest.mark.parametrize(
    "pieces",
    [
        answered("401 Unauthorized", f"no such key: Bearer {KEY}, header {TOKEN}"),
        answered(f"302 Found\r\nlocation: http://x/?k={KEY}&t={TOKEN}", ""),
        streamed(f'data: {{"error": {{"message": "bad key {KEY} {TOKEN}"}}}}\n\n'.encode()),
        streamed(f"data: {KEY} is no JSON, nor is {TOKEN}\n\n".encode()),
        (f"{KEY} {TOKEN}\r\n\r\n".encode(),),
        (),
    ],
)
def test_what_the_other_side_repeats_of_our_keys_is_not_told(pieces):
    with RawServer(*pieces) as server:
        target = target_of(
            f"{server.url}/v1/chat/completions?api-key={KEY}",
            api_key=KEY,
            headers={"x-token": f"Basic {TOKEN}"},
        )
        done = ask(target)

    assert f"api-key={KEY}" in server.requests[0][0]
    assert server.requests[0][1]["authorization"] == f"bearer {KEY}"
    assert done.trouble
    assert KEY not in repr(done)
    assert TOKEN not in repr(done)


def test_a_signature_and_its_session_are_secrets_too():
    target = target_of("http://h")
    sent = {"authorization": "AWS4 Signature=abcdef", "x-amz-security-token": "FwoG"}

    told = without(secrets_of(target, "http://h", sent), "the string was FwoG, Signature=abcdef")

    assert told == "the string was ***, ***"


@given(st.text(min_size=4), st.text(), st.text())
def test_a_secret_is_in_no_text_however_it_stands_there(secret, before, after):
    told = without((secret,), before + secret + after)

    assert told.count("***") >= 1 or secret not in told
    assert without((), before) == before
