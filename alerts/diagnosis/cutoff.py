"""Cut-offs: answers that all end at a time limit somebody on the way has set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from alerts.diagnosis.facts import Aborted

__all__ = ["CUTOFFS", "Cutoff", "cut_at"]

_LEAST = 3
_DENSER = 20.0
_BESIDE_S = 3.0
_TIMEOUT = 504


@dataclass(frozen=True, slots=True, kw_only=True)
class Cutoff:
    """A limit: seen in durations, or in the silence before the end (`of_gap`)."""

    rule: str
    low_s: float
    high_s: float
    cause: str
    remedy: str
    of_gap: bool = False


CUTOFFS: Final = (
    Cutoff(
        rule="D1",
        low_s=28.5,
        high_s=29.6,
        cause="the integration timeout of API Gateway (29 s, buffered)",
        remedy="set responseTransferMode STREAM (REST, proxy integrations), raise timeoutInMillis,"
        " or answer asynchronously",
    ),
    Cutoff(
        rule="D2",
        low_s=29.5,
        high_s=31.0,
        cause="the idle timeout of an edge-optimised endpoint (30 s)",
        remedy="use a regional endpoint (idle about 5 min), or send heartbeat comments",
        of_gap=True,
    ),
    Cutoff(
        rule="D3",
        low_s=295.0,
        high_s=310.0,
        cause="the idle limit of a regional endpoint (5 min)",
        remedy="send heartbeats",
        of_gap=True,
    ),
    Cutoff(
        rule="D3",
        low_s=895.0,
        high_s=905.0,
        cause="the longest stream or Lambda (15 min)",
        remedy="use an asynchronous job",
    ),
)


def cut_at(aborted: Sequence[Aborted], cutoff: Cutoff) -> int:
    """How many ended there; 0 where they are few, or no denser than their neighbourhood."""
    values = [
        each.last_gap_s if cutoff.of_gap else each.duration_s for each in aborted if _timed(each)
    ]
    known = [value for value in values if value is not None]
    inside = sum(cutoff.low_s <= value <= cutoff.high_s for value in known)
    if inside < _LEAST:
        return 0
    beside = sum(
        cutoff.low_s - _BESIDE_S <= value < cutoff.low_s
        or cutoff.high_s < value <= cutoff.high_s + _BESIDE_S
        for value in known
    )
    density = inside / (cutoff.high_s - cutoff.low_s)
    return inside if density > _DENSER * beside / (2 * _BESIDE_S) else 0


def _timed(each: Aborted) -> bool:
    """A status that is told must be that of a timeout; one that is not told may be."""
    return each.status in (None, _TIMEOUT, 200)
