"""A recorded trace as traffic: arrivals and token counts of real users, over and over."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from domain.errors import InputError
from stagewatch.demo.traffic import Arrival

__all__ = ["arrivals", "read_trace"]

_NAMES = (
    ("t_ms", "timestamp", "TIMESTAMP"),
    ("isl", "input_length", "ContextTokens"),
    ("osl", "output_length", "GeneratedTokens"),
)
_REMEDY = "Give a .parquet, .csv or .jsonl with t_ms, isl and osl, such as the Azure traces."


def read_trace(path: Path) -> list[tuple[float, int, int]]:
    """The rows of a request table by arrival: milliseconds, prompt and output tokens.

    The column names of the Azure (`TIMESTAMP, ContextTokens, …`) and Mooncake traces
    (`timestamp, input_length, …`) are understood as they are.
    """
    try:
        rows = [_read(row, number) for number, row in enumerate(_rows(path), 1)]
    except (OSError, ValueError) as error:
        raise InputError(str(error), where=str(path), remedy=_REMEDY) from error
    if len(rows) < 2:
        raise InputError(f"holds {len(rows)} requests", where=str(path), remedy=_REMEDY)
    return sorted(rows, key=lambda row: row[0])


def arrivals(rows: list[tuple[float, int, int]]) -> Iterator[Arrival]:
    """The rows as arrivals, without an end: after the last comes the first, a mean gap later."""
    mean_gap_s = (rows[-1][0] - rows[0][0]) / 1000.0 / (len(rows) - 1)
    before_ms = rows[0][0]
    while True:
        for at_ms, prompt, output in rows:
            gap_s = (at_ms - before_ms) / 1000.0
            before_ms = at_ms
            yield Arrival(gap_s=gap_s, prompt_tokens=prompt, output_tokens=output)
        before_ms = rows[0][0] - max(mean_gap_s, 0.001) * 1000.0


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    match path.suffix.lower():
        case ".parquet":
            from pyarrow import parquet  # type: ignore[import-untyped]  # untyped  # noqa: PLC0415  # only who replays parquet pays for it

            rows: list[Mapping[str, Any]] = parquet.read_table(path).to_pylist()
            return rows
        case ".csv":
            return list(csv.DictReader(path.read_text().splitlines()))
        case ".jsonl" | ".json":
            return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    raise ValueError(f"{path.suffix or 'a file without an ending'} is no format of request tables")


def _read(row: Mapping[str, Any], number: int) -> tuple[float, int, int]:
    """One row; an error says which."""
    try:
        at, prompt, output = (_value(row, names) for names in _NAMES)
        return _at_ms(at), max(int(prompt), 1), max(int(output), 1)
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"row {number}: {error}") from error


def _value(row: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    for name in names:
        if row.get(name) not in (None, ""):
            return row[name]
    raise ValueError(f"has no {names[0]}")


def _at_ms(value: Any) -> float:
    """Milliseconds as a number, or the Azure traces' date and time."""
    if isinstance(value, str) and "-" in value[1:]:
        return datetime.fromisoformat(value[:26]).timestamp() * 1000.0
    return float(value)
