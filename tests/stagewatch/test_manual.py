"""`--help` says how a command is used, how it ends and what it reads; and what it says is so."""

import re
import shlex
import subprocess
import sys

import pytest

from stagewatch.__main__ import main, parser
from stagewatch.manual import MANUAL, leaves
from tests.paths import ROOT

COMMANDS = dict(leaves(parser()))


def test_every_command_has_examples_and_its_exit_codes():
    assert set(MANUAL) == set(COMMANDS)


@pytest.mark.parametrize("name", MANUAL)
def test_its_examples_are_of_this_command_and_right(name):
    for example in MANUAL[name].examples:
        words = shlex.split(re.search(r"stagewatch [^)|>]*", example)[0])[1:]
        parser().parse_args(words)

        assert words[: len(name.split())] == name.split()


@pytest.mark.parametrize("name", ["query quantile", "import", "up"])
def test_help_is_a_page_of_a_manual(name, capsys):
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    said = capsys.readouterr().out

    assert said.index("usage:") < said.index("options:") < said.index("examples:")
    assert f"  {MANUAL[name].examples[0]}\n" in said
    assert f"exit code: {MANUAL[name].ends}" in said


def test_what_a_command_had_to_say_below_its_options_stays():
    assert COMMANDS["import"].format_help().index("files:") < COMMANDS[
        "import"
    ].format_help().index("examples:")


def test_variables_that_it_names_are_read_somewhere():
    code = "\n".join(
        path.read_text() for path in (ROOT / "stagewatch").glob("*.py") if path.name != "manual.py"
    )
    named = {
        variable
        for entry in MANUAL.values()
        for variable in re.findall(r"STAGEWATCH_[A-Z_]+", entry.environment)
    }
    settings = (ROOT / "docs" / "reference" / "settings.md").read_text()

    assert {name for name in named if name not in code and name not in settings} == set()


def test_the_version_is_the_packages():
    said = subprocess.run(
        [sys.executable, "-m", "stagewatch", "--version"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip

    assert re.fullmatch(r"stagewatch \d+\.\d+\.\d+\S*\n", said)
