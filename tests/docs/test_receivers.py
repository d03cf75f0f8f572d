"""The page about receivers: its configurations load, its commands and names are there."""

import re

import pytest

from alerts.definition import gather
from alerts.receivers.body import names
from alerts.receivers.preview import preview
from alerts.receivers.readiness import ready
from alerts.receivers.samples import sample
from alerts.receivers.settings import KINDS
from stagewatch.config import load
from tests.alerts.receivers.told import NOW_S, ROUTING_KEY
from tests.docs.reading import BLOCKS
from tests.paths import ROOT

NAME = "docs/tell-pagerduty-slack-mail.md"
PAGE = (ROOT / NAME).read_text()
SNIPPETS = [block.text for block in BLOCKS if (block.page, block.kind) == (NAME, "yaml")]


@pytest.fixture
def environment(monkeypatch, tmp_path):
    monkeypatch.setenv("PAGERDUTY_KEY", ROUTING_KEY)
    monkeypatch.setenv("SLACK_WEBHOOK", "https://hooks.slack.com/services/T/B/x")
    for name in ("SLACK_BOT_TOKEN", "HOOK_TOKEN", "TELEGRAM_TOKEN", "TELEGRAM_CHAT"):
        monkeypatch.setenv(name, "hush")
    (tmp_path / "smtp").write_text("hush\n")
    return tmp_path


@pytest.mark.parametrize("snippet", SNIPPETS)
def test_every_configuration_on_the_page_loads_and_says_something(environment, snippet):
    path = environment / "stagewatch.yaml"
    path.write_text(snippet.replace("/run/secrets/smtp", str(environment / "smtp")))

    config = load(path)
    ready(config.receivers, gather(config.objectives))

    for receiver in config.receivers:
        assert "chat-ttft" in preview(receiver, sample(), now_s=NOW_S)


def test_every_kind_of_receiver_is_on_the_page():
    shown = set(re.findall(r"type: ([a-z]+)", PAGE)) | {"webhook"}

    assert shown == set(KINDS)


def test_the_names_for_templates_are_those_that_there_are():
    told = re.search(r"loop over `([a-z_ ]+)`", PAGE)[1].split()

    assert set(told) == set(names()) - {"alert_id", "dedup_key"}
