"""A sidecar within another process: what it can never do ends that process, a fault of ours does not."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from domain.errors import StagewatchError

__all__ = ["Companion"]

_LOG = logging.getLogger(__name__)
_AGAIN_S, _REMEMBERED_S = 5.0, 60.0


class Companion:
    """`failure` says why it cannot run here at all."""

    def __init__(self, name: str, run: Callable[[threading.Event], None]) -> None:
        self.failure: StagewatchError | None = None
        self._name, self._run = name, run
        self._fault = ""
        self._fault_at_s = 0.0

    def run(self, stop: threading.Event, asked: threading.Event, again_s: float = _AGAIN_S) -> None:
        """Until `stop`. `asked` is set where it cannot run: it must not be missing unnoticed."""
        while not stop.is_set():
            try:
                self._run(stop)
            except StagewatchError as error:
                self.failure = error
                asked.set()
                return
            except Exception as error:  # noqa: BLE001 - why all: the pager must outlive the sidecar
                _LOG.exception("a fault of ours in the %s, which begins anew", self._name)
                self._fault = str(error) or type(error).__name__
                self._fault_at_s = time.monotonic()
                stop.wait(again_s)

    def problem(self) -> str | None:
        """What ended it within the last minute, or None."""
        if not self._fault or time.monotonic() - self._fault_at_s > _REMEMBERED_S:
            return None
        return f"the {self._name} ended and began anew: {self._fault}"
