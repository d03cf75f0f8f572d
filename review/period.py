"""The requests of a period as columns: what was asked, who served it, and when each stage ended.

NaN in a column of seconds means that nobody measured it, -1 among tokens and workers that nobody
told. Who was refused or failed is in it: demand is what arrived, never what came out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from domain.errors import InputError
from domain.leg import Outcome

__all__ = ["COLUMNS", "OUTCOMES", "SECONDS", "Kind", "Period", "Worker", "period_of"]

Floats = NDArray[np.float64]

OUTCOMES: Final = (Outcome.OK, Outcome.FAILED, Outcome.CANCELLED)
"""Kept by place. A request that was wrong itself (HTTP 4xx) loads nothing and is not in a period."""

SECONDS: Final = ("start_s", "prefilled_s", "joined_s", "first_s", "last_s")
"""Since arrival: prefill begins, prefill ends, decode takes it in, first token, last token."""

COLUMNS: Final[Mapping[str, Any]] = {
    "arrival_s": np.float64,
    "prompt_tokens": np.int32,
    "cached_tokens": np.int32,
    "output_tokens": np.int32,
    **dict.fromkeys(SECONDS, np.float64),
    "prefiller": np.int16,
    "decoder": np.int16,
    "outcome": np.uint8,
}
_CLOCKS_S: Final = 1e-3
_TOKENS_MAX: Final = 1 << 24
_DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Kind:
    """Workers that may share a curve: one role, pool, GPU type and engine version."""

    role: str  # prefill, decode, both
    gpu: str = ""
    engine_version: str = ""
    pool: str = ""

    def __str__(self) -> str:
        told = (self.pool, self.gpu, self.engine_version)
        return " ".join((self.role, *(each for each in told if each)))


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Worker:
    """One replica; `since_s` is when it started (seconds since 1970), where somebody told."""

    name: str
    kind: Kind
    since_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Period:
    """Requests in order of arrival. `since_s` is the instant from which `arrival_s` counts.

    `left_out` says of rows that are not in it, or of values taken from them, why.
    """

    since_s: float
    length_s: float
    workers: tuple[Worker, ...]
    arrival_s: Floats
    prompt_tokens: NDArray[np.int32]
    cached_tokens: NDArray[np.int32]
    output_tokens: NDArray[np.int32]
    start_s: Floats
    prefilled_s: Floats
    joined_s: Floats
    first_s: Floats
    last_s: Floats
    prefiller: NDArray[np.int16]
    decoder: NDArray[np.int16]
    outcome: NDArray[np.uint8]
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not 0 < self.length_s < float("inf"):
            raise ValueError(f"a period has a length, not {self.length_s} s")
        if any(len(getattr(self, name)) != len(self) for name in COLUMNS):
            raise ValueError("columns of a period are equally long")
        if len(self) and not (np.diff(self.arrival_s) >= 0).all():
            raise ValueError("requests of a period stand in order of arrival")

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def served(self) -> NDArray[np.bool_]:
        """Answered to the end, with a measured first and last token."""
        known = np.isfinite(self.first_s) & np.isfinite(self.last_s) & (self.output_tokens > 0)
        return np.asarray(known & (self.outcome == 0), np.bool_)

    @property
    def traced(self) -> NDArray[np.bool_]:
        """Served, with all the stages that calibration needs."""
        return self.served & np.isfinite(self.start_s) & np.isfinite(self.prefilled_s)

    @property
    def tpot_s(self) -> Floats:
        """Seconds per token after the first; NaN for one-token answers and the unmeasured."""
        gaps = np.where(self.output_tokens > 1, self.output_tokens - 1, np.nan)
        return np.asarray((self.last_s - self.first_s) / gaps, np.float64)

    @property
    def days(self) -> NDArray[np.int64]:
        """The day of the period in which each request arrived, from 0."""
        return np.asarray(self.arrival_s // _DAY_S, np.int64)

    @property
    def whole_days(self) -> int:
        return int(self.length_s // _DAY_S)

    def part(self, rows: Any) -> Period:
        """Some of the requests, on the same clock."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        return Period(**(told | {name: told[name][rows] for name in COLUMNS}))


