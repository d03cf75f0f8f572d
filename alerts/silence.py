"""Silences: what nobody is to be told of for a while, by whom, why and until when.

A silence mutes triggers. The end of what somebody was told of always gets through, and what still
fires when its silence ends is told again (`alerts.caretaker`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from alerts.matcher import Matcher, matchers_of
from alerts.tables import SilenceRow, writing
from domain.errors import InputError
from domain.labels import Labels

__all__ = ["LONGEST_S", "Silence", "Silences", "Wish", "active", "first_covering", "subject"]

_DAY_S = 86_400
LONGEST_S = 30 * _DAY_S
"""A silence that nobody remembers hides the next outage too."""

_MOST_OPEN = 1000
_AUTHOR_LENGTH, _REASON_LENGTH = 128, 1000
_ANYBODY: tuple[dict[str, str], ...] = (
    {},
    dict.fromkeys(("objective", "severity", "tier"), "whatever it is called"),
)
"""Who is caught by no name: what catches one of these catches every alert."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A silence as it is asked for; made only if it can be one."""

    author: str
    reason: str
    matchers: tuple[Matcher, ...]
    starts_at_s: int
    ends_at_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A silence as it is kept. `ended_at_s`: somebody ended it before its time."""

    id: str
    author: str
    reason: str
    matchers: tuple[Matcher, ...]
    created_at_s: int
    starts_at_s: int
    ends_at_s: int
    ended_at_s: int | None = None
    ended_by: str = ""

    def state(self, at_s: float) -> str:
        """`pending`, `active` or `expired`."""
        if at_s >= self.ends_at_s or (self.ended_at_s is not None and at_s >= self.ended_at_s):
            return "expired"
        return "active" if at_s >= self.starts_at_s else "pending"

    def covers(self, about: Mapping[str, str]) -> bool:
        """Whether all its matchers match."""
        return all(each.matches(about) for each in self.matchers)


def subject(
    labels: Labels,
    *,
    objective_id: str,
    severity: str,
    tier: str,
    name: str = "",
    dedup_key: str = "",
) -> dict[str, str]:
    """What the matchers of a silence are held against; identity goes before labels.

    `alertname` and `dedup_key` are what an Alertmanager calls an alert of ours.
    """
    there = {"alertname": name or objective_id, "dedup_key": dedup_key}
    ours = {"objective": objective_id, "severity": severity, "tier": tier}
    return {**dict(labels), **there, **ours}


def first_covering(silences: Iterable[Silence], about: Mapping[str, str]) -> Silence | None:
    """Of those that cover it the one that ends last, so that its end is told once."""
    covers = [each for each in silences if each.covers(about)]
    return max(covers, key=lambda each: (each.ends_at_s, each.id), default=None)


def active(session: Session, at_s: float) -> list[Silence]:
    """The silences in force at an instant."""
    rows = session.scalars(
        select(SilenceRow).where(SilenceRow.starts_at_s <= at_s, SilenceRow.ends_at_s > at_s)
    )
    return [each for each in map(_silence, rows) if each.state(at_s) == "active"]


class Silences:
    """The silences of a state: asked for, listed, ended; any process may."""

    def __init__(self, state: Engine) -> None:
        self._state = state

    def all(self, *, at_s: float, limit: int = 200) -> Sequence[Silence]:
        """Those that are or will be in force first, then those that are over, newest first."""
        over = (SilenceRow.ends_at_s <= at_s) | (
            func.coalesce(SilenceRow.ended_at_s, at_s + 1) <= at_s
        )
        with Session(self._state) as session:
            rows = session.scalars(
                select(SilenceRow).order_by(over, SilenceRow.created_at_s.desc()).limit(limit)
            )
            return [_silence(row) for row in rows]

    def one(self, silence_id: str) -> Silence | None:
        with Session(self._state) as session:
            row = session.get(SilenceRow, silence_id)
            return None if row is None else _silence(row)

    def create(self, wish: Wish, *, at_s: int) -> Silence:
        """Keeps a silence; from now on if it was to begin in the past."""
        check(wish, at_s=at_s)
        silence = Silence(
            id=secrets.token_hex(8),
            author=wish.author.strip(),
            reason=wish.reason.strip(),
            matchers=wish.matchers,
            created_at_s=at_s,
            starts_at_s=max(wish.starts_at_s, at_s),
            ends_at_s=wish.ends_at_s,
        )
        with writing(self._state) as session, session.begin():
            still = session.scalar(
                select(func.count()).where(
                    SilenceRow.ends_at_s > at_s, SilenceRow.ended_at_s.is_(None)
                )
            )
            if (still or 0) >= _MOST_OPEN:
                raise InputError(
                    f"there are {_MOST_OPEN} already",
                    where="silence",
                    remedy="End some, or write one that matches more.",
                )
            session.add(_row(silence))
        return silence

    def end(self, silence_id: str, *, by: str, at_s: int) -> Silence | None:
        """Ends it now and keeps it; what has ended stays as it was. None: there is no such one."""
        with writing(self._state) as session, session.begin():
            row = session.get(SilenceRow, silence_id)
            if row is None:
                return None
            if _silence(row).state(at_s) != "expired":
                row.ended_at_s, row.ended_by = at_s, by[:_AUTHOR_LENGTH]
            return _silence(row)


def check(wish: Wish, *, at_s: int) -> None:
    """Refuses what cannot be a silence, or would silence everything."""
    problem, remedy = _problem(wish, at_s)
    if problem:
        raise InputError(problem, where="silence", remedy=remedy)


def _problem(wish: Wish, at_s: int) -> tuple[str, str]:
    """The first thing that is wrong, and the way out; empty where nothing is."""
    begins_s = max(wish.starts_at_s, at_s)
    everything = any(all(each.matches(about) for each in wish.matchers) for about in _ANYBODY)
    wrong = (
        (
            not 0 < len(wish.author.strip()) <= _AUTHOR_LENGTH,
            f"needs an author of at most {_AUTHOR_LENGTH} characters",
            "Say who asks for it.",
        ),
        (
            not 0 < len(wish.reason.strip()) <= _REASON_LENGTH,
            f"needs a reason of at most {_REASON_LENGTH} characters",
            "Say why; others will ask.",
        ),
        (not wish.matchers, "matches nothing", "Give matchers, such as `objective=chat`."),
        (everything, "would silence everything", "Give one matcher that names something."),
        (wish.ends_at_s <= begins_s, "ends before it begins", "Give an end in the future."),
        (
            wish.ends_at_s - begins_s > LONGEST_S,
            "lasts longer than 30 days",
            "Give an earlier end; switch off what shall never tell.",
        ),
        (
            begins_s - at_s > LONGEST_S,
            "begins more than 30 days from now",
            "Ask for it nearer to the time.",
        ),
    )
    return next(((said, remedy) for holds, said, remedy in wrong if holds), ("", ""))


def _row(silence: Silence) -> SilenceRow:
    return SilenceRow(
        id=silence.id,
        author=silence.author,
        reason=silence.reason,
        matchers=json.dumps([str(each) for each in silence.matchers]),
        created_at_s=silence.created_at_s,
        starts_at_s=silence.starts_at_s,
        ends_at_s=silence.ends_at_s,
        ended_at_s=silence.ended_at_s,
        ended_by=silence.ended_by,
    )


def _silence(row: SilenceRow) -> Silence:
    return Silence(
        id=row.id,
        author=row.author,
        reason=row.reason,
        matchers=matchers_of(json.loads(row.matchers)),
        created_at_s=row.created_at_s,
        starts_at_s=row.starts_at_s,
        ends_at_s=row.ends_at_s,
        ended_at_s=row.ended_at_s,
        ended_by=row.ended_by,
    )
