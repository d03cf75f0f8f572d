"""Who may act: by token, by a trusted proxy, or on this machine; and no page of another site."""

from typing import Annotated

import pytest
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from pydantic import ValidationError

from alerts.access import ACTING, Access, Gate, Person, admin, responder
from alerts.access_settings import AuthSettings

HERE = {ACTING: "1"}
TOKENS = [
    "s-sender",
    {"token": "s-viewer", "role": "viewer", "name": "tv"},
    {"token": "s-responder", "role": "responder", "name": "ada"},
    {"token": "s-admin", "role": "admin", "name": "root"},
]


def client(settings=None, *, peer="127.0.0.1", base_url="http://127.0.0.1:8400"):
    app = FastAPI()
    access = Access(AuthSettings(**(settings or {})))
    app.state.access = access
    app.add_middleware(Gate, access=access)

    @app.post("/act")
    def act(person: Annotated[Person, Depends(responder)]):
        return {"author": person.author("somebody else")}

    @app.delete("/act")
    def take_back(person: Annotated[Person, Depends(admin)]):
        return {"author": person.name}

    @app.get("/read")
    def read():
        return {}

    @app.get("/healthz")
    def healthz():
        return {}

    return TestClient(app, base_url=base_url, client=(peer, 50000))


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


def test_without_tokens_this_machine_reads_and_acts():
    ours = client()

    assert ours.get("/read").status_code == 200
    answer = ours.post("/act", json={}, headers=HERE)
    assert (answer.status_code, answer.json()) == (200, {"author": "somebody else"})


@pytest.mark.parametrize(
    ("where", "headers", "status"),
    [
        ({"peer": "10.0.0.7"}, {}, 401),
        ({"peer": "not an address"}, {}, 401),
        ({"base_url": "http://evil.example:8400"}, {}, 401),
        ({}, {"X-Forwarded-For": "10.0.0.7"}, 401),
        ({}, {"Forwarded": "for=10.0.0.7"}, 401),
        ({}, {"X-Forwarded-User": "root"}, 200),
        ({}, {"Origin": "http://evil.example"}, 403),
        ({}, {"Origin": "http://127.0.0.1:9999"}, 403),
        ({}, {"Origin": "null"}, 403),
        ({}, {"Origin": "http://127.0.0.1:8400"}, 200),
        ({"base_url": "http://localhost:8400"}, {}, 200),
        ({"peer": "::1", "base_url": "http://[::1]:8400"}, {}, 200),
    ],
)
def test_without_tokens_only_this_machine_by_its_own_name_acts(where, headers, status):
    assert client(**where).post("/act", json={}, headers=HERE | headers).status_code == status


def test_a_form_or_a_request_without_our_header_does_not_act():
    ours = client()

    assert ours.post("/act", json={}).status_code == 403
    assert ours.post("/act", data={"a": "b"}, headers=HERE).status_code == 415
    plain = HERE | {"Content-Type": "text/plain"}
    assert ours.post("/act", content="{}", headers=plain).status_code == 415


@pytest.mark.parametrize(
    ("token", "acts", "ends"),
    [
        ("s-sender", 403, 403),
        ("s-viewer", 403, 403),
        ("s-responder", 200, 403),
        ("s-admin", 200, 200),
    ],
)
def test_a_token_may_what_its_role_may(token, acts, ends):
    ours = client({"tokens": TOKENS}, peer="10.0.0.7")

    assert ours.post("/act", json={}, headers=bearer(token)).status_code == acts
    assert ours.delete("/act", headers=bearer(token)).status_code == ends


def test_the_name_of_a_token_is_the_author_whatever_the_body_says():
    answer = client({"tokens": TOKENS}).post("/act", json={}, headers=bearer("s-responder"))

    assert answer.json() == {"author": "ada"}


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ", "bearer s-responder2"])
def test_a_wrong_token_is_refused_also_where_nobody_needs_one(header):
    answer = client({"tokens": TOKENS}).get("/read", headers={"Authorization": header})

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert "s-responder" not in answer.text


