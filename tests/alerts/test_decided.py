"""Which thresholds a source decides, and what is said of the others (SL6, SL13, W8, W9)."""

from fractions import Fraction

import pytest

from alerts.decided import decided
from alerts.definition import load
from collector.query import Window
from collector.reader import StoreReader
from tests.collector.storing import NOW_S, metrics, writing
from tests.collector.test_slices import page

T = int(NOW_S) // 60 * 60 - 600
WINDOW = Window(since_s=T - 60, until_s=T + 60)


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """Edges 1.0 and 2.5, and nothing known above the top edge of 10."""
    path = tmp_path_factory.mktemp("coarse")
    low = [0.7] * 985 + [1.0110] * 11 + [10.1] * 4
    high = [1.0] * 985 + [2.47] * 11 + [1e9] * 4
    with writing(path) as writer:
        writer.metrics(metrics(*page(low, high, T)))
        found = StoreReader(path, now=lambda: NOW_S)
        yield found
        found.close()


def told(reader, text):
    (definition,) = load(f"- {text}")
    return decided(reader, definition, WINDOW)


def test_a_threshold_between_two_edges_is_offered_both(reader):
    (line,) = told(reader, "p99 ttft <= 1.5s")

    assert line.startswith("note: the source of ttft <= 1.5s is coarse: it decides 1s and ")


def test_a_threshold_on_an_edge_needs_no_words(reader):
    assert told(reader, "p99 ttft <= 1s") == []


def test_beyond_the_top_edge_no_page_can_be_sure(reader):
    (line,) = told(reader, "p99 ttft <= 15s")

    assert line.startswith("warning: ttft <= 15s is beyond the top edge of its source, ")
    assert "no page can be sure there" in line


def test_each_limit_of_goodput_is_looked_at(reader):
    lines = told(reader, "goodput ttft <= 1.5s and tpot <= 50ms 99%")

    assert [line.split(" is coarse")[0].split(" there")[0] for line in lines] == [
        "note: the source of ttft <= 1.5s",
        "note: nobody has measured tpot",
    ]


@pytest.mark.parametrize("text", ["99% available", "no silent in 99% of minutes"])
def test_what_no_coarse_source_tells_needs_no_words(reader, text):
    assert told(reader, text) == []


def test_what_nobody_has_measured_is_said(reader):
    (line,) = told(reader, "p99 e2e <= 1s")

    assert line.startswith("note: nobody has measured e2e there")


def test_an_offered_threshold_is_decided(reader):
    (line,) = told(reader, "p99 ttft <= 1.5s")
    below, above = line.split("it decides ")[1].split(" exactly")[0].split(" and ")

    assert Fraction(below.removesuffix("s")) < Fraction(3, 2) < Fraction(above.removesuffix("s"))
    assert told(reader, f"p99 ttft <= {below}") == told(reader, f"p99 ttft <= {above}") == []
