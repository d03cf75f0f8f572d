"""Every example of the page about objectives does what the page says."""

import re

import pytest

from alerts.definition import load_all
from alerts.meaning import meaning
from alerts.presets import PRESETS
from alerts.quantity import duration_text
from alerts.watching import WATCHING
from domain.errors import ConfigError
from tests.alerts.editor import marks
from tests.paths import ROOT

PAGE = (ROOT / "docs" / "write-an-objective.md").read_text()
EXAMPLES = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
SENTENCES = re.findall(
    r"^\| [^`|]+ \| `([^`]+)` \|$", PAGE.split("## What is refused")[0], re.MULTILINE
)
REFUSED = re.findall(r"^\| `([^`]+)` \|", PAGE.split("## What is refused")[1], re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_a_file_of_objectives(example):
    promises = load_all(example)

    assert promises.definitions
    assert all(meaning(each) for each in promises.definitions)


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_editor_marks_nothing_in_an_example(example):
    assert not marks(example)


@pytest.mark.parametrize("sentence", SENTENCES)
def test_every_kind_of_the_table_is_a_sentence(sentence):
    assert load_all(f"- {sentence}").definitions


def test_the_table_shows_all_seven_kinds():
    kinds = {type(load_all(f"- {s}").definitions[0].objective.indicator) for s in SENTENCES}

    assert len(kinds) == 7


def test_the_meaning_on_the_page_is_what_the_command_says():
    shown = PAGE.split("$ stagewatch slo validate objectives.yaml\n")[1].split("```")[0]

    assert "\n".join(meaning(load_all(EXAMPLES[0]).definitions[0])) == shown.strip()


@pytest.mark.parametrize("written", REFUSED)
def test_what_the_page_calls_refused_is(written):
    entry = f"{{phrase: p99 ttft <= 1s, {written}}}" if written.startswith("where:") else written

    with pytest.raises(ConfigError):
        load_all(f"- {entry}")


def test_the_mistake_on_the_page_is_answered_as_it_says():
    with pytest.raises(ConfigError) as caught:
        load_all("- p99 tftt <= 1s", name="wrong.yaml")

    assert str(caught.value) in PAGE


@pytest.mark.parametrize("preset", PRESETS.values(), ids=str)
def test_the_table_of_presets_is_that_of_the_code(preset):
    (row,) = re.findall(rf"^\| `{preset.name}` \| ([^|]*)\| ([^|]*)\|", PAGE, re.MULTILINE)
    said = [cell.replace(" ", "") for cell in row if cell.strip()]

    assert said == [duration_text(limit_s) for limit_s in preset.limits_s.values()]


def test_every_key_is_on_the_page():
    assert not [key for key in WATCHING if f"`{key}`" not in PAGE and f"  {key}:" not in PAGE]
