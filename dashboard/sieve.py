"""Which requests a reader wants to see, as it stands in the address bar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from domain.request import Outcome
from domain.request_columns import RequestColumns

__all__ = ["METRICS", "NEWEST", "SLOWEST", "Sieve"]

NEWEST = "newest"
SLOWEST = "slowest"
METRICS = (
    "ttft",
    "e2e",
    "tpot",
    "itl_max",
    "network",
    "overhead",
    "queue",
    "prefill",
    "kv_transfer",
    "decode",
)
"""What requests are compared by."""

_SECONDS = re.compile(r"\d{1,6}(?:\.\d{1,6})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sieve:
    """`over`: seconds of `metric` above which requests are kept, as text, empty for all of them."""

    status: str = ""
    metric: str = "ttft"
    over: str = ""
    order: str = SLOWEST

    def __post_init__(self) -> None:
        fits = self.metric in METRICS and self.order in (NEWEST, SLOWEST)
        if not fits or self.status not in ("", *Outcome) or self.over != _seconds(self.over):
            raise ValueError(f"no such choice of requests: {self}")

    @classmethod
    def from_query(cls, known: Mapping[str, str]) -> Self:
        """What is not understood is left out."""
        status, metric = known.get("status", ""), known.get("metric", "")
        return cls(
            status=status if status in tuple(Outcome) else "",
            metric=metric if metric in METRICS else "ttft",
            over=_seconds(known.get("over", "")),
            order=NEWEST if known.get("order") == NEWEST else SLOWEST,
        )

    def query(self) -> list[tuple[str, str]]:
        """Only what differs from the usual."""
        usual = Sieve()
        names = ("status", "metric", "over", "order")
        pairs = [(name, getattr(self, name)) for name in names]
        return [(name, value) for name, value in pairs if value != getattr(usual, name)]

    def rows(self, found: RequestColumns) -> NDArray[np.int64]:
        """The rows that pass, in the order that is asked for; what nobody measured is never slow."""
        value_s = found.values[self.metric]
        kept = np.ones(len(value_s), bool)
        if self.status:
            kept &= found.outcome == list(Outcome).index(Outcome(self.status))
        if self.over:
            kept &= value_s > float(self.over)
        rows = kept.nonzero()[0]
        if self.order == SLOWEST:
            rank = np.where(found.complete & ~np.isnan(value_s), value_s, -1.0)
            rows = rows[np.argsort(-rank[rows], kind="stable")]
        return rows.astype(np.int64)


def _seconds(text: str) -> str:
    """As it is written in a link: "0.5", "12"; empty where it is no number of seconds above 0."""
    if not _SECONDS.fullmatch(text):
        return ""
    plain = f"{float(text):.6f}".rstrip("0").rstrip(".")
    return plain if plain != "0" else ""
