"""That nothing arrives any more: a banner on every live page, which must not look alive then."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from dash import html
from dash.development.base_component import Component

from collector.query import Reader, Window
from dashboard.parts import badge, clock, link
from dashboard.quantity import age
from dashboard.theme import State
from dashboard.url import STATUS, View
from dashboard.viewer import Viewer

__all__ = ["SILENT_S", "Unheard"]

SILENT_S = 90.0
_DAY_S = 86_400
_AHEAD_S = 60


@dataclass(slots=True)
class Unheard:
    """Asks now and then when anything was heard last; all viewers of all pages share the answer."""

    reader: Reader
    silent_s: float = SILENT_S
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _asked_at_s: int = 0
    _since_s: int | None = None

    def banner(self, view: View, viewer: Viewer) -> Component | None:
        """None while something arrives, where nothing ever did, and in a window of the past."""
        since_s = self._silent_since(viewer.now_s) if view.live else None
        if since_s is None:
            return None
        return html.P(
            [
                badge(State.NOT_OBSERVED, word="Nothing arrives any more"),
                f", for {age(viewer.now_s - since_s)}: what you see ends at ",
                clock(viewer, since_s, to_the_second=True),
                ". Look whether the collector runs and its senders reach it; ",
                link("how Stagewatch is", viewer.href(View(alone=STATUS))),
                ". This goes by itself when data arrive.",
            ],
            className="notice trouble",
        )

    def _silent_since(self, now_s: int) -> int | None:
        with self._lock:
            if abs(now_s - self._asked_at_s) >= min(self.silent_s / 4, 10):
                self._asked_at_s, self._since_s = now_s, self._ask(now_s)
            return self._since_s

    def _ask(self, now_s: int) -> int | None:
        """The newest of a day, if that is long ago. why twice: the short window is cheap to ask."""
        oldest_s = now_s - int(self.silent_s)
        newest_s = self._newest_s(oldest_s, now_s)
        if newest_s is None:
            newest_s = self._newest_s(now_s - _DAY_S, now_s)
        return None if newest_s is None or newest_s >= oldest_s else newest_s

    def _newest_s(self, since_s: int, now_s: int) -> int | None:
        window = Window(since_s=since_s, until_s=now_s + _AHEAD_S)
        found = (each.newest_at_s for each in self.reader.freshness(window))
        return max((at_s for at_s in found if at_s is not None), default=None)
