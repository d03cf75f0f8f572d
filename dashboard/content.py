"""What a page shows at one instant: regions and charts by name, which a refresh fills in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from dashboard.figures import Figure

__all__ = ["KEPT", "Content", "Recent"]

KEPT = frozenset({"acts", "form"})
"""Regions with fields for the reader: filled once, with the page, so that a refresh takes no text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The title of the tab, the children of the regions, the figures of the charts."""

    title: str
    regions: Mapping[str, Any]
    charts: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(slots=True)
class _Slot:
    """One answer, or the place where it is being made."""

    lock: Lock = field(default_factory=Lock)
    content: Content | None = None


class Recent:
    """Answers of the last few seconds: many viewers of one page cost as much as one."""

    def __init__(self, *, most: int = 64) -> None:
        self._lock = Lock()
        self._most = most
        self._slots: dict[object, _Slot] = {}

    def get(self, key: object, make: Callable[[], Content], *, anew: bool = False) -> Content:
        """The answer for a key; whoever asks while it is being made waits for it. `anew`: made now."""
        with self._lock:
            slot = (None if anew else self._slots.get(key)) or _Slot()
            self._slots.pop(key, None)
            self._slots[key] = slot
            while len(self._slots) > self._most:
                self._slots.pop(next(iter(self._slots)))
        with slot.lock:
            if slot.content is None:
                slot.content = make()
            return slot.content
