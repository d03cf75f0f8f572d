"""Leadership: of several processes on one state one judges and tells, and the others stand by.

On PostgreSQL the leader holds a lease, by the clock of the database, and renews it every second. A
change of leader raises the lease's token. Each writing transaction of a leader reads the token with
a lock that a change has to wait for (`fenced`): who was cut off, stopped or slept, and wakes up
after another has taken over, cannot commit. On SQLite a lock on a file lets one process in.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLong
from contextlib import suppress
from pathlib import Path
from typing import IO

from sqlalchemy import Engine, event, text
from sqlalchemy.engine import Connection
from sqlalchemy.exc import SQLAlchemyError

from domain.errors import StoreError

__all__ = ["DeposedError", "Leadership", "fenced"]

_LOG = logging.getLogger(__name__)
_FENCE = "stagewatch_fence"
_NAME = "alerts"
_NOW = "extract(epoch from clock_timestamp())"
_MADE = text(
    "INSERT INTO alert_lease (name, holder, token, expires_s) VALUES (:name, '', 0, 0) "
    "ON CONFLICT (name) DO NOTHING"
)
_FREE = text(f"SELECT token FROM alert_lease WHERE name = :name AND expires_s < {_NOW}")  # noqa: S608 - our own words
_LOCKED = text(f"{_FREE.text} FOR UPDATE")
_TAKEN = text(
    f"UPDATE alert_lease SET holder = :holder, token = token + 1, expires_s = {_NOW} + :lasts_s "  # noqa: S608 - the same
    "WHERE name = :name RETURNING token"
)
_RENEWED = text(
    f"UPDATE alert_lease SET expires_s = {_NOW} + :lasts_s "  # noqa: S608 - the same
    "WHERE name = :name AND token = :token RETURNING token"
)
_ENDED = text("UPDATE alert_lease SET expires_s = 0 WHERE name = :name AND token = :token")
_HELD = "SELECT token FROM alert_lease WHERE name = 'alerts' FOR KEY SHARE"


class DeposedError(StoreError):
    """Another process leads now; what this one wanted to write is not written."""


def fenced(state: Engine, token: int) -> Engine:
    """The same state, but its writing transactions need this token to be the lease's."""
    if not event.contains(state, "begin", _check):
        event.listen(state, "begin", _check)
    return state.execution_options(**{_FENCE: token})


def _check(connection: Connection) -> None:
    options = connection.get_execution_options()
    token = options.get(_FENCE)
    if token is None or not options.get("stagewatch_writes", False):
        return
    held = connection.exec_driver_sql(_HELD).scalar()
    if held != token:
        raise DeposedError(
            f"another process leads since (token {held}, ours is {token})",
            where="state of alerts",
            remedy="This process stands by; nothing is lost.",
        )


class Leadership:
    """Waits for the lead, and lets `govern` work while this process has it.

    `govern(state)` begins the work on a state that is fenced and returns what ends it.
    """

    def __init__(
        self,
        state: Engine,
        *,
        lasts_s: float = 5.0,
        cadence_s: float = 1.0,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state = state
        self._lasts_s, self._cadence_s = lasts_s, cadence_s
        self._monotonic = monotonic
        self._holder = f"{socket.gethostname()}:{os.getpid()}"
        self._end: Callable[[], None] | None = None
        self._token = 0
        self._renewed_s = 0.0
        self._error = ""
        self._tries = ThreadPoolExecutor(1, thread_name_prefix="lease")
        self._try: Future[int | None] | None = None
        self._lock = None if self._shared else _locked(state)

    @property
    def leads(self) -> bool:
        """Whether this process judges and tells now."""
        return self._end is not None

    @property
    def _shared(self) -> bool:
        return self._state.dialect.name == "postgresql"

    def problem(self) -> str | None:
        """Why nobody may lead, as far as this process can tell."""
        return f"the lease on alerts cannot be read: {self._error}" if self._error else None

    def run(self, stop: threading.Event, govern: Callable[[Engine], Callable[[], None]]) -> None:
        """Until told to stop; then another may lead at once."""
        try:
            while not stop.is_set():
                self._look(govern)
                stop.wait(self._cadence_s)
        finally:
            self._resign()
            if self._shared and self._token:
                self._give_up()

    def close(self) -> None:
        """Lets go of the file, and of what hangs."""
        self._tries.shutdown(wait=False, cancel_futures=True)
        if self._lock is not None:
            self._lock.close()

    def _look(self, govern: Callable[[Engine], Callable[[], None]]) -> None:
        token = self._sought() if self._shared else 1
        if token is not None and not self.leads:
            _LOG.info("this process leads the alerts (token %s)", token)
            state = fenced(self._state, token) if self._shared else self._state
            self._end = govern(state)
        elif token is None:
            self._resign()

    def _sought(self) -> int | None:
        """Our token while we lead; None: another does, or nobody can be asked for too long."""
        began_s = self._monotonic()
        if self._try is None:
            self._try = self._tries.submit(self._renew if self.leads else self._take)
        try:
            token = self._try.result(timeout=self._cadence_s)
        except TooLong:
            return self._unsure("no answer")
        except SQLAlchemyError as error:
            self._try = None
            return self._unsure(type(error).__name__)
        self._try, self._error = None, ""
        if token is not None:
            self._token, self._renewed_s = token, began_s
        return token

    def _unsure(self, why: str) -> int | None:
        """We lead on as long as nobody else can have begun to."""
        left_s = self._lasts_s - self._cadence_s - (self._monotonic() - self._renewed_s)
        if self.leads and left_s > 0:
            return self._token
        if not self._error:
            _LOG.warning("the lease on alerts cannot be read: %s", why)
        self._error = why
        return None

    def _take(self) -> int | None:
        """The token of a new lease, if the last one has run out."""
        about = {"name": _NAME, "holder": self._holder, "lasts_s": self._lasts_s}
        with self._state.connect() as connection:
            connection.execute(_MADE, about)
            connection.commit()
            if connection.scalar(_FREE, about) is None:
                return None
            connection.commit()
            if connection.scalar(_LOCKED, about) is None:
                return None
            token = connection.scalar(_TAKEN, about)
            connection.commit()
        return None if token is None else int(token)

    def _renew(self) -> int | None:
        about = {"name": _NAME, "token": self._token, "lasts_s": self._lasts_s}
        with self._state.begin() as connection:
            token = connection.scalar(_RENEWED, about)
        return None if token is None else int(token)

    def _give_up(self) -> None:
        def end() -> None:
            with self._state.begin() as connection:
                connection.execute(_ENDED, {"name": _NAME, "token": self._token})

        with suppress(TooLong, SQLAlchemyError, RuntimeError):  # it runs out by itself
            self._tries.submit(end).result(timeout=self._cadence_s)

    def _resign(self) -> None:
        if self._end is not None:
            end, self._end = self._end, None
            _LOG.info("this process leads the alerts no longer")
            end()


def _locked(state: Engine) -> IO[str] | None:
    """The lock on a state in a file, held until it is closed or the process is gone."""
    database = state.url.database
    if database in (None, "", ":memory:"):
        return None
    path = Path(f"{database}.lock")
    file = path.open("a+", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.seek(0)
        holder = file.read(64).strip() or "another process"
        file.close()
        raise StoreError(
            f"{holder} evaluates it already",
            where=f"state of alerts ({database})",
            remedy="End that process, or set alerts.state_url to a PostgreSQL that both may share.",
        ) from error
    file.truncate(0)
    file.write(f"process {os.getpid()}")
    file.flush()
    return file
