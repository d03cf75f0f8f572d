"""An error says where, what, and the way out."""

import pytest

from domain.errors import ConfigError, InputError, StagewatchError, StoreError


@pytest.mark.parametrize("kind", [ConfigError, InputError, StoreError])
def test_an_error_reads_as_where_what_and_the_way_out(kind):
    error = kind("a target of 100 %", where="objective 'chat'", remedy="Use p99.")

    assert str(error) == "objective 'chat': a target of 100 %. Use p99."
    assert (error.problem, error.where, error.remedy) == (
        "a target of 100 %",
        "objective 'chat'",
        "Use p99.",
    )
    assert isinstance(error, StagewatchError)


def test_a_problem_that_ends_its_sentence_itself_gets_no_second_full_stop():
    error = InputError("refused. Is anything there?", where="http://a", remedy="Look.")

    assert str(error) == "http://a: refused. Is anything there? Look."
