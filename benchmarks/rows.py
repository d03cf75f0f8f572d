"""Rows through SQLAlchemy, as the collector writes them, against sqlite3's own executemany: >= 0.6."""

import gc
import sqlite3
import tempfile
import time
from pathlib import Path
from statistics import median

from collector.store import open_store

__all__ = ["main"]

_ROWS = 100_000
_PER_TRANSACTION = 5000
_ROUNDS = 9
_BAR = 0.6
_INSERT = "INSERT INTO number_10 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"


def rows() -> list[tuple[int, int, int, int, float, float, float, float, int]]:
    """Tiles of a gauge, as a busy hour has them."""
    return [(202, 10 * (n // 500), n % 500, 5, 7.5, 1.0, 2.0, 1.5, n * 10**9) for n in range(_ROWS)]


def parts(made: list[tuple[object, ...]]) -> list[list[tuple[object, ...]]]:
    return [made[at : at + _PER_TRANSACTION] for at in range(0, len(made), _PER_TRANSACTION)]


def through_sqlalchemy(folder: Path, made: list[tuple[object, ...]]) -> float:
    """CPU seconds to write them with the store's engine."""
    store = open_store(folder)
    since = time.process_time()
    with store.engine.connect() as connection:
        for part in parts(made):
            with connection.begin():
                connection.exec_driver_sql(_INSERT, part)
    took = time.process_time() - since
    store.close()
    return took


def raw(folder: Path, made: list[tuple[object, ...]]) -> float:
    """CPU seconds to write them with sqlite3 alone, same file format and same transactions."""
    store = open_store(folder)
    connection = sqlite3.connect(store.path, isolation_level=None)
    for pragma in ("synchronous=normal", "cache_size=-65536", "wal_autocheckpoint=2000"):
        connection.execute(f"pragma {pragma}")
    since = time.process_time()
    for part in parts(made):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(_INSERT, part)
        connection.execute("COMMIT")
    took = time.process_time() - since
    connection.close()
    store.close()
    return took


def main() -> int:
    made: list[tuple[object, ...]] = list(rows())
    ours, bare = [], []
    for _ in range(_ROUNDS):
        for times, write in ((bare, raw), (ours, through_sqlalchemy)):
            with tempfile.TemporaryDirectory() as folder:
                gc.collect()
                times.append(write(Path(folder), made))
    # why pair by pair: a shared machine changes its speed between rounds, hardly within one
    ratio = median(plain / mapped for plain, mapped in zip(bare, ours, strict=True))
    print(f"raw executemany {_ROWS / median(bare):12,.0f} rows/s")
    print(f"SQLAlchemy      {_ROWS / median(ours):12,.0f} rows/s")
    print(f"ratio {ratio:.2f}, bar {_BAR}: {'kept' if ratio >= _BAR else 'MISSED'}")
    return 0 if ratio >= _BAR else 1


if __name__ == "__main__":
    raise SystemExit(main())
