"""Tables of requests from outside: every kind gives the same period, and errors name the place."""

import csv
import json

import numpy as np
import pytest

from domain.errors import InputError
from review.files import period_of_file, period_of_rows
from review.load import load_of

ROWS = [
    {"ts_arrival": 100.5, "isl": 900, "cached": 100, "osl": 20, "worker_p": "p0", "worker_d": "d0",
     "gpu_p": "H100", "t_prefill_start": 100.6, "t_prefill_end": 100.7, "t_join": 100.72,
     "t_first": 100.74, "t_last": 101.0, "status": "ok"},
    {"ts_arrival": 100.0, "isl": 500, "status": "rejected"},
    {"ts_arrival": 103.0, "isl": 700, "osl": 5, "status": "cancelled"},
]  # fmt: skip


def written(folder, suffix):
    path = folder / f"week{suffix}"
    if suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n")
    elif suffix == ".csv":
        with path.open("w", newline="") as file:
            table = csv.DictWriter(file, list(ROWS[0]))
            table.writeheader()
            table.writerows(ROWS)
    else:
        import pyarrow as pa
        from pyarrow.parquet import write_table

        write_table(pa.Table.from_pylist(ROWS, pa.schema(_fields(pa))), path)
    return path


def _fields(pa):
    texts = {"worker_p", "worker_d", "gpu_p", "status"}
    return [(name, pa.string() if name in texts else pa.float64()) for name in ROWS[0]]


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_table_of_any_kind_gives_the_same_period(tmp_path, suffix):
    period = period_of_file(written(tmp_path, suffix))

    assert period.since_s == 100
    assert period.arrival_s.tolist() == [0, 0.5, 3]
    assert period.outcome.tolist() == [1, 0, 2]
    assert period.served.tolist() == [False, True, False]
    assert period.first_s[1] == pytest.approx(0.24)
    assert np.isnan(period.first_s[0])
    assert str(period.workers[period.prefiller[1]].kind) == "prefill H100"


def test_refused_requests_are_demand_with_answers_like_the_others(tmp_path):
    load = load_of(period_of_file(written(tmp_path, ".jsonl")))

    assert len(load) == 3
    assert load.drawn == 1
    assert set(load.output_tokens.tolist()) <= {5, 20}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "it has no requests"),
        ([{"ts_arrival": "noon"}], "row 1: ts_arrival is 'noon', which is no number"),
        ([{"ts_arrival": 1}, {"ts_arrival": 2, "osl": []}], "row 2: osl is"),
        ([{"ts_arrival": 1, "status": "teapot"}], "status is 'teapot'"),
        ([{"isl": 4}], "it has no requests"),
    ],
)
def test_rows_that_cannot_be_are_errors_that_name_them(rows, says):
    with pytest.raises(InputError) as error:
        period_of_rows(rows, where="week")

    assert says in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("week.xls", b"", "is no kind of table"),
        ("week.jsonl", b"[1]\n", "line 1: it is no JSON object"),
        ("week.jsonl", b"[" * 100_000, "line 1: it is no JSON object"),
        ("week.parquet", b"PAR0", "it is no Parquet file"),
    ],
)
def test_files_that_are_no_tables_are_errors_that_say_so(tmp_path, name, content, says):
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(InputError) as error:
        period_of_file(path)

    assert says in str(error.value)


def test_tokens_and_instants_that_cannot_be_are_unknown():
    period = period_of_rows(
        [{"ts_arrival": 1.0, "isl": 1e300, "osl": -7, "t_first": float("inf"), "t_last": 0.2}],
        where="week",
    )

    assert period.prompt_tokens.tolist() == [-1]
    assert period.output_tokens.tolist() == [-1]
    assert np.isnan([period.first_s[0], period.last_s[0]]).all()
