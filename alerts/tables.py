"""The tables of alerts (SQLAlchemy ORM), on SQLite or PostgreSQL. Version 2.

State and outbox change in one transaction. A minute without a row was not observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Engine,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    String,
    Text,
    create_engine,
    event,
    make_url,
    text,
)
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column
from sqlalchemy.pool import ConnectionPoolEntry, StaticPool

from alerts.migration import migrate
from domain.errors import StoreError

__all__ = [
    "AlertEventRow",
    "AlertRow",
    "AttemptRow",
    "Base",
    "ConditionRow",
    "EvidenceRow",
    "ExclusionRow",
    "LeaseRow",
    "MetaRow",
    "MinuteRow",
    "OutboxRow",
    "PromiseRow",
    "ReceiptRow",
    "ResetRow",
    "ResponseRow",
    "RevisionRow",
    "RuleRow",
    "SeriesRow",
    "SilenceRow",
    "ToldRow",
    "open_state",
    "writing",
]

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
    """One thing that happened to an alert, in the words of that moment. `author`: "" is ourselves."""

    __tablename__ = "alert_event"
    id: Mapped[int] = mapped_column(primary_key=True)
    alert_id: Mapped[str] = mapped_column(ForeignKey("alert.id"), index=True)
    at_s: Mapped[int]
    event: Mapped[str] = mapped_column(String(32))
    text: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(String(128), default="", server_default="")


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


class SilenceRow(Base):
    """Who asked for quiet about what, until when. It is ended early by a tombstone, never deleted."""

    __tablename__ = "silence"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    author: Mapped[str] = mapped_column(String(128))
    reason: Mapped[str] = mapped_column(Text)
    matchers: Mapped[str] = mapped_column(Text)
    created_at_s: Mapped[int]
    starts_at_s: Mapped[int]
    ends_at_s: Mapped[int] = mapped_column(index=True)
    ended_at_s: Mapped[int | None]
    ended_by: Mapped[str] = mapped_column(String(128))


class ResponseRow(Base):
    """What became of an alert among people: silenced, acknowledged, escalated so far.

    `body` is what was last told; `round` counts how often it was told anew; `waiting_since_s` is
    when the wait for an acknowledgement began, None while nobody is waited for.
    """

    __tablename__ = "alert_response"
    alert_id: Mapped[str] = mapped_column(ForeignKey("alert.id"), primary_key=True)
    labels: Mapped[str] = mapped_column(Text)
    receivers: Mapped[str] = mapped_column(Text)
    escalation: Mapped[str] = mapped_column(Text)
    body: Mapped[str] = mapped_column(Text)
    silence_id: Mapped[str | None] = mapped_column(String(32))
    round: Mapped[int]
    waiting_since_s: Mapped[int | None]
    steps: Mapped[int]
    acknowledged_at_s: Mapped[int | None]
    acknowledged_until_s: Mapped[int | None]
    acknowledged_by: Mapped[str] = mapped_column(String(128))
    note: Mapped[str] = mapped_column(Text)


class ToldRow(Base):
    """A receiver that knows of an alert, and so must hear of its end."""

    __tablename__ = "alert_told"
    alert_id: Mapped[str] = mapped_column(ForeignKey("alert.id"), primary_key=True)
    receiver: Mapped[str] = mapped_column(String(64), primary_key=True)
    at_s: Mapped[float]


class LeaseRow(Base):
    """Which process leads. `token` grows with every change of leader and fences the one before."""

    __tablename__ = "alert_lease"
    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    holder: Mapped[str] = mapped_column(String(128))
    token: Mapped[int]
    expires_s: Mapped[float]


class ResetRow(Base):
    """A budget that began anew at `at_s` because somebody said so. Nothing is deleted for it."""

    __tablename__ = "budget_reset"
    id: Mapped[int] = mapped_column(primary_key=True)
    objective_id: Mapped[str] = mapped_column(String(255), index=True)
    at_s: Mapped[int]
    author: Mapped[str] = mapped_column(String(128))
    reason: Mapped[str] = mapped_column(Text)
    remaining: Mapped[str] = mapped_column(String(64))


class ExclusionRow(Base):
    """Minutes [since, until) of one maintenance that cost no budget and raised no alert."""

    __tablename__ = "maintenance_exclusion"
    objective_id: Mapped[str] = mapped_column(String(255), primary_key=True)
    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    since_s: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    until_s: Mapped[int]
    reason: Mapped[str] = mapped_column(Text)


class EvidenceRow(Base):
    """The minutes on which an alert fired or ended: both windows of the rule that decided."""

    __tablename__ = "alert_evidence"
    alert_id: Mapped[str] = mapped_column(ForeignKey("alert.id"), primary_key=True)
    event: Mapped[str] = mapped_column(String(32), primary_key=True)
    at_s: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    rule: Mapped[str] = mapped_column(String(64))
    long_s: Mapped[int]
    short_s: Mapped[int]
    minutes: Mapped[bytes] = mapped_column(LargeBinary)


class ReceiptRow(Base):
    """What a receiver calls the message that told of an alert, so that it can be changed."""

    __tablename__ = "delivery_receipt"
    receiver: Mapped[str] = mapped_column(String(64), primary_key=True)
    alert_id: Mapped[str] = mapped_column(String(320), primary_key=True)
    receipt: Mapped[str] = mapped_column(Text)


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
    elif parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg")
        settings = {"pool_pre_ping": True, "connect_args": _PATIENCE}
    try:
        engine = create_engine(parsed, **settings)
        if engine.dialect.name == "sqlite":
            event.listen(engine, "connect", _prepare)
            event.listen(engine, "begin", _begin)
        with _alone(engine):
            Base.metadata.create_all(engine)
            with writing(engine) as session:
                migrate(session, str(parsed.database))
    except SQLAlchemyError as error:
        why = str(getattr(error, "orig", None) or type(error).__name__).partition("\n")[0]
        raise StoreError(
            f"cannot be opened: {why[:200]}",
            where=f"state of alerts ({parsed.render_as_string(hide_password=True)})",
            remedy="Check alerts.state_url, and that the directory can be written.",
        ) from error
    return engine


_PATIENCE = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    # why: a process that was stopped or cut off must not hold its locks against its successor
    "options": "-c idle_in_transaction_session_timeout=4000 -c lock_timeout=10000",
}
_OPENING = 7_239_041_517


@contextmanager
def _alone(engine: Engine) -> Iterator[None]:
    """On PostgreSQL one process at a time makes tables; SQLite sees to that itself."""
    if engine.dialect.name != "postgresql":
        yield
        return
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _OPENING})
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _OPENING})


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
