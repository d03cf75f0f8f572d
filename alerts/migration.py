"""The version of the tables of alerts: what an earlier program wrote is taken over without loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlalchemy import inspect, text
from sqlalchemy.orm import Session

from domain.errors import StoreError

__all__ = ["VERSION", "migrate"]

VERSION = "2"


def migrate(session: Session, where: str) -> None:
    """Brings tables of an earlier version to ours, in one transaction; refuses those of a later."""
    found = session.scalar(text(f"{_MARK}{_locking(session)}"))
    if found is None:
        session.execute(text("INSERT INTO alert_meta VALUES ('version', :v)"), {"v": VERSION})
    while found is not None and found != VERSION:
        step = _STEPS.get(found)
        if step is None:
            raise StoreError(
                f"is of version {found}, and this program reads {VERSION}",
                where=f"state of alerts ({where})",
                remedy="Use the program that wrote it, or move the file away.",
            )
        found = step(session)
        session.execute(
            text("UPDATE alert_meta SET value = :v WHERE key = 'version'"), {"v": found}
        )
    session.commit()


_MARK = "SELECT value FROM alert_meta WHERE key = 'version'"


def _locking(session: Session) -> str:
    """So that of two processes that begin at once one waits for the other."""
    return " FOR UPDATE" if session.get_bind().dialect.name == "postgresql" else ""


def _second(session: Session) -> str:
    """Events have an author. The tables that are new have been made already."""
    columns = {each["name"] for each in inspect(session.connection()).get_columns("alert_event")}
    if "author" not in columns:
        session.execute(
            text("ALTER TABLE alert_event ADD COLUMN author VARCHAR(128) DEFAULT '' NOT NULL")
        )
    return "2"


_STEPS: Mapping[str, Callable[[Session], str]] = {"1": _second}
