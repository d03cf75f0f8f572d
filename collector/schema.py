"""The tables of the telemetry store (SQLAlchemy Core), as they lie on disk. Version 3.

Tiles: one row per metric, tile start, series. `exact`, `low` and `high` are `collector.words`;
values of exact sources stand in `exact` only, those of coarse ones in `low` and `high` only, so
that rows merge by concatenation whatever they mix. The four tiers hold the same data, coarser.

Which tile may be read: values enter the finest tier that is still kept at their instant; in the
same transaction the coarser tiles around them are named in DIRTY. A tile that stands in DIRTY
(tier, metric, at_s) is out of date: treat it as absent and read the next finer tier in its place.
A tile that is not in DIRTY is complete, also when it has no row: then nothing was there. Below
the instant in META `cutoff:<tier>` a tier is retired and the next coarser one holds everything;
such a coarser tile is never dirty for want of finer ones. The 10 s tier is never dirty.

Tiles of a minute and more lie there twice: by series, and by crowd (`collector.crowds`), added up in
the same transaction. What holds for a tile of a series holds for that of its crowd.

Sums are whole nanoseconds, so that adding is exact and no order of arrival shows.

A segment holds legs that ended within one hour of the clock, in no particular order and never
twice. `collector.segment.decode` reads it. A failed leg counts 1 in `failed` of ttft, tpot, itl_max
and e2e of its series and gives no value there; a cancelled or rejected one gives nothing at all.
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
    "COUNTS",
    "COVERAGE",
    "CROWDS",
    "CUMULATIVE",
    "DIRTY",
    "ENDPOINT_POINT",
    "ENDPOINT_SERIES",
    "HISTOGRAMS",
    "META",
    "METADATA",
    "NUMBERS",
    "READINGS",
    "SEGMENT",
    "SERIES",
    "TIERS_S",
    "VERSION",
]

VERSION = 3
TIERS_S = (10, 60, 3600, 86_400)
METADATA = MetaData()

META = Table("meta", METADATA, Column("key", String, primary_key=True), Column("value", String))

# What the collector counted of itself since the store was made, by name: for the status page.
COUNTS = Table(
    "counts",
    METADATA,
    Column("name", String, primary_key=True),
    Column("value", Integer, nullable=False),
    sqlite_with_rowid=False,
)

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


def _histogram(name: str) -> Table:
    return _tile(
        name,
        Column("n", Integer, nullable=False),
        Column("failed", Integer, nullable=False),
        Column("sum_ns", Integer),  # NULL once a part had no sum to believe
        Column("exact", LargeBinary, nullable=False),
        Column("low", LargeBinary, nullable=False),
        Column("high", LargeBinary, nullable=False),
    )


HISTOGRAMS = {tier: _histogram(f"histogram_{tier}") for tier in TIERS_S}

# The same of crowds: `series_id` is the lowest number in the crowd.
CROWDS = {tier: _histogram(f"crowd_{tier}") for tier in TIERS_S[1:]}

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
    Column("stored_at_s", Integer, nullable=False),  # old files are kept from their import on
    Column("n", Integer, nullable=False),
    Column("columns", LargeBinary, nullable=False),
    Index("segment_by_end", "last_end_at_ns"),
)

# Which intervals of a delta stream are already counted: the ledger that makes points idempotent.
COVERAGE = Table(
    "coverage",
    METADATA,
    Column("at_s", Integer, primary_key=True, autoincrement=False),  # ten minutes
    Column("stream", LargeBinary, primary_key=True),  # blake2b-128 of metric, side and labels
    Column("intervals", LargeBinary, nullable=False),  # int64 pairs (start, end] in ns, merged
    sqlite_with_rowid=False,
)

# Which readings of a gauge are already counted.
READINGS = Table(
    "readings",
    METADATA,
    Column("at_s", Integer, primary_key=True, autoincrement=False),  # one minute
    Column("stream", LargeBinary, primary_key=True),
    Column("at_ns", LargeBinary, nullable=False),  # int64 instants
    sqlite_with_rowid=False,
)

# The last reading of a cumulative stream, from which the next one's increase is taken.
CUMULATIVE = Table(
    "cumulative",
    METADATA,
    Column("stream", LargeBinary, primary_key=True),
    Column("start_at_ns", Integer, nullable=False),
    Column("at_ns", Integer, nullable=False),
    Column("sum", Float),
    Column("counts", LargeBinary, nullable=False),  # int64 per bucket; empty for a counter
    sqlite_with_rowid=False,
)

# Managed endpoints as CloudWatch tells of them (`domain.endpoint`): a series, and its points.
ENDPOINT_SERIES = Table(
    "endpoint_series",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column(
        "key", LargeBinary, unique=True, nullable=False
    ),  # blake2b-128 of what follows up to name
    Column("account", String, nullable=False),
    Column("region", String, nullable=False),
    Column("namespace", String, nullable=False),
    Column("name", String, nullable=False),
    Column("dimensions", String, nullable=False),  # JSON: a sorted list of [name, value]
    Column("service", String, nullable=False),
    Column("ours", String, nullable=False),
    Column("unit", String, nullable=False),
    Column(
        "level", String, nullable=False
    ),  # `endpoint`, or the same traffic under more dimensions
)

# The last word on each period; `docs/decisions/0016`. No row: unknown.
ENDPOINT_POINT = Table(
    "endpoint_point",
    METADATA,
    Column("series_id", Integer, primary_key=True, autoincrement=False),
    Column("period_s", Integer, primary_key=True, autoincrement=False),
    Column("at_s", Integer, primary_key=True, autoincrement=False),
    Column("has_value", Integer, nullable=False),  # 0: settled, and nothing was published
    Column("statistics", String, nullable=False),  # JSON, in our units
    Column("settled_at_s", Float),  # NULL: it may still change
    Column("fetched_at_s", Float, nullable=False),
    Column("revision", Integer, nullable=False),  # 1, and one more for each time the value changed
    Column("source", String, nullable=False),
    Index("endpoint_point_by_time", "at_s"),
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
