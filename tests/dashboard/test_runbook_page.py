"""The runbook of a running Stagewatch: every alert's place, without a script."""

import re
from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient

from alerts.runbook import ENTRIES, rule_entries
from tests.dashboard.serving import server

ANCHORS = [*(entry.anchor for entry in ENTRIES), *(entry.anchor for _, entry in rule_entries())]


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.ids, self.links, self.names = [], [], set()
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        self.names.add(tag)
        if "id" in told:
            self.ids.append(told["id"])
        if tag == "a":
            self.links.append(told["href"])


@pytest.fixture
def answer(reader):
    with TestClient(server(reader)) as client:
        yield client.get("/runbook")


def test_every_alert_and_every_cause_has_its_place_and_a_link_to_it(answer):
    tags = Tags(answer.text)

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert tags.ids == ANCHORS
    assert [link.removeprefix("#") for link in tags.links if link.startswith("#")] == ANCHORS


def test_it_needs_no_script_and_nothing_from_elsewhere(answer):
    assert "script" not in Tags(answer.text).names
    assert "://" not in re.sub(r"<code>.*?</code>", "", answer.text)
    assert "default-src 'none'" in answer.headers["content-security-policy"]


def test_words_are_text_whatever_they_contain(answer):
    assert "P95 queue &gt; 3 × P95 prefill" in answer.text
    assert "<code>stagewatch diagnose --service NAME</code>" in answer.text


def test_under_a_prefix_its_links_carry_it(reader):
    with TestClient(server(reader, prefix="/watch/")) as client:
        page = client.get("/watch/runbook").text

    assert 'href="/watch/assets/runbook.css"' in page
    assert "/watch/alerts" in Tags(page).links
