"""A chart as numbers: what is drawn, in UTC, and nothing that a spreadsheet would run."""

import csv
import io

import numpy as np
import pytest
from fastapi.testclient import TestClient

from dashboard.chart_csv import COLUMNS, chart_csv
from dashboard.figures import Band, Frame, Line, Mark, chart
from tests.dashboard.conftest import NOW_S
from tests.dashboard.serving import server

AT_MS = np.array([0.0, 60_000.0, 120_000.0])
FRAME = Frame(since_ms=0.0, until_ms=180_000.0, zone="UTC", zoom="")


def read(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    assert text.startswith(",".join(COLUMNS))
    return rows


def test_a_value_is_a_row_and_a_gap_is_none():
    line = Line(name="P99", at_ms=AT_MS, value=np.array([1.5, np.nan, 2.5]))
    rows = read(chart_csv(chart([line], [], frame=FRAME)))

    assert [(row["at"], row["series"], row["value"], row["unit"]) for row in rows] == [
        ("1970-01-01T00:00:00Z", "P99", "1.5", "s"),
        ("1970-01-01T00:02:00Z", "P99", "2.5", "s"),
    ]


def test_a_range_is_a_row_with_two_ends_and_no_value():
    band = Band(
        name="P99", since_ms=AT_MS[:2], until_ms=AT_MS[1:],
        low=np.array([1.0, 2.0]), high=np.array([3.0, 4.0]),
    )  # fmt: skip
    rows = read(chart_csv(chart([], [band], frame=FRAME)))

    assert [(row["value"], row["low"], row["high"]) for row in rows] == [
        ("", "1", "3"),
        ("", "2", "4"),
    ]
    assert rows[1]["until"] == "1970-01-01T00:02:00Z"


def test_what_only_marks_a_stretch_is_no_value():
    mark = Mark(since_ms=0.0, until_ms=60_000.0, label="not observed", hatched=True)

    assert read(chart_csv(chart([], [], frame=FRAME, marks=[mark]))) == []


@pytest.mark.parametrize("name", ["=HYPERLINK(1)", "+1", "-1", "@x"])
def test_a_name_that_would_be_a_formula_is_text(name):
    line = Line(name=name, at_ms=AT_MS, value=np.ones(3))

    assert {row["series"] for row in read(chart_csv(chart([line], [], frame=FRAME)))} == {
        f"'{name}"
    }


def test_every_chart_of_a_page_can_be_fetched_by_its_address(reader):
    with TestClient(server(reader, now=lambda: NOW_S)) as client:
        answer = client.get("/api/v1/charts/ttft.csv?page=/service/chat&from=now-15m")
        unknown = client.get("/api/v1/charts/typo.csv?page=/service/chat")

    assert answer.headers["content-type"].startswith("text/csv")
    assert "attachment" in answer.headers["content-disposition"]
    assert {row["series"] for row in read(answer.text)} == {"P99", "P50"}
    assert unknown.status_code == 404
