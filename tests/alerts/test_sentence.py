"""Sentences and files read back as what they were written from."""

from hypothesis import given
from hypothesis import strategies as st

from alerts.definition import load
from alerts.definition_codec import definition_from, definition_text, indicator_from, indicator_json
from alerts.phrase import Phrase, parse
from alerts.sentence import sentence
from alerts.writing import written
from domain.errors import ConfigError
from domain.objective import Objective
from tests.alerts.promises import definitions, indicators, objectives


@given(objectives())
def test_a_sentence_reads_back_as_the_objective_it_was_written_from(objective):
    parts = {name: getattr(objective, name) for name in Phrase.__slots__}

    assert parse(sentence(objective), at="f") == Phrase(**parts)


@given(definitions)
def test_a_file_reads_back_as_the_objectives_it_was_written_from(definition):
    assert load(written([definition])) == [definition]


@given(definitions)
def test_what_is_stored_reads_back_as_it_was(definition):
    assert definition_from(definition_text(definition)) == definition


@given(indicators)
def test_an_indicator_as_json_reads_back_as_it_was(indicator):
    assert indicator_from(indicator_json(indicator)) == indicator


WORDS = [
    "p99",
    "99%",
    "99.9%",
    "goodput",
    "no",
    "available",
    "ttft",
    "itl",
    "tpot",
    "kv_cache_usage",
    "generation_tokens",
    "<=",
    ">=",
    "1s",
    "500/s",
    "0.9",
    "and",
    "or",
    "engine",
    "stalled",
    "silent",
    "in",
    "of",
    "minutes",
    "over",
    "30d",
    "7d",
    "per",
    "calendar",
    "month",
    "at",
    "sagemaker",
    "bedrock",
    "EndpointName=a",
    "with",
    "failed",
    "invocations",
    "counted",
    "counting",
    "empty",
    "ones",
    "as",
    "good",
    "where",
    "pool=a",
    "Europe/Berlin",
    ",",
    "=",
    '"',
    "'",
]


@given(st.lists(st.sampled_from(WORDS), max_size=14).map(" ".join))
def test_words_in_any_order_are_a_promise_that_reads_back_or_one_clear_error(text):
    try:
        said = parse(text, at="f")
    except ConfigError as error:
        where, said = error.where, None
    else:
        where = "f"
    parts = said and {name: getattr(said, name) for name in Phrase.__slots__}

    assert where == "f"
    assert said is None or parse(sentence(Objective(name="a", **parts)), at="f") == said
