"""Replicas taken together: series that differ only in where they run are one crowd, with tiles of its own.

A question that names no replica reads the tiles of crowds: a row where replicas have hundreds. A
crowd is called by the lowest of its series' numbers, whose labels, but for the place, are its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from domain.labels import Labels

__all__ = ["Crowds", "names_a_place"]

_PLACE = frozenset(("replica", "node", "pod"))


class Crowds:
    """The crowd of each series, by numbers. Series are learnt in the order of their numbers."""

    def __init__(self) -> None:
        self.of: dict[int, int] = {}
        self._first: dict[Labels, int] = {}

    def learn(self, labels: Mapping[int, Labels]) -> None:
        """More series."""
        for number, own in labels.items():
            shared = tuple(pair for pair in own if pair[0] not in _PLACE)
            self.of[number] = self._first.setdefault(shared, number)

    def __len__(self) -> int:
        return len(self._first)

    def forget(self) -> None:
        self.of.clear()
        self._first.clear()


def names_a_place(names: Iterable[str]) -> bool:
    """Whether these labels tell replicas of one crowd apart."""
    return not _PLACE.isdisjoint(names)
