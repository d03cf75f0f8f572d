"""The tables of alerts (SQLAlchemy ORM), on SQLite or PostgreSQL. Version 1.

State and outbox change in one transaction. A minute without a row was not observed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Engine,
    ForeignKey,
    Index,
    Integer,
    String,
    Text,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import ConnectionPoolEntry, StaticPool

from domain.errors import StoreError

__all__ = [
    "AlertEventRow",
    "AlertRow",
    "AttemptRow",
    "Base",
    "ConditionRow",
    "MetaRow",
    "MinuteRow",
    "OutboxRow",
    "PromiseRow",
    "RevisionRow",
    "RuleRow",
    "SeriesRow",
    "open_state",
    "writing",
]

_VERSION = "1"
_NUMBER = BigInteger().with_variant(Integer, "sqlite")  # why: SQLite numbers only INTEGER keys


class Base(DeclarativeBase):
    """What our tables have in common: integers are wide enough for instants."""

    type_annotation_map = {int: _NUMBER}  # noqa: RUF012 - SQLAlchemy's own way to say it


class MetaRow(Base):
    """The version of these tables, and the like."""

    __tablename__ = "alert_meta"
    key: Mapped[str] = mapped_column(String(64), primary_key=True)
    value: Mapped[str] = mapped_column(Text)


class SeriesRow(Base):
    """One indicator of one objective: what its minutes counted. A changed query is a new one."""

    __tablename__ = "slice_series"
    id: Mapped[int] = mapped_column(primary_key=True)
    objective_id: Mapped[str] = mapped_column(String(255), index=True)
    indicator: Mapped[str] = mapped_column(Text)


class RevisionRow(Base):
    """What an objective said from `since_s` on."""

    __tablename__ = "objective_revision"
    id: Mapped[int] = mapped_column(primary_key=True)
    objective_id: Mapped[str] = mapped_column(String(255), index=True)
    series_id: Mapped[int] = mapped_column(ForeignKey("slice_series.id"))
    since_s: Mapped[int]
    target: Mapped[str] = mapped_column(String(64))
    definition: Mapped[str] = mapped_column(Text)


class MinuteRow(Base):
    """One observed minute of one series."""

    __tablename__ = "minute_slice"
    __table_args__ = ({"sqlite_with_rowid": False},)
    series_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    minute_at_s: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    good_low: Mapped[int]
    good_high: Mapped[int]
    total: Mapped[int]
    excluded: Mapped[int]


class PromiseRow(Base):
    """How far an objective is evaluated, and how it stood then. Inactive: no longer promised."""

    __tablename__ = "objective_standing"
    objective_id: Mapped[str] = mapped_column(String(255), primary_key=True)
    active: Mapped[bool]
    revision_id: Mapped[int] = mapped_column(ForeignKey("objective_revision.id"))
    evaluated_until_s: Mapped[int]
    filled_from_s: Mapped[int]
    observed_at_s: Mapped[int | None]
    counted_since_s: Mapped[int | None]
    standing: Mapped[str] = mapped_column(Text)


class RuleRow(Base):
    """Where one rule of an objective stands (`alerts.state.Alert`)."""

    __tablename__ = "rule_state"
    objective_id: Mapped[str] = mapped_column(String(255), primary_key=True)
    rule: Mapped[str] = mapped_column(String(64), primary_key=True)
    status: Mapped[str] = mapped_column(String(16))
    since_s: Mapped[int | None]
    last_true_s: Mapped[int | None]
    stale: Mapped[bool]


class ConditionRow(Base):
    """Where the alert of one condition of one place stands, and the condition as last told."""

    __tablename__ = "condition_state"
    condition_id: Mapped[str] = mapped_column(String(128), primary_key=True)
    status: Mapped[str] = mapped_column(String(16))
    since_s: Mapped[int | None]
    last_true_s: Mapped[int | None]
    stale: Mapped[bool]
    condition: Mapped[str] = mapped_column(Text)


class AlertRow(Base):
    """One incident, from its first word to its last."""

    __tablename__ = "alert"
    __table_args__ = (Index("alert_by_key", "dedup_key", "started_at_s"),)
    id: Mapped[str] = mapped_column(String(320), primary_key=True)
    objective_id: Mapped[str] = mapped_column(String(255), index=True)
    objective_name: Mapped[str] = mapped_column(Text)
    tier: Mapped[str] = mapped_column(String(16))
    severity: Mapped[str] = mapped_column(String(16))
    dedup_key: Mapped[str] = mapped_column(String(64))
    started_at_s: Mapped[int]
    resolved_at_s: Mapped[int | None] = mapped_column(index=True)
    told: Mapped[bool]
    inhibited: Mapped[bool]
    stale: Mapped[bool]
    message: Mapped[str] = mapped_column(Text)
    why: Mapped[str] = mapped_column(Text)
    blame: Mapped[str] = mapped_column(Text)


class AlertEventRow(Base):
    """One thing that happened to an alert, in the words of that moment."""

    __tablename__ = "alert_event"
    id: Mapped[int] = mapped_column(primary_key=True)
    alert_id: Mapped[str] = mapped_column(ForeignKey("alert.id"), index=True)
    at_s: Mapped[int]
    event: Mapped[str] = mapped_column(String(32))
    text: Mapped[str] = mapped_column(Text)


class OutboxRow(Base):
    """One notification for one receiver. `key` is the same whenever it is sent again."""

    __tablename__ = "outbox"
    __table_args__ = (Index("outbox_open", "receiver", "done_at_s", "id"),)
    id: Mapped[int] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(String(64), unique=True)
    receiver: Mapped[str] = mapped_column(String(64))
    dedup_key: Mapped[str] = mapped_column(String(64))
    body: Mapped[str] = mapped_column(Text)
    created_at_s: Mapped[float]
    next_at_s: Mapped[float]
    attempts: Mapped[int]
    done_at_s: Mapped[float | None]
    outcome: Mapped[str] = mapped_column(String(16))


class AttemptRow(Base):
    """The delivery log: one attempt to deliver one notification."""

    __tablename__ = "delivery_attempt"
    id: Mapped[int] = mapped_column(primary_key=True)
    outbox_id: Mapped[int] = mapped_column(ForeignKey("outbox.id"), index=True)
    at_s: Mapped[float]
    outcome: Mapped[str] = mapped_column(String(16))
    detail: Mapped[str] = mapped_column(Text)


def open_state(url: str) -> Engine:
    """The state at a SQLAlchemy URL, its tables made where they are missing.

    On SQLite a transaction is on disk when `commit` returns (WAL, synchronous=FULL).
    """
    parsed = make_url(url)
    settings: dict[str, Any] = {}
    if parsed.get_backend_name() == "sqlite":
        if parsed.database in (None, "", ":memory:"):
            settings = {"poolclass": StaticPool}
        else:
            _make_folder(Path(str(parsed.database)).parent)
        settings["connect_args"] = {"check_same_thread": False, "timeout": 30}
    try:
        engine = create_engine(parsed, **settings)
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare)
            event.listen(engine, "begin", _begin)
        Base.metadata.create_all(engine)
        with writing(engine) as session:
            _check_version(session, str(parsed.database))
    except SQLAlchemyError as error:
        raise StoreError(
            f"cannot be opened: {error.__class__.__name__}",
            where=f"state of alerts ({parsed.render_as_string(hide_password=True)})",
            remedy="Check alerts.state_url, and that the directory can be written.",
        ) from error
    return engine


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"its folder cannot be made: {error.strerror}",
            where=f"state of alerts ({folder})",
            remedy="Choose a folder that may be written with `--data-dir`, or set alerts.state_url.",
        ) from error


def writing(engine: Engine) -> Session:
    """A session that will write: on SQLite it takes the lock first, so that it cannot lose it."""
    return Session(engine.execution_options(stagewatch_writes=True))


def _prepare(connection: Any, _: ConnectionPoolEntry) -> None:
    connection.isolation_level = None  # why: pysqlite's own BEGIN comes too late
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("stagewatch_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _check_version(session: Session, where: str) -> None:
    row = session.get(MetaRow, "version")
    if row is None:
        session.add(MetaRow(key="version", value=_VERSION))
        session.commit()
    elif row.value != _VERSION:
        raise StoreError(
            f"is of version {row.value}, and this program reads {_VERSION}",
            where=f"state of alerts ({where})",
            remedy="Use the program that wrote it, or move the file away.",
        )
