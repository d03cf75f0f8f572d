"""A period from a table of requests (.csv, .jsonl, .parquet), one row per request, rejected ones too.

Instants are seconds on one clock: `ts_arrival`, `t_prefill_start`, `t_prefill_end`, `t_join`,
`t_first`, `t_last`. Counts: `isl`, `cached`, `osl`. Who: `worker_p`, `worker_d`, and where told
`pool_p`, `pool_d`, `gpu_p`, `gpu_d`, `engine_version`. `status`: ok, failed, cancelled, rejected.
"""

from __future__ import annotations

import csv
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from domain.errors import InputError
from review.period import SECONDS, Kind, Period, Worker, period_of

__all__ = ["ROWS_MAX", "period_of_file", "period_of_rows"]

ROWS_MAX: Final = 20_000_000
_LINE_MAX: Final = 1 << 20
_INSTANTS: Final = dict(
    zip(SECONDS, ("t_prefill_start", "t_prefill_end", "t_join", "t_first", "t_last"), strict=True)
)
_COUNTS: Final = {"prompt_tokens": "isl", "cached_tokens": "cached", "output_tokens": "osl"}
_OUTCOMES: Final = {
    "": 0, "ok": 0, "200": 0, "failed": 1, "error": 1, "rejected": 1, "429": 1, "cancelled": 2,
}  # fmt: skip


def period_of_file(path: Path) -> Period:
    """The requests of a table; a suffix, row or value that cannot be is an error that names it."""
    readers = {".csv": _csv, ".jsonl": _json_lines, ".parquet": _parquet}
    if path.suffix not in readers:
        raise InputError(
            f"{path.suffix or 'no suffix'!r} is no kind of table",
            where=str(path),
            remedy=f"Use one of {', '.join(readers)}.",
        )
    return period_of_rows(readers[path.suffix](path), where=str(path))


def period_of_rows(rows: Iterable[Mapping[str, Any]], *, where: str) -> Period:
    """The same of rows already read. The period begins with the first arrival."""
    names = ("arrival_s", *_INSTANTS, *_COUNTS, "prefiller", "decoder", "outcome")
    table: dict[str, list[float]] = {name: [] for name in names}
    workers: dict[Worker, int] = {}
    left_out: Counter[str] = Counter()
    for number, row in enumerate(rows, 1):
        if number > ROWS_MAX:
            raise InputError(
                f"it has more than {ROWS_MAX} rows", where=where, remedy="Review a shorter period."
            )
        at_s = _number(row, "ts_arrival", where, number)
        if at_s is None:
            left_out["no arrival"] += 1
            continue
        _add(table, row, at_s, where=f"{where}, row {number}")
        table["prefiller"].append(_worker(workers, row, "prefill", "p"))
        table["decoder"].append(_worker(workers, row, "decode", "d"))
    if not table["arrival_s"]:
        raise InputError("it has no requests", where=where, remedy="Name the column `ts_arrival`.")
    arrival = np.array(table.pop("arrival_s"))
    since_s = float(arrival.min())
    columns = {name: np.array(column) for name, column in table.items()}
    return period_of(
        {"arrival_s": arrival - since_s, **columns},
        tuple(workers),
        since_s=since_s,
        length_s=float(arrival.max()) - since_s + 1.0,
        left_out=left_out,
    )


def _add(table: dict[str, list[float]], row: Mapping[str, Any], at_s: float, *, where: str) -> None:
    table["arrival_s"].append(at_s)
    for name, told in _INSTANTS.items():
        value = _number(row, told, where)
        table[name].append(math.nan if value is None else value - at_s)
    for name, told in _COUNTS.items():
        value = _number(row, told, where)
        table[name].append(-1 if value is None or not -1 <= value < 1 << 30 else int(value))
    status = str(row.get("status") or "").strip().lower()
    if status not in _OUTCOMES:
        raise InputError(
            f"status is {status[:40]!r}",
            where=where,
            remedy=f"Use one of {', '.join(filter(None, _OUTCOMES))}.",
        )
    table["outcome"].append(_OUTCOMES[status])


def _worker(workers: dict[Worker, int], row: Mapping[str, Any], role: str, end: str) -> int:
    name = _text(row, f"worker_{end}")
    if not name:
        return -1
    kind = Kind(
        role=role,
        gpu=_text(row, f"gpu_{end}"),
        engine_version=_text(row, "engine_version"),
        pool=_text(row, f"pool_{end}"),
    )
    return workers.setdefault(Worker(name=name, kind=kind), len(workers))


def _text(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return "" if value is None else str(value)[:256]


def _number(row: Mapping[str, Any], name: str, where: str, number: int = 0) -> float | None:
    """None where nothing stands; NaN and infinity are nothing."""
    value = row.get(name)
    if value is None or value == "":
        return None
    try:
        found = float(value)
    except (TypeError, ValueError):
        place = f"{where}, row {number}" if number else where
        raise InputError(
            f"{name} is {str(value)[:40]!r}, which is no number",
            where=place,
            remedy="Write seconds and counts as numbers, and leave out what is not known.",
        ) from None
    return found if math.isfinite(found) else None


def _csv(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _json_lines(path: Path) -> Iterator[Mapping[str, Any]]:
    with path.open(encoding="utf-8") as lines:
        for number in range(1, ROWS_MAX + 2):
            line = lines.readline(_LINE_MAX)
            if not line:
                return
            try:
                row = json.loads(line) if line.strip() else None
            except (ValueError, RecursionError) as error:
                row = error
            if row is not None and not isinstance(row, dict):
                raise InputError(
                    "it is no JSON object",
                    where=f"{path}, line {number}",
                    remedy="Write one request per line.",
                )
            if row is not None:
                yield row


def _parquet(path: Path) -> Iterator[Mapping[str, Any]]:
    from pyarrow import (  # type: ignore[import-untyped]  # noqa: PLC0415 - large; one format needs it
        ArrowInvalid,
    )
    from pyarrow.parquet import (  # type: ignore[import-untyped]  # noqa: PLC0415
        ParquetFile,
    )

    try:
        file = ParquetFile(path)
    except ArrowInvalid as error:
        raise InputError(
            f"it is no Parquet file: {error}", where=str(path), remedy="Check the file."
        ) from error
    with file:
        for batch in file.iter_batches():
            yield from batch.to_pylist()
