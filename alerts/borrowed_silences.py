"""Silences that are given at an Alertmanager, honoured here for as long as they stand there.

Each becomes a silence of ours, with its author and reason, and an id made of receiver and id there.
What ends there ends here; what somebody ends here stays ended. No answer changes nothing.
"""

from __future__ import annotations

import hashlib
import json
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from alerts.loop import Loop
from alerts.matcher import Matcher, matchers_of
from alerts.receivers.attempt import Fate
from alerts.receivers.post import Door
from alerts.receivers.settings import AlertmanagerSettings
from alerts.silence import LONGEST_S, Silence
from alerts.tables import AlertRow, PromiseRow, RevisionRow, SilenceRow, writing
from domain.errors import InputError
from domain.labels import LABEL_NAMES

__all__ = ["BorrowedSilences", "silences_in"]

_LOG = logging.getLogger(__name__)
_MOST, _MOST_BYTES = 1000, 4 << 20
_CADENCE_S = 1.0
_AUTHOR, _REASON = 128, 1000
_RENEWED_S = 3600
_NAMED = frozenset(("alertname", "dedup_key", "severity", "tier", *LABEL_NAMES))
_ALL = matchers_of(("alertname=~.+",))
_OPERATORS = {(True, False): "=", (False, False): "!=", (True, True): "=~", (False, True): "!~"}
"""By `isEqual` and `isRegex`."""


class BorrowedSilences:
    """Asks every Alertmanager among the receivers whose silences are to be honoured."""

    def __init__(self, state: Engine, receivers: Sequence[object]) -> None:
        self._state = state
        self._asked = [
            _Asked(each)
            for each in receivers
            if isinstance(each, AlertmanagerSettings) and each.silences_every_s is not None
        ]
        self._loop = Loop("silences of Alertmanager", self.tick)

    def run(
        self,
        stop: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
        cadence_s: float = _CADENCE_S,
    ) -> None:
        """Until told to stop; at once where nothing is to be asked."""
        if not self._asked:
            return
        try:
            self._loop.run(stop, clock=clock, cadence_s=cadence_s)
        finally:
            self.close()

    def close(self) -> None:
        """Lets go of the connections."""
        for each in self._asked:
            each.door.close()

    def tick(self, now_s: float) -> None:
        """Asks those whose time it is."""
        for each in self._asked:
            if each.due(now_s):
                found = _answer(each, now_s)
                if found is not None:
                    self._take_over(each.settings, found, now_s)

    def _take_over(
        self, settings: AlertmanagerSettings, found: Mapping[str, Silence], now_s: float
    ) -> None:
        """Only what has changed is written."""
        with Session(self._state) as session:
            there = _about_us(session, found)
            if not _differs(session, settings, there, now_s):
                return
        with writing(self._state) as session, session.begin():
            for silence in there.values():
                _keep(session, silence)
            for row in _open(session, settings, now_s):
                if row.id not in there:
                    row.ended_at_s, row.ended_by = int(now_s), _there(settings)


class _Asked:
    """One Alertmanager, and when it was last asked."""

    def __init__(self, settings: AlertmanagerSettings) -> None:
        self.settings = settings
        self.door = Door(
            timeout_s=settings.timeout_s,
            allow_private=settings.allow_private,
            most_bytes=_MOST_BYTES,
        )
        self.at_s: float | None = None

    def due(self, now_s: float) -> bool:
        every_s = self.settings.silences_every_s or 0.0
        if self.at_s is not None and 0 <= now_s - self.at_s < every_s:
            return False
        self.at_s = now_s
        return True


def silences_in(
    text: str, settings: AlertmanagerSettings, *, now_s: float
) -> dict[str, Silence] | None:
    """Those that are or will be in force, by our id; None where the answer cannot be believed."""
    try:
        listed = [each for each in json.loads(text) if _stands(each)][:_MOST]
        read = [_read(each, settings, now_s) for each in listed]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        _LOG.warning("receiver %s: what Alertmanager answers are no silences", settings.name)
        return None
    return {each.id: each for each in read if each is not None}


def _answer(asked: _Asked, now_s: float) -> dict[str, Silence] | None:
    settings = asked.settings
    headers = {name: value.get_secret_value() for name, value in settings.headers.items()}
    headers |= {"Accept": "application/json", "Accept-Encoding": "identity"}
    target = f"{settings.url.get_secret_value().rstrip('/')}/api/v2/silences"
    answer = asked.door.get(target, headers, now_s=now_s)
    if answer.attempt.fate is not Fate.DELIVERED:
        _LOG.warning(
            "receiver %s: Alertmanager's silences: %s", settings.name, answer.attempt.detail
        )
        return None
    return silences_in(answer.text, settings, now_s=now_s)


def _stands(said: Mapping[str, Any]) -> bool:
    return said["status"]["state"] in ("active", "pending")


