"""What others reported as changed: a table of the state, bounded, the same report kept once."""

from __future__ import annotations

import hashlib
import json

from sqlalchemy import Engine, String, Text, delete, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from alerts.change import Change
from alerts.tables import Base, writing
from domain.labels import Labels, labels_of

__all__ = ["MOST_KEPT", "ToldChangeRow", "ToldChanges"]

MOST_KEPT = 10_000
"""A pipeline run wild pushes out old reports, not the disk."""


class ToldChangeRow(Base):
    """One report, as it was taken."""

    __tablename__ = "told_change"
    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    at_s: Mapped[int] = mapped_column(index=True)
    kind: Mapped[str] = mapped_column(String(32))
    title: Mapped[str] = mapped_column(Text)
    labels: Mapped[str] = mapped_column(Text)
    link: Mapped[str] = mapped_column(Text)
    author: Mapped[str] = mapped_column(String(128))


class ToldChanges:
    """The reports of a state; any process may add and list."""

    def __init__(self, state: Engine, *, most: int = MOST_KEPT) -> None:
        self._state = state
        self._most = most

    def add(self, change: Change) -> tuple[Change, bool]:
        """As it is kept, and whether it is new: a pipeline that asks twice reports once."""
        row = ToldChangeRow(
            id=_id(change),
            at_s=change.at_s,
            kind=change.kind,
            title=change.title,
            labels=json.dumps(dict(change.labels)),
            link=change.link,
            author=change.author,
        )
        with writing(self._state) as session:
            known = session.get(ToldChangeRow, row.id)
            if known is None:
                session.add(row)
                session.flush()
                self._forget(session)
            kept = _change(known or row)
            session.commit()
        return kept, known is None

    def between(
        self, since_s: int, until_s: int, *, where: Labels = (), limit: int = 500
    ) -> list[Change]:
        """The newest of them, oldest first; one that names no service concerns all of them."""
        with Session(self._state) as session:
            rows = session.scalars(
                select(ToldChangeRow)
                .where(ToldChangeRow.at_s >= since_s, ToldChangeRow.at_s < until_s)
                .order_by(ToldChangeRow.at_s.desc(), ToldChangeRow.id)
            )
            found: list[Change] = []
            for change in map(_change, rows):
                if _concerns(change.labels, where):
                    found.append(change)
                if len(found) == limit:
                    break
        return found[::-1]

    def _forget(self, session: Session) -> None:
        """The oldest beyond the bound."""
        count = session.scalar(select(func.count()).select_from(ToldChangeRow)) or 0
        if count > self._most:
            oldest = (
                select(ToldChangeRow.id)
                .order_by(ToldChangeRow.at_s, ToldChangeRow.id)
                .limit(count - self._most)
            )
            session.execute(delete(ToldChangeRow).where(ToldChangeRow.id.in_(oldest)))


def _concerns(labels: Labels, where: Labels) -> bool:
    own = dict(labels)
    return all(own.get(name, value) == value for name, value in where)


def _change(row: ToldChangeRow) -> Change:
    return Change(
        id=row.id,
        at_s=row.at_s,
        kind=row.kind,
        title=row.title,
        labels=labels_of(json.loads(row.labels)),
        link=row.link,
        author=row.author,
    )


def _id(change: Change) -> str:
    """The same report has the same id, whoever sends it again."""
    parts = [change.at_s, change.kind, change.title, list(change.labels), change.link]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]
