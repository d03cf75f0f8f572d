"""The store's file: SQLite in WAL mode through SQLAlchemy, its version, and its errors in plain words."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, select
from sqlalchemy.exc import DatabaseError
from sqlalchemy.pool import NullPool

from collector.schema import META, METADATA, VERSION
from domain.errors import StoreError

__all__ = ["FILE_NAME", "Store", "errors_of", "file_of", "open_store"]

FILE_NAME = "telemetry.db"
_PAGE_BYTES = 16_384  # measured: a quarter more rows per second than 4096
_BUSY_S = 5.0

_REASONS = (
    ("full", "the disk is full", "Free space or shorten `retention`; nothing was acknowledged."),
    ("locked", "another process is writing", "One collector owns a store: stop the other one."),
    ("readonly", "it may not be written", "Give this user write permission on it and its folder."),
    ("unable to open", "it cannot be opened", "Check that the folder exists and may be written."),
    ("not a database", "it is no SQLite database", "Point `data_dir` at another folder."),
    ("malformed", "it is damaged", "Move it away and start anew, or restore a copy."),
    ("disk i/o", "the disk fails", "Look at the disk; nothing was acknowledged."),
)


@dataclass(frozen=True, slots=True)
class Store:
    """An open store. `engine` writes: each of its transactions is `BEGIN IMMEDIATE`."""

    path: Path
    engine: Engine

    def close(self) -> None:
        self.engine.dispose()


def file_of(path: Path) -> Path:
    """The file of a store given by its file or its folder."""
    return path / FILE_NAME if path.is_dir() or not path.suffix else path


def open_store(path: Path, *, create: bool = True) -> Store:
    """Open a store, or make it; refuses one that an older or newer Stagewatch wrote."""
    file = file_of(path)
    if not create and not file.exists():
        raise StoreError(
            "there is no store here",
            where=str(file),
            remedy="Start `stagewatch up` or import something first, or check `--data-dir`.",
        )
    with errors_of(file):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"its folder cannot be made: {error.strerror}",
                where=str(file),
                remedy="Choose a folder that may be written with `--data-dir`.",
            ) from error
        engine = _engine(file)
        try:
            _check_version(engine, file)
        except BaseException:
            engine.dispose()
            raise
    return Store(file, engine)


@contextmanager
def errors_of(path: Path) -> Iterator[None]:
    """What SQLite complains of, as a `StoreError` that says the way out."""
    try:
        yield
    except DatabaseError as error:
        text = str(error.orig).lower()
        for word, problem, remedy in _REASONS:
            if word in text:
                raise StoreError(problem, where=str(path), remedy=remedy) from error
        raise


def _engine(file: Path) -> Engine:
    # why no pool: one writer holds one connection; a pool would keep files open behind its back
    engine = create_engine(
        f"sqlite:///{file}", poolclass=NullPool, connect_args={"timeout": _BUSY_S}
    )

    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # why: BEGIN is ours, and immediate
        for pragma in (
            f"page_size={_PAGE_BYTES}",
            "journal_mode=wal",
            "synchronous=normal",
            "cache_size=-65536",
            "wal_autocheckpoint=2000",
        ):
            connection.execute(f"pragma {pragma}")

    @event.listens_for(engine, "begin")
    def _begun(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _check_version(engine: Engine, file: Path) -> None:
    with engine.begin() as connection:
        METADATA.create_all(connection)
        found = connection.execute(select(META.c.value).where(META.c.key == "version")).scalar()
        if found is None:
            connection.execute(META.insert().values(key="version", value=str(VERSION)))
        elif found != str(VERSION):
            newer = found.isdigit() and int(found) > VERSION
            raise StoreError(
                f"it has version {found}, and this Stagewatch reads {VERSION}",
                where=str(file),
                remedy="Update Stagewatch, or point `data_dir` at another folder."
                if newer
                else "Move it away: a new store is made in its place; import what is still needed.",
            )
