"""Matchers: what is written is what is matched, whole values, and no expression is too slow."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.matcher import Matcher, matcher_of, matchers_of
from domain.errors import InputError

NAMES = st.from_regex(r"[a-z_][a-z0-9_]{0,10}", fullmatch=True)
VALUES = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Zs", "Zl", "Zp"]), max_size=20
)


@given(NAMES, st.sampled_from(["=", "!="]), VALUES)
def test_a_matcher_reads_back_as_it_is_written(name, operator, value):
    matcher = Matcher(name=name, operator=operator, value=value)

    assert matcher_of(str(matcher)) == matcher


@given(NAMES, VALUES, VALUES)
def test_a_matcher_and_its_negation_never_agree(name, value, other):
    about = {name: other}

    assert matcher_of(f'{name}="{value}"').matches(about) is (value == other)
    assert matcher_of(f'{name}="{value}"').matches(about) is not matcher_of(
        f'{name}!="{value}"'
    ).matches(about)


@pytest.mark.parametrize(
    ("text", "value", "matches"),
    [
        ("a=x", "x", True),
        ("a=x", "", False),
        ("a=", "", True),
        ("a!=x", "", True),
        ("a=~x|y", "y", True),
        ("a=~x", "xx", False),
        ("a=~x.*", "xx", True),
        ("a!~x.*", "xx", False),
        ("a!~x.*", "", True),
        ('a="x y"', "x y", True),
        ("a=b=~c", "b=~c", True),
        ("a=~.*", "\ud800", True),
    ],
)
def test_values_are_matched_whole(text, value, matches):
    assert matcher_of(text).matches({"a": value} if value else {}) is matches


@pytest.mark.parametrize(
    "text", ["", "a", "=x", "1a=x", "a b=x", "a=~(", "a=~\\1", "a=" + "x" * 300]
)
def test_what_is_no_matcher_is_refused_with_an_example(text):
    with pytest.raises(InputError, match="Write `service=chat`"):
        matcher_of(text)


def test_the_same_matchers_in_another_order_are_the_same():
    assert matchers_of(["b=1", "a=1", "b=1"]) == matchers_of(["a=1", "b=1"])
    with pytest.raises(InputError, match="more than 20"):
        matchers_of([f"a{n}=x" for n in range(21)])


def test_an_expression_that_explodes_elsewhere_takes_no_time_here():
    matcher = matcher_of("a=~(a+)+$")
    begun_s = time.process_time()

    assert not matcher.matches({"a": "a" * 250 + "b"})
    assert time.process_time() - begun_s < 0.5
