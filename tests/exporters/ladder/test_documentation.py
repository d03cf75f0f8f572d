"""What the guide says of the ladder is so."""

import json
import re
import shlex

import pytest

from exporters.ladder import output
from exporters.ladder.objective import PRESETS
from stagewatch.__main__ import main, parser
from tests.exporters.ladder.planted import measurement
from tests.paths import ROOT

GUIDE = (ROOT / "docs" / "load-test-an-endpoint.md").read_text()


def rows(text):
    return [line for line in text.splitlines() if line.startswith("| `")]


def keys_of(value):
    if isinstance(value, dict):
        for key, inside in value.items():
            yield key
            yield from keys_of(inside)
    elif isinstance(value, list):
        for inside in value[:1]:
            yield from keys_of(inside)


def test_the_command_of_the_guide_can_be_typed(capsys):
    block = re.search(r"```\n(\.venv/bin/stagewatch probe ladder.*?)```", GUIDE, re.DOTALL)[1]
    words = shlex.split(block.replace("\\\n", " "))[1:]
    kept = [word for word in words if not word.startswith("report.")]
    kept = [word for word in kept if word != "--out"]

    assert main([*kept, "--model", "m", "--dry-run"]) == 0
    assert "c=64" in capsys.readouterr().out


def test_every_option_of_the_guide_exists():
    known = parser().format_help()
    for action in parser()._subparsers._group_actions[0].choices["probe"]._actions:
        for choice in getattr(action, "choices", None) or {}:
            known += action.choices[choice].format_help()
    named = set(re.findall(r"`(--[a-z-]+)", GUIDE)) - {"--metric", "--where"}

    assert named
    assert not [option for option in sorted(named) if option not in known]


def test_every_key_of_the_document_is_in_the_guide():
    told = json.loads(output.as_json(measurement()))
    tops = {*told, *told["shapes"][0], *told["shapes"][0]["steps"][0]}
    tops |= {*told["shapes"][0]["knee"], *told["shapes"][0]["steps"][0]["runs"][0]["client"]}
    table = "\n".join(rows(GUIDE))
    told_there = {"schema", "run", "prompt_tokens", "output_tokens"}

    assert not [key for key in sorted(tops - told_there) if key not in table]


def test_nothing_in_the_document_is_a_key_that_no_program_can_use():
    told = json.loads(output.as_json(measurement()))

    assert not [key for key in keys_of(told) if not re.fullmatch(r"[a-z0-9_]+", key)]


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_in_the_guide(name):
    assert f"`{name}`" in GUIDE


def test_the_guide_says_what_each_status_means():
    assert "Status: 0 done; 1 cut short, not answered, or no step keeps the objectives; 2" in GUIDE