def period_of(
    columns: Mapping[str, Any],
    workers: Sequence[Worker],
    *,
    since_s: float,
    length_s: float,
    left_out: Mapping[str, int] | None = None,
) -> Period:
    """Columns from outside, put in order; what cannot be is counted and taken out.

    Only `arrival_s` must be there. A stage that ends before the one before it by more than the
    clocks' tolerance was not measured.
    """
    arrival_s = np.asarray(columns["arrival_s"], np.float64)
    if not (np.isfinite(arrival_s).all() and (arrival_s >= 0).all()):
        raise InputError(
            "an arrival is no instant of the period",
            where="arrival_s",
            remedy="Leave out rows without an arrival.",
        )
    order = np.argsort(arrival_s, kind="stable")
    found = {name: _column(columns, name, len(arrival_s))[order] for name in COLUMNS}
    _check_workers(found, len(workers))
    counted = dict(left_out or {})
    for name, count in (("tokens that cannot be", _no_tokens(found)), ("clocks", _clocks(found))):
        if count:
            counted[name] = counted.get(name, 0) + count
    return Period(
        since_s=since_s, length_s=length_s, workers=tuple(workers), left_out=counted, **found
    )


def _column(columns: Mapping[str, Any], name: str, count: int) -> NDArray[Any]:
    kind = COLUMNS[name]
    told = columns.get(name)
    if told is None:
        absent = {"outcome": 0}.get(name, np.nan if kind is np.float64 else -1)
        return np.full(count, absent, kind)
    found = np.asarray(told)
    if len(found) != count:
        raise InputError(
            f"it has {len(found)} rows where arrivals are {count}",
            where=name,
            remedy="Give every column one value per request.",
        )
    return found.astype(kind)


def _check_workers(found: Mapping[str, NDArray[Any]], count: int) -> None:
    for name in ("prefiller", "decoder"):
        if len(found[name]) and not -1 <= found[name].min() <= found[name].max() < count:
            raise InputError(
                f"a worker stands there that is none of {count}",
                where=name,
                remedy="Use places in `workers`, -1 where it is not known.",
            )
    if len(found["outcome"]) and found["outcome"].max() >= len(OUTCOMES):
        raise InputError(
            "an outcome stands there that is none",
            where="outcome",
            remedy=f"Use 0 to {len(OUTCOMES) - 1} for {', '.join(OUTCOMES)}.",
        )


def _no_tokens(found: dict[str, NDArray[Any]]) -> int:
    """Counts that cannot be become unknown; what is cached is at most the prompt."""
    count = 0
    for name in ("prompt_tokens", "cached_tokens", "output_tokens"):
        column = found[name]
        wrong = (column < -1) | (column > _TOKENS_MAX) | ((column == 0) & (name == "prompt_tokens"))
        count += int(wrong.sum())
        column[wrong] = -1
    too_much = (found["cached_tokens"] > found["prompt_tokens"]) & (found["prompt_tokens"] > 0)
    found["cached_tokens"][too_much] = found["prompt_tokens"][too_much]
    return count + int(too_much.sum())


def _clocks(found: dict[str, NDArray[Any]]) -> int:
    """Stages that end before the one before them, or never, are not measured."""
    count = 0
    latest_s = np.zeros(len(found["arrival_s"]))
    for name in SECONDS:
        column = found[name]
        with np.errstate(invalid="ignore"):
            wrong = np.isinf(column) | (column < latest_s - _CLOCKS_S)
        count += int(wrong.sum())
        column[wrong] = np.nan
        latest_s = np.fmax(latest_s, np.fmax(column, latest_s))
        found[name] = np.where(np.isnan(column), column, latest_s)
    return count
