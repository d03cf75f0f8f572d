"""Families of samples as Prometheus knows them, before they are a page or a remote-write request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from domain.labels import Labels

__all__ = ["Exemplar", "Family", "Kind", "Sample"]


class Kind(StrEnum):
    """The two kinds that are told here."""

    COUNTER = "counter"
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemplar:
    """One request that a number counts, by its trace."""

    trace_id: str
    value: float
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One number. What is not known is no sample. `at_s`: of when it is, if not of now."""

    labels: Labels
    value: float
    at_s: float | None = None
    exemplar: Exemplar | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All samples of one name; a counter's name ends in `_total`."""

    name: str
    help: str
    kind: Kind = Kind.GAUGE
    samples: Sequence[Sample] = field(default=())
