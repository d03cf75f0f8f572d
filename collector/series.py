"""Series: sets of labels with a number each, as many as the settings allow and never more.

A label value beyond its limit is replaced by `other`, and so are all labels but service and source
of a series beyond the limit of series: the detail is lost and counted, the observation is not.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b

from sqlalchemy import Connection

from collector.crowds import Crowds
from collector.schema import SERIES
from domain.labels import Labels

__all__ = ["OTHER", "SeriesIds", "key_of"]

OTHER = "other"
_KEPT = ("service", "source")


def key_of(*parts: str) -> bytes:
    """16 bytes that stand for these words."""
    return blake2b("\0".join(parts).encode(), digest_size=16).digest()


class SeriesIds:
    """Labels to number and back. New ones are written by `save`, in the caller's transaction."""

    def __init__(self, *, max_series: int, max_label_values: int) -> None:
        self.labels: dict[int, Labels] = {}
        self.crowds = Crowds()
        self._ids: dict[Labels, int] = {}
        self._asked: dict[Labels, int] = {}
        self._values: dict[str, set[str]] = {}
        self._unsaved: list[tuple[int, bytes, str]] = []
        self._max_series = max_series
        self._max_label_values = max_label_values
        self._next = 0
        self._loaded = False

    def load(self, connection: Connection) -> None:
        """What the store knows; once, and after `forget`."""
        if self._loaded:
            return
        for number, text in connection.exec_driver_sql("SELECT id, labels FROM series ORDER BY id"):
            self._keep(number, tuple((name, value) for name, value in json.loads(text)))
        self._loaded = True

    def forget(self) -> None:
        """The transaction came to nothing: what it numbered is not in the store."""
        for known in (self.labels, self._ids, self._asked, self._values, self._unsaved):
            known.clear()
        self.crowds.forget()
        self._next = 0
        self._loaded = False

    @property
    def numbers(self) -> Mapping[Labels, int]:
        """Labels as they are kept to their number."""
        return self._ids

    def id_of(self, labels: Labels, counts: Counter[str]) -> int:
        """The number of a series, a new one if need be."""
        number = self._asked.get(labels)
        if number is None:
            bounded = self._bounded(labels)
            if bounded != labels:
                counts["bounded_labels_total"] += 1
            number = self._ids.get(bounded) or self._new(bounded)
            if len(self._asked) >= 2 * self._max_series:
                self._asked.clear()  # why: it is a cache of what senders say, which has no bound
            self._asked[labels] = number
        return number

    def save(self, connection: Connection) -> None:
        if self._unsaved:
            connection.exec_driver_sql(f"INSERT INTO {SERIES.name} VALUES (?, ?, ?)", self._unsaved)  # noqa: S608 - a table of ours
            self._unsaved = []

    def _bounded(self, labels: Labels) -> Labels:
        within = tuple(
            (name, value if self._admits(name, value) else OTHER) for name, value in labels
        )
        if len(self._ids) < self._max_series or within in self._ids:
            return within
        return tuple((name, value if name in _KEPT else OTHER) for name, value in within)

    def _admits(self, name: str, value: str) -> bool:
        values = self._values.setdefault(name, set())
        if value in values:
            return True
        return len(values) < self._max_label_values or value == OTHER

    def _new(self, labels: Labels) -> int:
        number = self._next = self._next + 1
        text = json.dumps(labels, ensure_ascii=False, separators=(",", ":"))
        self._unsaved.append((number, key_of(text), text))
        self._keep(number, labels)
        return number

    def _keep(self, number: int, labels: Labels) -> None:
        self.labels[number] = labels
        self.crowds.learn({number: labels})
        self._next = max(self._next, number)
        self._ids[labels] = number
        for name, value in labels:
            self._values.setdefault(name, set()).add(value)