def _read(said: Mapping[str, Any], settings: AlertmanagerSettings, now_s: float) -> Silence | None:
    """None: it can never concern an alert of ours, or says what we cannot match."""
    try:
        matchers = _matchers(said["matchers"], settings)
    except InputError as error:
        _LOG.warning("receiver %s: a silence is left there: %s", settings.name, error)
        return None
    starts_at_s, ends_at_s = _instant_s(said["startsAt"]), _instant_s(said["endsAt"])
    if matchers is None or ends_at_s <= starts_at_s:
        return None
    who = str(said.get("createdBy") or "somebody").strip()[: _AUTHOR - 80]
    return Silence(
        id=_id(settings, str(said["id"])),
        author=f"{who} at {_there(settings)}",
        reason=str(said.get("comment") or "no reason given there").strip()[:_REASON],
        matchers=matchers,
        created_at_s=int(now_s),
        starts_at_s=starts_at_s,
        # why: it is renewed at each look, and outlives nobody who stops looking by more than that
        ends_at_s=min(ends_at_s, max(starts_at_s, int(now_s)) + LONGEST_S),
    )


def _matchers(
    said: Iterable[Mapping[str, Any]], settings: AlertmanagerSettings
) -> tuple[Matcher, ...] | None:
    """As they speak of our alerts. What every alert gets there is decided here; None: never."""
    kept = []
    for each in said:
        matcher = matchers_of((_written(each),))[0]
        always = settings.labels.get(matcher.name)
        if always is not None and matcher.name not in _NAMED:
            if not matcher.matches({matcher.name: always}):
                return None
        else:
            kept.append(matcher)
    return matchers_of(map(str, kept)) if kept else _ALL


def _written(said: Mapping[str, Any]) -> str:
    """`objective` there is what an objective is called; here that is `alertname`, too."""
    name = str(said["name"])
    name = "alertname" if name == "objective" else name
    operator = _OPERATORS[bool(said.get("isEqual", True)), bool(said["isRegex"])]
    value = str(said["value"])
    return f'{name}{operator}"{value}"'


def _about_us(session: Session, found: Mapping[str, Silence]) -> dict[str, Silence]:
    """Without those that name alerts or labels which are none of ours."""
    if not found:
        return {}
    names = set(session.scalars(select(AlertRow.objective_name).distinct()))
    labels = set(_NAMED)
    for text in session.scalars(
        select(RevisionRow.definition).join(PromiseRow, PromiseRow.revision_id == RevisionRow.id)
    ):
        said = json.loads(text)
        names.add(said["name"])
        labels |= set(said["labels"])
    return {each.id: each for each in found.values() if _may_match(each, names, labels)}


def _may_match(silence: Silence, names: set[str], labels: set[str]) -> bool:
    for each in silence.matchers:
        if each.name == "alertname":
            if not any(each.matches({"alertname": name}) for name in names):
                return False
        elif each.name not in labels and not each.matches({}):
            return False
    return True


def _differs(
    session: Session, settings: AlertmanagerSettings, there: Mapping[str, Silence], now_s: float
) -> bool:
    known = {row.id: row for row in _open(session, settings, now_s)}
    if known.keys() - there.keys():
        return True
    for silence in there.values():
        row = known.get(silence.id) or session.get(SilenceRow, silence.id)
        if row is None or _changed(row, silence):
            return True
    return False


def _changed(row: SilenceRow, silence: Silence) -> bool:
    """One of a month and more is renewed an hour at a time."""
    if row.ended_at_s is not None:
        return False
    later_s = silence.ends_at_s - row.ends_at_s
    cut = silence.ends_at_s == max(silence.starts_at_s, silence.created_at_s) + LONGEST_S
    same_end = 0 <= later_s < _RENEWED_S if cut else not later_s
    told = (row.author, row.reason, row.matchers, row.starts_at_s)
    return not same_end or told != (
        silence.author,
        silence.reason,
        _texts(silence),
        silence.starts_at_s,
    )


def _keep(session: Session, silence: Silence) -> None:
    row = session.get(SilenceRow, silence.id)
    if row is None:
        session.add(
            SilenceRow(
                id=silence.id,
                author=silence.author,
                reason=silence.reason,
                matchers=_texts(silence),
                created_at_s=silence.created_at_s,
                starts_at_s=silence.starts_at_s,
                ends_at_s=silence.ends_at_s,
                ended_at_s=None,
                ended_by="",
            )
        )
    elif _changed(row, silence):
        row.author, row.reason, row.matchers = silence.author, silence.reason, _texts(silence)
        row.starts_at_s, row.ends_at_s = silence.starts_at_s, silence.ends_at_s


def _open(session: Session, settings: AlertmanagerSettings, now_s: float) -> Sequence[SilenceRow]:
    return session.scalars(
        select(SilenceRow).where(
            SilenceRow.id.startswith(_id(settings, ""), autoescape=True),
            SilenceRow.ends_at_s > now_s,
            SilenceRow.ended_at_s.is_(None),
        )
    ).all()


def _id(settings: AlertmanagerSettings, there: str) -> str:
    """Of receiver and id there; of the receiver alone what all of its silences begin with."""
    of_receiver = hashlib.sha256(settings.name.encode()).hexdigest()[:8]
    own = hashlib.sha256(there.encode()).hexdigest()[:16] if there else ""
    return f"am-{of_receiver}-{own}"


def _there(settings: AlertmanagerSettings) -> str:
    return f"Alertmanager ({settings.name})"


def _texts(silence: Silence) -> str:
    return json.dumps([str(each) for each in silence.matchers])


def _instant_s(text: str) -> int:
    at = datetime.fromisoformat(text)
    return int(at.replace(tzinfo=at.tzinfo or UTC).timestamp())
