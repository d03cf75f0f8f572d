"""A tick that is repeated until told to stop, and the word on whether it still does its work."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from domain.errors import StagewatchError

__all__ = ["Loop"]

_LOG = logging.getLogger(__name__)
_PATIENCE_S = 60.0


class Loop:
    """Runs a tick again and again. A tick that fails is logged and tried again.

    `problem` may be asked from any thread: a loop that has not finished a tick for a minute, or
    that has ended by itself, does not do its work.
    """

    def __init__(
        self,
        name: str,
        tick: Callable[[float], object],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._tick = tick
        self._monotonic = monotonic
        self._worked_s: float | None = None  # when it last did, or began
        self._ended = False
        self._error = ""

    def run(self, stop: threading.Event, *, clock: Callable[[], float], cadence_s: float) -> None:
        """Until told to stop."""
        self._worked_s = self._monotonic()
        try:
            while not stop.is_set():
                self.once(clock())
                stop.wait(cadence_s)
        finally:
            self._ended = not stop.is_set()

    def once(self, now_s: float) -> None:
        """One tick, whatever comes of it."""
        try:
            self._tick(now_s)
        except StagewatchError as error:  # its words say where, what and the way out
            _LOG.error("%s: a tick failed; it is tried again: %s", self._name, error)
            self._error = str(error)
        except Exception as error:  # noqa: BLE001 - why all: whatever it is, a loop that ended pages nobody
            _LOG.exception("%s: a tick failed; it is tried again", self._name)
            self._error = str(error) or type(error).__name__
        else:
            self._worked_s, self._error = self._monotonic(), ""

    def problem(self) -> str | None:
        """Why nothing comes of it now, or None. A loop that was never begun is no problem."""
        if self._worked_s is None:
            return None
        if self._ended:
            return f"the {self._name} has ended"
        idle_s = self._monotonic() - self._worked_s
        if idle_s <= _PATIENCE_S:
            return None
        why = f": {self._error}" if self._error else ""
        return f"the {self._name} has finished no tick for {idle_s:.0f} s{why}"
