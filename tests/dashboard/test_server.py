"""The server as a browser, a probe and a script meet it."""

import re

import pytest
from fastapi.testclient import TestClient

from dashboard.app import attach
from dashboard.content import Content, Recent
from tests.dashboard.conftest import NOW_S
from tests.dashboard.memory import MemoryLedger
from tests.dashboard.serving import server

TOLD = {"zone": "Europe/Berlin", "offset": 60, "host": "watch.example", "id": "7"}


@pytest.fixture
def api(reader):
    return server(reader, now=lambda: NOW_S)


@pytest.fixture
def client(api):
    with TestClient(api) as client:
        yield client


def page(client, path, search=""):
    """What a browser asks when it opens an address."""
    told = TOLD | {"path": path, "search": search}
    return client.post(
        "/_dash-update-component",
        json={
            "output": _page_output(client),
            "outputs": [
                {"id": "content", "property": "children"},
                {"id": "answered", "property": _page_output(client).split("answered.")[1][:-2]},
            ],
            "inputs": [{"id": "ask-page", "property": "data", "value": told}],
            "changedPropIds": ["ask-page.data"],
        },
    )


def _page_output(client):
    known = client.get("/_dash-dependencies").json()
    return next(each["output"] for each in known if "content.children" in each["output"])


def fill(client, path, search="", regions=("state",), charts=()):
    """What a browser asks at a tick."""
    told = TOLD | {"path": path, "search": search}
    known = client.get("/_dash-dependencies").json()
    output = next(each["output"] for each in known if '"region"' in each["output"])
    return client.post(
        "/_dash-update-component",
        json={
            "output": output,
            "outputs": [
                [{"id": {"region": name}, "property": "children"} for name in regions],
                [{"id": {"chart": name}, "property": "figure"} for name in charts],
                {"id": "answered", "property": "data"},
            ],
            "inputs": [{"id": "ask-fill", "property": "data", "value": told}],
            "changedPropIds": ["ask-fill.data"],
        },
    )


@pytest.mark.parametrize(
    "path", ["/endpoints", "/", "/service/chat", "/service/a%2Fb", "/service/x?from=now-6h"]
)
def test_every_page_answers(client, path):
    answer = client.get(path)

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")


def test_the_first_request_of_a_server_may_be_for_any_page(client):
    assert "assets/stagewatch.js" in client.get("/service/chat").text


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/healthzz", 404),
        ("GET", "/docs", 404),
        ("GET", "/service", 404),
        ("GET", "/service/", 404),
        ("GET", "/api/v1/typo", 404),
        ("POST", "/api/v1/typo", 404),
        ("POST", "/service/chat", 404),
        ("POST", "/healthz", 405),
    ],
)
def test_a_wrong_path_is_an_error_and_not_a_page(client, method, path, status):
    answer = client.request(method, path)

    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"


def test_a_route_that_is_added_after_the_pages_still_answers(api):
    @api.get("/api/v1/late")
    def late():
        return "late"

    with TestClient(api) as client:
        assert client.get("/api/v1/late").json() == "late"


def test_pages_may_live_under_a_prefix(reader):
    from fastapi import FastAPI

    api = FastAPI(docs_url=None, redoc_url=None)
    attach(api, reader, MemoryLedger(reader), prefix="/watch/", now=lambda: NOW_S)

    with TestClient(api) as client:
        assert client.get("/watch/").status_code == 200
        assert "/watch/assets/stagewatch.js" in client.get("/watch/service/chat").text
        # a proxy may cut the prefix off: the addresses on the page carry it all the same
        assert "/watch/assets/stagewatch.js" in client.get("/service/chat").text
        assert client.get("/watched/service/chat").status_code == 404
        assert '"requests_pathname_prefix":"/watch/"' in client.get("/watch/").text
        assert "-mount-" not in client.get("/watch/").text


def test_two_servers_in_one_process_answer_each_for_itself(reader):
    first, second = server(reader), server(reader)

    for api in (first, second):
        with TestClient(api) as client:
            assert client.get("/service/chat").status_code == 200


def test_scripts_come_from_our_own_server_only(client):
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', client.get("/").text)


def test_no_script_stands_in_the_page(client):
    scripts = re.findall(r"<script([^>]*)>([^<]*)</script>", client.get("/").text)

    assert len(scripts) > 5
    assert [body for marks, body in scripts if "application/json" not in marks and body] == []


def test_the_policy_allows_our_own_files_and_nothing_else(client):
    policy = client.get("/").headers["content-security-policy"]

    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy
    assert "'unsafe-inline'" not in policy.split("style-src")[0]


@pytest.mark.parametrize("path", ["/", "/healthz", "/typo", "/assets/stagewatch.js"])
def test_every_answer_carries_the_security_headers(client, path):
    headers = client.get(path).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_a_page_travels_compressed(client):
    assert client.get("/").headers["content-encoding"] == "gzip"


def test_no_tab_holds_a_socket(client):
    assert '"websocket"' not in client.get("/").text


def test_opening_an_address_gives_its_page(client):
    assert "chat-ttft pages since 02:09 UTC" in page(client, "/").text
    assert "Time to first token" in page(client, "/service/chat").text


def test_times_are_the_readers(client):
    assert "Europe/Berlin (UTC+1)" in str(page(client, "/").json())
    assert "13:10:17" in page(client, "/").text


def test_a_tick_fills_what_the_page_has(client):
    answer = fill(client, "/service/chat", regions=["badge", "typo"], charts=["ttft"]).json()

    assert set(answer["response"]) == {'{"region":"badge"}', '{"chart":"ttft"}', "answered"}
    assert answer["response"]["answered"]["data"] == "7"


def test_a_store_that_has_gone_is_a_banner_and_takes_nothing_away(client, reader, caplog):
    reader.broken = True
    answer = fill(client, "/", regions=["state", "promises", "banner"]).json()

    assert set(answer["response"]) == {'{"region":"banner"}', "answered"}
    assert "no such file. Start the collector." in str(answer)
    assert "could not be refreshed" in caplog.text


def test_a_page_that_is_opened_while_the_store_is_gone_says_so(client, reader, caplog):
    reader.broken = True
    answer = page(client, "/service/chat")

    assert answer.status_code == 200
    assert "The data could not be read" in answer.text
    assert "could not be made" in caplog.text


def test_a_page_in_order_has_no_banner(client):
    assert fill(client, "/", regions=["banner"]).json()["response"]['{"region":"banner"}'] == {
        "children": None
    }


def test_many_viewers_of_a_page_cost_as_much_as_one(client, reader):
    fill(client, "/")
    asked = reader.asked
    for _ in range(5):
        fill(client, "/")

    assert reader.asked == asked


def test_another_view_is_another_answer(client, reader):
    fill(client, "/")
    asked = reader.asked
    fill(client, "/", "?from=now-6h")

    assert reader.asked > asked


def test_answers_are_forgotten_oldest_first():
    recent = Recent(most=2)
    made = []

    def make(name):
        made.append(name)
        return Content(title=name, regions={})

    for name in ("a", "b", "a", "c", "b"):
        assert recent.get(name, lambda name=name: make(name)).title == name

    assert made == ["a", "b", "c", "b"]


def test_an_answer_that_failed_is_made_again():
    recent = Recent()

    def fail():
        raise RuntimeError("gone")

    with pytest.raises(RuntimeError):
        recent.get("a", fail)

    assert recent.get("a", lambda: Content(title="back", regions={})).title == "back"
