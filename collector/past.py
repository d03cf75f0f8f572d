"""What is over is added up once: until something comes for it all the same, which the writer says.

The writer keeps in META up to when the past is over (ten minutes ago), and counts the transactions
that wrote into it nevertheless. Both stand in the transaction of the values themselves, so what is
remembered under that count is what the store would give. Readers remember sums of tiles, below any
question: what differs between two questions stands in the key.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sized
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sqlalchemy import Connection

from domain.slice import MINUTE_S

__all__ = ["OVER_S", "STRIDE_S", "Ending", "Past"]

OVER_S = 600
STRIDE_S = 300
"""The past grows in these strides, so that what is remembered serves for some minutes."""

_CLOSED, _LATE = "closed_s", "late"

Found = TypeVar("Found", bound=Sized)


@dataclass(slots=True)
class Ending:
    """The writer's side."""

    closed_s: int = 0
    late: int = 0
    _loaded: bool = False

    def load(self, connection: Connection) -> None:
        if self._loaded:
            return
        rows = connection.exec_driver_sql(
            "SELECT key, value FROM meta WHERE key IN (?, ?)", (_CLOSED, _LATE)
        )
        found = {key: int(value) for key, value in rows}
        self.closed_s, self.late = found.get(_CLOSED, 0), found.get(_LATE, 0)
        self._loaded = True

    def forget(self) -> None:
        self._loaded = False

    def note(self, connection: Connection, oldest_s: int | None, *, now_s: float) -> None:
        """What a transaction wrote begins at `oldest_s`."""
        late = self.late + (oldest_s is not None and oldest_s < self.closed_s)
        closed_s = max(self.closed_s, int(now_s - OVER_S) // MINUTE_S * MINUTE_S)
        if (late, closed_s) != (self.late, self.closed_s):
            self.late, self.closed_s = late, closed_s
            connection.exec_driver_sql(
                "INSERT OR REPLACE INTO meta VALUES (?, ?), (?, ?)",
                (_CLOSED, str(closed_s), _LATE, str(late)),
            )


@dataclass(slots=True)
class Past:
    """The readers' side: sums by what they are of, the last ones asked for, `most` things in all."""

    most: int = 20_000
    _known: OrderedDict[Hashable, tuple[Hashable, Any]] = field(default_factory=OrderedDict)
    _held: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Hashable, version: Hashable, make: Callable[[], Found]) -> Found:
        """What was found under this version; made anew otherwise."""
        with self._lock:
            known = self._known.get(key)
            if known is not None and known[0] == version:
                self._known.move_to_end(key)
                found: Found = known[1]
                return found
        found = make()
        with self._lock:
            before = self._known.pop(key, None)
            self._held += len(found) + 1 - (len(before[1]) + 1 if before is not None else 0)
            self._known[key] = version, found
            while self._held > self.most:
                self._held -= len(self._known.popitem(last=False)[1][1]) + 1
        return found
