"""Who is looking: their zone, the address they came by, and the instant of their question."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from dashboard.url import View

__all__ = ["Viewer", "zone_of"]

_MAX_OFFSET_MIN = 14 * 60


def zone_of(name: object, offset_min: object) -> tzinfo:
    """The browser's zone by name, by its offset where we do not know the name, or UTC."""
    if isinstance(name, str) and name:
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass  # why: a browser may know newer zones than this machine; its offset will do
    if isinstance(offset_min, int) and abs(offset_min) <= _MAX_OFFSET_MIN:
        return timezone(timedelta(minutes=offset_min))
    return UTC


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """One reader at one instant. `may_act`: acknowledge and silence; who may not sees no buttons."""

    now_s: int
    zone: tzinfo = UTC
    prefix: str = "/"
    host: str = "localhost"
    may_act: bool = True

    @classmethod
    def from_browser(cls, told: Mapping[str, Any], *, now_s: int, prefix: str) -> Viewer:
        """What the browser says of itself; nothing of it is trusted further than text."""
        host = told.get("host")
        return cls(
            now_s=now_s,
            zone=zone_of(told.get("zone"), told.get("offset")),
            prefix=prefix,
            host=host if isinstance(host, str) and host else "localhost",
        )

    def href(self, view: View) -> str:
        """A link that works behind a path prefix."""
        return self.prefix.rstrip("/") + view.link()

    def address(self, path: str) -> str:
        """Where something that is no page lies."""
        return self.prefix.rstrip("/") + path

    def clock(self, at_s: int, *, seconds: bool = False) -> str:
        """The time of day in the reader's zone, with the date when it is not today."""
        at = datetime.fromtimestamp(at_s, self.zone)
        today = datetime.fromtimestamp(self.now_s, self.zone).date() == at.date()
        text = at.strftime("%H:%M:%S" if seconds else "%H:%M")
        return text if today else f"{at.day} {at.strftime('%b')} {text}"

    def utc(self, at_s: int) -> str:
        """The same instant as everybody else calls it."""
        return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

    def zone_word(self) -> str:
        """The zone and its distance from UTC: "Europe/Berlin (UTC+1)"."""
        name, offset = str(self.zone), self.offset_word()
        return f"{name} ({offset})" if isinstance(self.zone, ZoneInfo) and name != "UTC" else offset

    def offset_word(self) -> str:
        """As in "UTC+5:30": what the reader's clock shows more than UTC does now."""
        offset = datetime.fromtimestamp(self.now_s, self.zone).utcoffset() or timedelta()
        minutes = round(offset.total_seconds() / 60)
        hours, rest = divmod(abs(minutes), 60)
        if not minutes:
            return "UTC"
        return f"UTC{'+' if minutes > 0 else '−'}{hours}" + (f":{rest:02d}" if rest else "")

    def axis_ms(self, at_s: NDArray[np.float64]) -> NDArray[np.float64]:
        """Instants for a chart's axis. Plotly shows a number in the browser's zone, which is ours."""
        return np.asarray(at_s, np.float64) * 1000.0
