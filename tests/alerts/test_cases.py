"""Each worked number and each case is held by a test that is there; `tests/scenarios/README.md`."""

import re

import pytest

from tests.paths import ROOT

TABLE = (ROOT / "tests" / "scenarios" / "README.md").read_text()
HELD = dict(re.findall(r"^\| ((?:W|SL)\d+) \| (.+) \|$", TABLE, re.MULTILINE))
NO_SUCH_NUMBER = {10, 16, 19, 22, 24, 26}


def test_no_worked_number_and_no_case_is_left_out():
    numbers = {f"W{each}" for each in range(1, 29) if each not in NO_SUCH_NUMBER}
    cases = {f"SL{each}" for each in range(1, 25)}

    assert HELD.keys() == numbers | cases


@pytest.mark.parametrize("case", HELD)
def test_what_holds_a_case_is_there(case):
    named = re.findall(r"`([^`]+)`", HELD[case])

    assert named
    for each in named:
        path, _, test = each.partition("::")
        assert f"def {test}(" in (ROOT / path).read_text() if test else (ROOT / path).is_file()
