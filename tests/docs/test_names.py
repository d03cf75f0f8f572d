"""Every name in the code is documented, and every name in the documentation is in the code."""

import re

import pytest

from alerts.diagnosis.catalogue import RULES
from alerts.incident import Tier
from alerts.runbook import ENTRIES, RECEIVER, anchor_of
from collector.own_words import WORDS
from domain.condition import ConditionKind, condition_id
from tests.docs.reading import PAGES, anchors
from tests.paths import ROOT

REFERENCE = ROOT / "docs" / "reference"
PACKAGES = ("alerts", "collector", "dashboard", "domain", "exporters", "review", "stagewatch")
NO_METRICS = {
    "stagewatch_asked",
    "stagewatch_fence",
    "stagewatch_session",
    "stagewatch_version",
    "stagewatch_writes",
}
"""Names of ours that are something else: a context variable, a lock, a cookie, columns."""
SUFFIXES = ("_bucket", "_count", "_sum", "_total")


def documented():
    text = (REFERENCE / "metrics.md").read_text()
    return set(re.findall(r"`(stagewatch_[a-z0-9_]+)`", text))


def literals():
    """Every string of the code that could be a metric's name."""
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            yield from re.findall(r'"(stagewatch_[a-z0-9_]+[a-z0-9])"', path.read_text())


def plain(name):
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def test_every_metric_in_the_code_is_documented():
    known = {plain(name) for name in documented()}

    assert {name for name in literals() if plain(name) not in known} <= NO_METRICS


def test_every_metric_in_the_documentation_is_in_the_reference():
    known = {plain(name) for name in documented()}
    named = {
        (page.name, name)
        for page in PAGES
        if page.parent.name != "decisions"
        for name in re.findall(r"`(stagewatch_[a-z0-9_]+[a-z0-9])[`{]", page.read_text())
    }

    assert {each for each in named if plain(each[1]) not in known} == set()
    assert len(named) > 100


def counted():
    """What the collector counts by a name of its own, as the code writes it."""
    for package in ("collector", "stagewatch/prometheus"):
        for path in (ROOT / package).rglob("*.py"):
            yield from re.findall(r'counts\["([a-z_]+_total)"\]', path.read_text())


def test_every_counter_of_the_collector_says_what_it_means():
    told = {name.removeprefix("stagewatch_collector_") for name in WORDS}

    assert set(counted()) <= told
    assert len(set(counted())) > 8


def test_no_explanation_is_the_name_again():
    rows = re.findall(
        r"^\| `(stagewatch_\w+)` \| \w+ \| (.*) \|$",
        (REFERENCE / "metrics.md").read_text(),
        re.MULTILINE,
    )

    assert len(rows) > 80
    assert [name for name, text in rows if text.replace(" ", "_") in name] == []


def test_every_setting_that_the_pages_name_is_one():
    settings = (REFERENCE / "settings.md").read_text()
    known = set(re.findall(r"^\| `([a-z_.\[\]]+)`", settings, re.MULTILINE))
    sections = {name.partition(".")[0] for name in known if "." in name}
    prefixes = {name[: place.start()] for name in known for place in re.finditer(r"\.|\[|$", name)}
    named = {
        (page.name, name)
        for page in PAGES
        if page.parent.name == "docs"
        for name in re.findall(r"`([a-z_]+\.[a-z_.]+)`", page.read_text())
        if name.partition(".")[0] in sections
        and not name.endswith((".md", ".yaml", ".py", ".db"))
        and not (ROOT / name.replace(".", "/")).with_suffix(".py").exists()  # a module of ours
    }

    assert {each for each in named if each[1] not in prefixes} == set()
    assert len(named) > 4


RUNBOOK = anchors(REFERENCE / "runbook.md")


@pytest.mark.parametrize("tier", [tier for tier in Tier if tier is not Tier.CONDITION])
def test_every_alert_on_a_promise_has_its_place_in_the_runbook(tier):
    assert anchor_of(tier, "chat-ttft") in RUNBOOK


@pytest.mark.parametrize("kind", list(ConditionKind))
def test_every_condition_has_its_place_in_the_runbook(kind):
    name = condition_id(kind, (("replica", "vllm-3"), ("service", "chat")))

    assert anchor_of(Tier.CONDITION, name) == kind.value.replace(" ", "-")
    assert anchor_of(Tier.CONDITION, name) in RUNBOOK


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_every_rule_of_the_diagnosis_has_its_place_in_the_runbook(rule):
    assert rule.id.lower() in RUNBOOK


def test_no_place_of_the_runbook_is_there_twice_or_for_nothing():
    ours = [entry.anchor for entry in ENTRIES]
    raised = {
        *Tier,
        *(kind.value.replace(" ", "-") for kind in ConditionKind),
        RECEIVER,
        "heartbeat",
    }

    assert len(set(ours)) == len(ours)
    assert set(ours) <= raised
    assert set(ours) <= RUNBOOK
