"""Pages behind proxies: under any prefix, told by those who may tell it."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from alerts.access import Access
from alerts.access_settings import AuthSettings
from dashboard.app import attach
from dashboard.mount import clean_prefix
from tests.dashboard.memory import MemoryLedger


def client(reader, *, peer, **settings):
    api = FastAPI(docs_url=None, redoc_url=None)

    @api.get("/api/v1/known")
    def known():
        return "known"

    access = Access(AuthSettings(**settings))
    attach(api, reader, MemoryLedger(reader), access=access)
    return TestClient(api, client=(peer, 5), base_url="http://127.0.0.1:8400")


@pytest.mark.parametrize("cut_off", [True, False])
def test_a_trusted_proxy_says_under_which_prefix_we_lie(reader, cut_off):
    with client(reader, peer="10.1.2.3", proxies=["10.0.0.0/8"]) as ours:
        told = {"X-Forwarded-Prefix": "/llm/watch/"}
        above = "" if cut_off else "/llm/watch"

        page = ours.get(f"{above}/service/chat", headers=told).text
        assert 'src="/llm/watch/assets/stagewatch.js' in page
        assert '"requests_pathname_prefix":"/llm/watch/"' in page
        assert ours.get(f"{above}/api/v1/known", headers=told).json() == "known"


def test_nobody_else_says_so(reader):
    with client(reader, peer="10.1.2.3") as ours:
        page = ours.get("/", headers={"X-Forwarded-Prefix": "/evil"}).text

    assert "evil" not in page


@pytest.mark.parametrize(
    "prefix", ["//evil.example", '/"><script>', "/a/../b", "watch", "/" + "a" * 65, "/a" * 9]
)
def test_what_is_no_prefix_is_not_written_into_a_page(reader, prefix):
    with client(reader, peer="10.1.2.3", proxies=["10.1.2.3"]) as ours:
        page = ours.get("/", headers={"X-Forwarded-Prefix": prefix}).text

    assert 'data-prefix="/"' in page


@given(st.text(max_size=40))
def test_a_prefix_that_is_taken_is_harmless_in_a_page(text):
    found = clean_prefix(text)

    assert found is None or (not set(found) & set("\"'<>\\ ?#&") and "//" not in found)