def test_with_tokens_that_act_this_machine_needs_one_too():
    ours = client({"tokens": TOKENS})

    answer = ours.post("/act", json={}, headers=HERE)

    assert answer.status_code == 401
    assert "`auth.tokens` whose role is responder" in answer.json()["detail"]


def test_tokens_that_only_send_leave_acting_to_this_machine():
    assert client({"tokens": ["s-sender"]}).post("/act", json={}, headers=HERE).status_code == 200


def test_where_anonymous_is_nobody_only_health_is_open():
    ours = client({"tokens": TOKENS, "anonymous": "nobody"}, peer="10.0.0.7")

    assert ours.get("/healthz").status_code == 200
    assert ours.get("/read").status_code == 401
    assert ours.get("/read", headers=bearer("s-viewer")).status_code == 200
    assert ours.get("/read", headers=bearer("s-sender")).status_code == 403


def test_a_trusted_proxy_says_who_it_is_and_nobody_else_does():
    settings = {"tokens": TOKENS, "proxies": ["10.1.0.0/16"], "anonymous": "nobody"}
    user = HERE | {"X-Forwarded-User": "grace"}

    inside = client(settings, peer="10.1.2.3").post("/act", json={}, headers=user)
    outside = client(settings, peer="10.2.2.3").post("/act", json={}, headers=user)

    assert (inside.status_code, inside.json()) == (200, {"author": "grace"})
    assert outside.status_code == 401


def test_a_page_of_another_site_does_not_act_through_the_proxy():
    settings = {"proxies": ["10.1.0.0/16"]}
    user = {"X-Forwarded-User": "grace"}
    ours = client(settings, peer="10.1.2.3", base_url="https://stagewatch.example")

    assert ours.post("/act", json={}, headers=user).status_code == 403
    foreign = user | HERE | {"Origin": "https://evil.example"}
    assert ours.post("/act", json={}, headers=foreign).status_code == 403
    own = user | HERE | {"Origin": "https://stagewatch.example"}
    assert ours.post("/act", json={}, headers=own).status_code == 200


def test_those_whom_a_proxy_lets_in_may_what_is_set():
    settings = {"proxies": ["10.1.2.3"], "proxy_role": "viewer"}
    user = HERE | {"X-Forwarded-User": "grace"}

    assert client(settings, peer="10.1.2.3").post("/act", json={}, headers=user).status_code == 403


@pytest.mark.parametrize(
    "settings",
    [
        {"tokens": [" "]},
        {"tokens": [{"token": "", "role": "admin"}]},
        {"tokens": ["a", {"token": "a", "role": "admin"}]},
        {"tokens": [{"token": "a", "role": "king"}]},
        {"proxies": ["proxy.example"]},
        {"user_header": "X User"},
    ],
)
def test_settings_that_let_in_anybody_or_nobody_are_refused(settings):
    with pytest.raises(ValidationError):
        AuthSettings(**settings)


def test_senders_are_plain_tokens_and_administrators_and_no_secret_is_printed():
    settings = AuthSettings(tokens=TOKENS)

    assert [each.get_secret_value() for each in settings.senders] == ["s-sender", "s-admin"]
    assert "s-" not in repr(settings)


def test_whoever_speaks_http_1_0_is_passed_on_by_a_proxy_that_says_nothing():
    """Debian's nginx, as it comes: no header of its own, and it calls us by our own name."""
    from fastapi import Request

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1:8400")],
        "client": ("127.0.0.1", 5),
    }
    access = Access()

    assert access.person(Request(scope | {"http_version": "1.1"})).name == "somebody here"
    assert access.person(Request(scope | {"http_version": "1.0"})).name == "anonymous"


def test_behind_a_trusted_proxy_the_name_it_was_called_by_counts():
    settings = {"proxies": ["127.0.0.1"]}
    headers = HERE | {
        "X-Forwarded-User": "ada",
        "X-Forwarded-Host": "watch.example",
        "Origin": "https://watch.example",
    }

    assert client(settings).post("/act", json={}, headers=headers).status_code == 200
    foreign = headers | {"Origin": "https://evil.example"}
    assert client(settings).post("/act", json={}, headers=foreign).status_code == 403
    told_by_anybody = client({}).post("/act", json={}, headers=headers)
    assert told_by_anybody.status_code == 403
