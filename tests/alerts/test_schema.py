"""The JSON Schema that editors use says what the reader takes."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from alerts.definition import load
from alerts.schema import schema, schema_text
from alerts.writing import written
from domain.errors import ConfigError
from tests.alerts.editor import marks
from tests.alerts.promises import definitions
from tests.alerts.test_definition import WRONG
from tests.paths import ROOT

SEEN_BY_AN_EDITOR = ("there is no key", "is no plain value", "is no selector", "holds no list")


def test_the_schema_is_the_reviewed_one_golden(golden):
    golden("../../docs/reference/objectives.schema.json", schema_text())


def test_the_schema_is_a_schema():
    Draft202012Validator.check_schema(schema())
    assert json.loads(schema_text()) == schema()


@given(st.lists(definitions, min_size=1, max_size=2))
def test_what_we_write_an_editor_takes(promised):
    assert not marks(written(promised))


@pytest.mark.parametrize(
    "text", [text for text, said in WRONG if any(part in said for part in SEEN_BY_AN_EDITOR)]
)
def test_what_has_a_wrong_shape_an_editor_marks_too(text):
    with pytest.raises(ConfigError):
        load(text)

    assert marks(text)


def test_the_file_is_where_the_page_says():
    page = (ROOT / "docs" / "write-an-objective.md").read_text()

    assert "reference/objectives.schema.json" in page
