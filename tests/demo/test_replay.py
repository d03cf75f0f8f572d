"""A recorded trace as traffic."""

import json
from itertools import islice

import pytest

from domain.errors import InputError
from stagewatch.demo.replay import arrivals, read_trace
from tests.paths import SHARED

ROWS = [(0.0, 100, 10), (250.0, 200, 20), (1000.0, 300, 30)]


def written(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_csv_is_read(tmp_path):
    path = written(tmp_path, "t.csv", "t_ms,isl,osl\n0,100,10\n250,200,20\n1000,300,30\n")

    assert read_trace(path) == ROWS


def test_json_lines_are_read_in_the_order_of_arrival(tmp_path):
    lines = [json.dumps({"t_ms": at, "isl": isl, "osl": osl}) for at, isl, osl in reversed(ROWS)]

    assert read_trace(written(tmp_path, "t.jsonl", "\n".join(lines))) == ROWS


def test_parquet_is_read(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    columns = dict(zip(("t_ms", "isl", "osl"), zip(*ROWS, strict=True), strict=True))
    parquet.write_table(
        pa.table({name: list(values) for name, values in columns.items()}),
        tmp_path / "t.parquet",
    )

    assert read_trace(tmp_path / "t.parquet") == ROWS


def test_azure_s_own_columns_are_understood(tmp_path):
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    )
    rows = read_trace(written(tmp_path, "azure.csv", text))

    assert rows[1][0] - rows[0][0] == pytest.approx(4314.6, abs=0.1)
    assert [row[1:] for row in rows] == [(374, 44), (396, 109)]


def test_mooncake_s_own_columns_are_understood(tmp_path):
    lines = '{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [1]}\n' * 2

    assert read_trace(written(tmp_path, "m.jsonl", lines)) == [(0.0, 9, 5)] * 2


def test_gaps_are_those_of_the_file_and_the_end_is_followed_by_the_beginning():
    first = list(islice(arrivals(ROWS), 7))

    assert [round(a.gap_s, 6) for a in first] == [0, 0.25, 0.75, 0.5, 0.25, 0.75, 0.5]
    assert [a.prompt_tokens for a in first] == [100, 200, 300, 100, 200, 300, 100]


def test_a_request_of_no_tokens_has_one(tmp_path):
    path = written(tmp_path, "t.csv", "t_ms,isl,osl\n0,0,0\n1,1,1\n")

    assert read_trace(path)[0] == (0.0, 1, 1)


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("t.csv", "t_ms,isl\n0,1\n1,2\n", "row 1: has no osl"),
        ("t.csv", "t_ms,isl,osl\n0,1,2\n1,x,2\n", "row 2: invalid literal"),
        ("t.csv", "t_ms,isl,osl\n0,1,2\n", "holds 1 requests"),
        ("t.jsonl", '{"t_ms": 0', "Expecting"),
        ("t.jsonl", "[]\n[]\n", "row 1"),
        ("t.txt", "", "is no format of request tables"),
    ],
)
def test_a_table_that_is_none_says_which_row_and_what_is_expected(tmp_path, name, text, complaint):
    path = written(tmp_path, name, text)

    with pytest.raises(InputError) as caught:
        read_trace(path)

    assert complaint in str(caught.value)
    assert str(path) in str(caught.value)
    assert "t_ms, isl and osl" in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        read_trace(tmp_path / "gone.csv")


@pytest.mark.skipif(
    not (SHARED / "data" / "traces").is_dir(), reason="the public traces are not beside us"
)
def test_a_real_trace_is_replayed_as_it_was():
    rows = read_trace(SHARED / "data" / "traces" / "azure2023_conv.parquet")

    assert len(rows) == 19_366
    assert sum(a.gap_s for a in islice(arrivals(rows), len(rows))) == pytest.approx(
        rows[-1][0] / 1000
    )
