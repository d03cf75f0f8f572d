"""Log lines as key=value on standard error, and a log of refusals that no flood can drown."""

import json
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["LOGGER", "RefusalLog", "key_values", "to_stderr"]

LOGGER = logging.getLogger("stagewatch.collector")
_LONGEST = 300
_FORMAT = "at=%(asctime)s.%(msecs)03dZ level=%(levelname)s logger=%(name)s %(message)s"


def to_stderr(level: int = logging.INFO) -> None:
    """Send what the whole program logs to standard error, one line per record, in UTC."""
    handler = logging.StreamHandler(sys.stderr)
    handler.formatter = logging.Formatter(_FORMAT, "%Y-%m-%dT%H:%M:%S")
    handler.formatter.converter = time.gmtime
    root = logging.getLogger("stagewatch")
    root.handlers = [handler]
    root.setLevel(level)


def key_values(**fields: object) -> str:
    """Fields as one line: quoted where they need it, cut where they are long, None left out."""
    return " ".join(
        f"{name}={_quoted(value)}" for name, value in fields.items() if value is not None
    )


def _quoted(value: object) -> str:
    text = str(value)
    if len(text) > _LONGEST:
        text = text[: _LONGEST - 1] + "…"
    plain = text.isascii() and text.isprintable() and text and not set(text) & set(' "=\\')
    # why json: it escapes line breaks and control characters, so a sender cannot forge a line
    return text if plain else json.dumps(text, ensure_ascii=not text.isprintable())


@dataclass(slots=True)
class _Quiet:
    until_s: float
    suppressed: int = 0


class RefusalLog:
    """One line per reason and interval; the next line says how many were left out before it."""

    def __init__(
        self,
        logger: logging.Logger = LOGGER,
        *,
        interval_s: float = 10.0,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._logger = logger
        self._interval_s = interval_s
        self._clock_s = clock_s
        self._quiet: dict[str, _Quiet] = {}
        self._lock = threading.Lock()

    def refused(self, reason: str, *, event: str = "export_refused", **fields: object) -> None:
        """Say it, unless the same reason was logged just now."""
        with self._lock:
            now_s = self._clock_s()
            quiet = self._quiet.get(reason)
            if quiet is not None and now_s < quiet.until_s:
                quiet.suppressed += 1
                return
            suppressed = quiet.suppressed if quiet else 0
            self._quiet[reason] = _Quiet(until_s=now_s + self._interval_s)
        line = key_values(event=event, reason=reason, **fields, suppressed=suppressed or None)
        self._logger.warning("%s", line)
