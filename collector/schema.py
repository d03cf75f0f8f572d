"""The tables of the telemetry store (SQLAlchemy Core), as they lie on disk. Version 1.

Tiles: one row per metric, tile start, series. `exact`, `low` and `high` are `collector.words`;
values of exact sources stand in `exact` only, those of coarse ones in `low` and `high` only, so
that rows merge by concatenation whatever they mix. The four tiers hold the same data, coarser.
"""

from sqlalchemy import (
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
)

__all__ = [
    "COVERAGE",
    "DIRTY",
    "HISTOGRAMS",
    "META",
    "METADATA",
    "NUMBERS",
    "SEGMENT",
    "SERIES",
    "TIERS_S",
    "VERSION",
]

VERSION = 1
TIERS_S = (10, 60, 3600, 86_400)
METADATA = MetaData()

META = Table("meta", METADATA, Column("key", String, primary_key=True), Column("value", String))

SERIES = Table(
    "series",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("key", LargeBinary, unique=True, nullable=False),  # blake2b-128 of the labels
    Column("labels", String, nullable=False),  # JSON: a sorted list of [name, value]
)


def _tile(name: str, *columns: Column[object]) -> Table:
    return Table(
        name,
        METADATA,
        Column("metric", Integer, primary_key=True, autoincrement=False),
        Column("at_s", Integer, primary_key=True, autoincrement=False),
        Column("series_id", Integer, primary_key=True, autoincrement=False),
        *columns,
        sqlite_with_rowid=False,
    )


HISTOGRAMS = {
    tier: _tile(
        f"histogram_{tier}",
        Column("n", Integer, nullable=False),
        Column("failed", Integer, nullable=False),
        Column("sum_s", Float),  # NULL once a part had no sum to believe
        Column("exact", LargeBinary, nullable=False),
        Column("low", LargeBinary, nullable=False),
        Column("high", LargeBinary, nullable=False),
    )
    for tier in TIERS_S
}

NUMBERS = {
    tier: _tile(
        f"number_{tier}",
        Column("n", Integer, nullable=False),  # readings
        Column("sum", Float, nullable=False),
        Column("low", Float, nullable=False),
        Column("high", Float, nullable=False),
        Column("last", Float, nullable=False),
        Column("last_at_ns", Integer, nullable=False),
    )
    for tier in TIERS_S
}

# Legs of requests (`domain.request.Leg`), columns of many in one row; what `collector.segment` reads.
SEGMENT = Table(
    "segment",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("first_end_at_ns", Integer, nullable=False),
    Column("last_end_at_ns", Integer, nullable=False),
    Column("n", Integer, nullable=False),
    Column("columns", LargeBinary, nullable=False),
    Index("segment_by_end", "last_end_at_ns"),
)

# Which intervals of a delta stream are already counted: the ledger that makes points idempotent.
COVERAGE = Table(
    "coverage",
    METADATA,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("stream", LargeBinary, primary_key=True),  # blake2b-128 of metric and labels
    Column("intervals", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

DIRTY = Table(
    "dirty",
    METADATA,
    Column("tier", Integer, primary_key=True, autoincrement=False),
    Column("metric", Integer, primary_key=True, autoincrement=False),
    Column("at_s", Integer, primary_key=True, autoincrement=False),
    sqlite_with_rowid=False,
)
