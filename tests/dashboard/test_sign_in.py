"""Signing in: by token, into a cookie; and what a cookie may do."""

import pytest
from fastapi.testclient import TestClient

from alerts.access import ACTING, Access, Gate
from alerts.access_settings import AuthSettings
from alerts.session import COOKIE
from dashboard.app import attach
from tests.dashboard.conftest import NOW_S
from tests.dashboard.memory import MemoryLedger

TOKENS = [
    "s-sender",
    {"token": "s-viewer", "role": "viewer", "name": "tv"},
    {"token": "s-responder", "role": "responder", "name": "ada"},
]
PAGE = {"Accept": "text/html"}


@pytest.fixture
def client(reader):
    from typing import Annotated

    from fastapi import Depends, FastAPI

    from alerts.access import Person, responder

    api = FastAPI(docs_url=None, redoc_url=None)

    @api.post("/act")
    def act(person: Annotated[Person, Depends(responder)]):
        return person.name

    access = api.state.access = Access(AuthSettings(tokens=TOKENS, anonymous="nobody"))
    api.add_middleware(Gate, access=access)
    attach(api, reader, MemoryLedger(reader), prefix="/watch", access=access, now=lambda: NOW_S)
    with TestClient(api, base_url="http://watch.example", follow_redirects=False) as client:
        yield client


def sign_in(client, token, wanted="/"):
    return client.post("/watch/login", data={"token": token, "next": wanted})


def test_who_may_not_read_is_asked_to_sign_in_and_comes_back(client):
    asked = client.get("/watch/service/chat?from=now-6h", headers=PAGE)
    where = asked.headers["location"]
    assert asked.status_code == 303
    assert where == "/watch/login?next=%2Fservice%2Fchat%3Ffrom%3Dnow-6h"
    assert 'value="/service/chat?from=now-6h"' in client.get(where).text

    back = sign_in(client, "s-viewer", "/service/chat?from=now-6h")
    assert (back.status_code, back.headers["location"]) == (303, "/watch/service/chat?from=now-6h")
    assert client.get("/watch/service/chat", headers=PAGE).status_code == 200


def test_a_script_without_a_token_gets_a_401_and_no_page(client):
    answer = client.get("/watch/api/v1/session")

    assert answer.status_code == 401
    assert "Bearer" in answer.headers["www-authenticate"]


def test_no_script_and_no_other_site_gets_at_the_cookie(client):
    cookie = sign_in(client, "s-responder").headers["set-cookie"]

    assert cookie.startswith(f"{COOKIE}=")
    assert all(word in cookie for word in ("HttpOnly", "SameSite=lax", "Path=/watch"))
    assert "s-responder" not in cookie


@pytest.mark.parametrize("token", ["", "wrong", "s-sender"])
def test_what_is_no_readers_token_opens_nothing(client, token):
    answer = sign_in(client, token)

    assert answer.status_code == 401
    assert "no token of a viewer" in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    "wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "evil", "/a\nb", ""]
)
def test_signing_in_leads_to_no_other_site(client, wanted):
    assert sign_in(client, "s-viewer", wanted).headers["location"] == "/watch/"


def test_a_name_in_the_address_cannot_write_into_the_page(client):
    page = client.get("/watch/login", params={"next": '/"><script>alert(1)</script>'}).text

    assert "<script" not in page


def test_who_signed_in_acts_as_who_they_are_and_a_viewer_does_not(client):
    sign_in(client, "s-viewer")
    assert client.post("/watch/act", json={}, headers={ACTING: "1"}).status_code == 403

    sign_in(client, "s-responder")
    assert client.post("/watch/act", json={}, headers={ACTING: "1"}).json() == "ada"
    assert client.get("/watch/api/v1/session").json() == {
        "name": "ada", "role": "responder", "vouched": True, "signed_in": True, "signs_in": True,
    }  # fmt: skip


def test_a_cookie_alone_does_not_act_for_another_site(client):
    sign_in(client, "s-responder")
    foreign = {ACTING: "1", "Origin": "http://evil.example"}

    assert client.post("/watch/act", json={}).status_code == 403
    assert client.post("/watch/act", json={}, headers=foreign).status_code == 403
    assert client.post("/watch/login", data={}, headers=foreign).status_code == 403


def test_signing_out_takes_the_cookie_away(client):
    sign_in(client, "s-viewer")
    client.post("/watch/logout")

    assert client.get("/watch/", headers=PAGE).status_code == 303


def test_a_form_without_end_is_refused(client):
    assert sign_in(client, "x" * 5000).status_code == 413
