"""A reading process from outside: started, listened to, ended, and abandoned if even that fails."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import IO, Any

from exporters.gpu.orders import Orders

__all__ = ["ReadingProcess"]

_LOG = logging.getLogger(__name__)
_CODE = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[2]);"
    " from exporters.gpu.worker import main; main(sys.argv[1])"
)
_LONGEST_LINE = 1 << 20


class ReadingProcess:
    """One process and the thread that hears it. It ends by itself when we do."""

    def __init__(self, orders: Orders, hear: Callable[[Mapping[str, Any]], None]) -> None:
        self.orders = orders
        self.last_word = ""
        """The driver's reason, if it said one before it ended."""
        self.heard_at_s = time.monotonic()
        self._hear = hear
        # why the path: the child finds us however this process did
        arguments = [json.dumps(asdict(orders)), json.dumps(sys.path)]
        self._process = subprocess.Popen(  # noqa: S603 - our own code
            [sys.executable, "-c", _CODE, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._thread = threading.Thread(target=self._listen, name="gpu readings", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None and not self._thread.is_alive()

    def end(self, within_s: float = 2.0) -> bool:
        """False when it cannot be ended: a process that hangs in the driver takes no signal."""
        self._hear = _to_nobody
        self._process.kill()
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        self._thread.join(within_s)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        return True

    def _listen(self) -> None:
        pipe: IO[bytes] | None = self._process.stdout
        while pipe is not None and (line := pipe.readline(_LONGEST_LINE)):
            self.heard_at_s = time.monotonic()
            try:
                message = json.loads(line)
            except ValueError:
                _LOG.warning("the reading process said something that is no message: %r", line[:80])
                continue
            if message["kind"] == "alive":
                continue
            if message["kind"] == "driver" and not message["up"]:
                self.last_word = str(message["reason"])
            self._hear(message)


def _to_nobody(_: Mapping[str, Any]) -> None:
    """What an ended process still says."""
