"""Pieces of our own work, told to whoever traces them; to nobody unless somebody was asked to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Protocol, Self

__all__ = ["Attributes", "Kind", "Piece", "Tracer", "Value", "own_work", "traced_by"]

Value = str | int | float | bool
Attributes = Mapping[str, Value]


class Kind(StrEnum):
    """On which side of a wire a piece of work is done, if on any."""

    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"


class Piece(Protocol):
    """What is being done."""

    def tell(self, name: str, value: Value) -> None:
        """Something that is known only now."""
        ...


class Tracer(Protocol):
    """Who is told."""

    def piece(
        self, name: str, kind: Kind, attributes: Attributes, *, quiet: bool
    ) -> AbstractContextManager[Piece]:
        """While the block lasts. `quiet`: nothing in it is to be told."""
        ...


class _Untold:
    """A piece that nobody hears of. It keeps nothing, so one is enough."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def tell(self, name: str, value: Value) -> None:
        del name, value


_UNTOLD = _Untold()
_NOTHING: Attributes = {}
_told: list[Tracer] = []


def own_work(
    name: str, attributes: Attributes = _NOTHING, kind: Kind = Kind.INTERNAL, *, quiet: bool = False
) -> AbstractContextManager[Piece]:
    """A piece of work: as long as its block. Without a tracer it costs less than a microsecond."""
    return _told[-1].piece(name, kind, attributes, quiet=quiet) if _told else _UNTOLD


@contextmanager
def traced_by(tracer: Tracer) -> Iterator[None]:
    """All pieces of this process are told to it until the block ends."""
    _told.append(tracer)
    try:
        yield
    finally:
        _told.remove(tracer)
