"""P99 over any 30 days for 1 and 500 series, a page's chart over 500, and 500 objectives' last minute.

The store holds what any 30 days need: day tiles, and finer ones around both ends. The floor beside
each figure is the bare fetch of the same rows from SQLite.
"""

from __future__ import annotations

import resource
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
from sqlalchemy import Connection

from collector import words
from collector.query import Selection, Window
from collector.reader import StoreReader
from collector.schema import TIERS_S
from collector.store import open_store
from domain.grid import CELLS, cells_of
from domain.indicator import LatencyIndicator
from domain.metric import METRICS

__all__ = ["main"]

_DAY_S = 86_400
_SINCE_S = 1_790_000_000 // _DAY_S * _DAY_S + 37_510  # 10:25:10, so that every tier is needed
_UNTIL_S = _SINCE_S + 30 * _DAY_S + 20  # and ends at 10:25:30
_SERIES = 500
_TTFT = METRICS["ttft"].number
_BLOBS = 64
_RUNS = 9


def main() -> int:
    """1 when a bar is missed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "telemetry.db"
        began_s = time.perf_counter()
        rows = _fill(path)
        print(f"{rows} rows for {_SERIES} series in {time.perf_counter() - began_s:.1f} s")
        with sqlite3.connect(path) as connection:
            fetch_s = _best(lambda: _fetch(connection))
        reader = StoreReader(path)
        missed = _report(reader, fetch_s)
        reader.close()
    return 1 if missed else 0


def _report(reader: StoreReader, fetch_s: float) -> int:
    window = Window(since_s=_SINCE_S, until_s=_UNTIL_S)
    hour = Window(since_s=_UNTIL_S - 3600, until_s=_UNTIL_S)
    one = (("replica", "r250"),)
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    asked: list[tuple[str, float, Callable[[], object]]] = [
        ("30 days, 1 series", 0.005, lambda: _p99(reader, Selection(window=window, where=one))),
        (
            "30 days, 500 series",
            0.5,
            lambda: _p99(reader, Selection(window=window, by=("replica",))),
        ),
        ("30 days, 500 series as one", 0.5, lambda: _p99(reader, Selection(window=window))),
        ("1 h by minute, 500 as one", 0.1, lambda: _p99(reader, Selection(window=hour, step_s=60))),
        ("last minute, 500 objectives", 1.0, lambda: _tick(reader)),
    ]
    missed = 0
    for name, bar_s, question in asked:
        took_s = _best(question)
        missed += took_s > bar_s
        verdict = "ok" if took_s <= bar_s else "MISSED"
        print(f"{name:30} {took_s * 1e3:8.2f} ms  bar {bar_s * 1e3:5.0f} ms  {verdict}")
        if name == "30 days, 500 series":
            print(f"{'':30} {took_s / fetch_s:8.2f} x the bare fetch of its rows")
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    print(f"{'memory grown by':30} {grown_kib / 1024:8.0f} MiB")
    return missed


def _p99(reader: StoreReader, selection: Selection) -> list[float]:
    found = [
        point.distribution.quantile(0.99)
        for series in reader.latency("ttft", selection)
        for point in series.points
    ]
    return [each.high_s for each in found if each is not None]


def _tick(reader: StoreReader) -> None:
    until_s = _UNTIL_S // 60 * 60
    window = Window(since_s=until_s - 60, until_s=until_s)
    for number in range(_SERIES):
        where = (("replica", f"r{number}"),)
        indicator = LatencyIndicator(metric="ttft", threshold_s=Fraction(3, 2), where=where)
        (found,) = reader.slices(indicator, window)
        assert found.total


def _fill(path: Path) -> int:
    """Tiles of a lognormal TTFT; 5 requests a second and series."""
    store = open_store(path)
    rng = np.random.default_rng(1)
    rows = 0
    with store.engine.begin() as connection:
        connection.exec_driver_sql(
            "INSERT INTO series VALUES (?, ?, ?)",
            [
                (
                    number + 1,
                    number.to_bytes(16, "big"),
                    f'[["replica","r{number}"],["service","chat"],["source","span"]]',
                )
                for number in range(_SERIES)
            ],
        )
        for tier_s in TIERS_S:
            blobs = [_blob(rng, 5 * tier_s) for _ in range(_BLOBS)]
            for at_s in _starts(tier_s):
                connection.exec_driver_sql(
                    f"INSERT INTO histogram_{tier_s} VALUES (?, ?, ?, ?, 0, ?, ?, x'', x'')",  # noqa: S608 - a table of ours
                    [
                        (
                            _TTFT,
                            at_s,
                            number + 1,
                            5 * tier_s,
                            tier_s * 10**9,
                            blobs[(at_s // tier_s + number) % _BLOBS],
                        )
                        for number in range(_SERIES)
                    ],
                )
                rows += _SERIES
            if tier_s > TIERS_S[0]:
                _fill_crowd(connection, tier_s, blobs)
    store.close()
    return rows


def _fill_crowd(connection: Connection, tier_s: int, blobs: list[bytes]) -> None:
    """All replicas together, as the roll-up leaves them."""
    whole = words.compact(b"".join(blobs[n % _BLOBS] for n in range(_SERIES)))
    n, sum_ns = 5 * tier_s * _SERIES, tier_s * _SERIES * 10**9
    connection.exec_driver_sql(
        f"INSERT INTO crowd_{tier_s} VALUES (?, ?, 1, ?, 0, ?, ?, x'', x'')",  # noqa: S608 - a table of ours
        [(_TTFT, at_s, n, sum_ns, whole) for at_s in _starts(tier_s)],
    )


def _starts(tier_s: int) -> list[int]:
    """Tiles near both ends of the window; of days, all."""
    reach_s = dict(zip(TIERS_S, (*TIERS_S[1:], 31 * _DAY_S), strict=True))[tier_s]
    ends = [
        (_SINCE_S, _SINCE_S + reach_s),
        (_UNTIL_S - max(reach_s, 3600 * (tier_s == 60)), _UNTIL_S),
    ]
    return sorted(
        {at for since, until in ends for at in range(since // tier_s * tier_s, until, tier_s)}
    )


def _blob(rng: np.random.Generator, n: int) -> bytes:
    sample = rng.lognormal(-1.0, 0.9, min(n, 20_000))
    counts = np.bincount(cells_of(sample), minlength=CELLS)
    return words.encode(counts * max(n // len(sample), 1))


def _fetch(connection: sqlite3.Connection) -> None:
    for tier_s in TIERS_S:
        cursor = connection.execute(
            f"SELECT at_s, series_id, n, failed, sum_ns, exact, low, high FROM histogram_{tier_s}"  # noqa: S608 - a table of ours
        )
        while cursor.fetchmany(2048):
            pass


def _best(question: Callable[[], object]) -> float:
    took_s = []
    for _ in range(_RUNS):
        began_s = time.perf_counter()
        question()
        took_s.append(time.perf_counter() - began_s)
    return min(took_s)


if __name__ == "__main__":
    sys.exit(main())
