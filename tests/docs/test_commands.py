"""What the documentation shows to type is what there is: commands, targets, addresses, variables."""

import argparse
import re
import shlex

import pytest

from stagewatch.__main__ import parser
from tests.docs.reading import BLOCKS, INLINE, PAGES
from tests.paths import ROOT

OURS = re.compile(r"(?:\$ )?(?:\.venv/bin/)?stagewatch ")
NO_SHELL = ("yaml", "json", "nginx", "toml", "promql", "sql", "python", "dockerfile", "ini")


def lines(block):
    """The commands of a block: continued lines joined, what a shell would do around them cut off."""
    for line in block.text.replace("\\\n", " ").splitlines():
        found = re.search(
            r"(?:^|&& |\| )(?:sudo )?((?:\$ )?(?:\.venv/bin/)?stagewatch [a-z-].*)", line
        )
        if found:
            command = OURS.sub("", found[1], count=1)
            yield shlex.split(re.split(r" [|>&]+ ", command)[0], comments=True)


SHOWN = [
    pytest.param(words, id=f"{block.place} {' '.join(words[:3])}")
    for block in BLOCKS
    if block.kind not in NO_SHELL and not block.generated
    for words in lines(block)
]


@pytest.mark.parametrize("words", SHOWN)
def test_every_command_that_is_shown_is_one(words, capsys):
    try:
        parser().parse_args(words)
    except SystemExit as end:
        pytest.fail(f"{' '.join(words)}\n{capsys.readouterr().err}", pytrace=bool(end.code is None))


def test_commands_are_found_in_blocks():
    assert len(SHOWN) > 40


def reached(words):
    """The parser that the first words lead to, and what is left of them."""
    at = parser()
    for place, word in enumerate(words):
        below = [each for each in at._actions if isinstance(each, argparse._SubParsersAction)]
        if not below or word not in below[0].choices:
            return at, words[place:]
        at = below[0].choices[word]
    return at, []


MENTIONED = sorted(
    {
        code
        for page, code in INLINE
        if OURS.match(code) and not page.startswith(("docs/reference/", "docs/decisions/0001"))
    }
)


@pytest.mark.parametrize("code", MENTIONED)
def test_every_command_within_the_text_has_its_options(code):
    words = shlex.split(OURS.sub("", code, count=1).replace("…", " "))

    at, rest = reached(words)

    assert at.prog != "stagewatch" or words[0].startswith("--")
    assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= set(
        at._option_string_actions
    )


def test_every_target_of_make_is_one():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = "\n".join(page.read_text() for page in PAGES)

    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", text, re.MULTILINE)) <= targets


def test_every_address_of_the_api_is_one():
    known = re.findall(r"`(/[^`]*)`", (ROOT / "docs" / "reference" / "api.md").read_text())
    shapes = [re.sub(r"\{[^}]+\}", "[^/?]+", path) for path in known]
    shown = {
        (page.name, found.rstrip("/."))
        for page in PAGES
        if page.parent.name != "decisions"
        for found in re.findall(r"(?<![\w.])/api/v1/[\w/{}.-]*", page.read_text())
    }

    unknown = {each for each in shown if not any(re.fullmatch(shape, each[1]) for shape in shapes)}

    assert unknown == set()
    assert len(shown) > 20


def test_every_variable_of_the_environment_is_a_setting_or_one_that_commands_read():
    settings = (ROOT / "docs" / "reference" / "settings.md").read_text()
    known = set(re.findall(r"`(STAGEWATCH_[A-Z0-9_]+)`", settings))
    known |= {"STAGEWATCH_TOKEN", "STAGEWATCH_URL"}  # of commands that ask a server
    text = "\n".join(page.read_text() for page in PAGES if page.parent.name != "reference")
    invented = set(
        re.findall(r"\$\{(?:env:)?(STAGEWATCH_[A-Z0-9_]+)\}", text)
    )  # by whoever copies it

    assert set(re.findall(r"STAGEWATCH_[A-Z0-9_]+", text)) - known <= invented
