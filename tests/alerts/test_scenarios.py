"""The scenario files, through the evaluation that runs live; the file name is the claim."""

import pytest

from alerts.replay import check
from alerts.scenario import load_scenario
from domain.errors import ConfigError
from tests.paths import ROOT

FILES = sorted((ROOT / "tests" / "scenarios").glob("*.yaml"))
GOOD = """
objective: p99 ttft <= 1.5s over 30d
start: 2026-03-01T08:00:00Z
minutes:
  - {n: 60, good: 600, total: 600}
expect:
  - {at: 59, page: false}
"""


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_scenario_holds(path):
    checked = check(load_scenario(path))

    assert checked
    assert [each.line for each in checked if not each.kept] == []


def written(tmp_path, text):
    path = tmp_path / "scenario.yaml"
    path.write_text(text)
    return path


def test_an_expectation_that_fails_says_what_is_so(tmp_path):
    text = GOOD.replace("page: false", "page: true, tier: quick")

    (checked,) = check(load_scenario(written(tmp_path, text)))

    assert not checked.kept
    assert "minute 59 (09:00 UTC): page true, tier quick: failed: page is false" in checked.line


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("minutes:", "minuts:", "Did you mean 'minutes'"),
        ("good: 600", "good: 601", "601 to 601 good of 600"),
        ("good: 600", "good: -1", "-1 is no count"),
        ("good: 600, ", "", "None is no count"),
        ("n: 60", "n: 0", "holds no minutes"),
        ("n: 60", "n: 1000000000000", "are too many"),
        ("n: 60", "n: true", "True is no count"),
        ("at: 59", "at: 60", "minute 60 is not among the 60 minutes"),
        ("page: false", "paged: false", "Did you mean 'page'"),
        ("page: false", "page: maybe", "is no expectation"),
        ("page: false", "tier: fast", "is no expectation"),
        (", page: false", "", "is no expectation"),
        ("08:00:00Z", "08:00:30Z", "is not on a minute"),
        ("2026-03-01T08:00:00Z", "yesterday", "is no instant"),
        ("p99 ttft", "p99 tftt", "Did you mean 'ttft'"),
        ("expect:\n  - {at: 59, page: false}", "expect: []", "expects nothing"),
        ("  - {n: 60, good: 600, total: 600}", "  []", "holds no minutes"),
        ("start:", "start: {", "is not YAML"),
        ("start:", "x: " + "[" * 5000 + "\nstart:", "nested too deeply"),
        ("expect:", "before: never\nexpect:", "steady or nothing"),
        ("start: 2026-03-01T08:00:00Z\n", "", "'start' is missing"),
    ],
)
def test_a_mistake_in_a_scenario_is_explained(tmp_path, old, new, said):
    with pytest.raises(ConfigError, match=said.replace("(", r"\(")):
        load_scenario(written(tmp_path, GOOD.replace(old, new)))


def test_a_scenario_that_is_not_there_is_explained(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read"):
        load_scenario(tmp_path / "none.yaml")
