"""What a translation between ways of writing objectives cannot carry, each with the way out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alerts.promise import Composite, Definition

__all__ = ["Loss", "Translated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """Something is said differently, or (`dropped`) an objective could not be said at all."""

    where: str
    what: str
    way_out: str
    dropped: bool = False

    def __str__(self) -> str:
        head = "left out" if self.dropped else "note"
        return f"{self.where}: {head}: {self.what}. {self.way_out}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """The objectives that could be said, and everything that could not."""

    definitions: Sequence[Definition]
    composites: Sequence[Composite] = ()
    losses: Sequence[Loss] = ()
