"""Log lines: one per refusal, forged by nobody, drowned by nothing."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.log import LOGGER, RefusalLog, key_values, to_stderr


@given(st.text())
def test_a_sender_cannot_forge_a_second_line(text):
    assert len(key_values(problem=text, remedy="none").splitlines()) == 1


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("plain", "a=plain"),
        ("two words", 'a="two words"'),
        ("x=1", 'a="x=1"'),
        ('say "no"', r'a="say \"no\""'),
        ("", 'a=""'),
        (3.5, "a=3.5"),
        ("x" * 400, "a=" + '"' + "x" * 299 + '…"'),
    ],
)
def test_values_are_quoted_where_they_must_be(value, line):
    assert key_values(a=value) == line


def test_what_is_not_known_is_left_out():
    assert key_values(a=1, b=None, c=0) == "a=1 c=0"


class Clock:
    now_s = 0.0

    def __call__(self):
        return self.now_s


def test_a_flood_is_one_line_per_reason_and_interval(caplog):
    clock = Clock()
    log = RefusalLog(clock_s=clock)
    for _ in range(1000):
        log.refused("malformed", where="here")
    log.refused("too_large", where="here")
    clock.now_s = 10.0
    log.refused("malformed", where="here")

    assert caplog.messages == [
        "event=export_refused reason=malformed where=here",
        "event=export_refused reason=too_large where=here",
        "event=export_refused reason=malformed where=here suppressed=999",
    ]


def test_lines_go_to_standard_error_with_their_time_in_utc(capsys):
    root = logging.getLogger("stagewatch")
    before = root.handlers, root.level
    try:
        to_stderr()
        LOGGER.warning("event=test")
    finally:
        root.handlers, root.level = before

    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("at=2")
    assert err.endswith("Z level=WARNING logger=stagewatch.collector event=test\n")
