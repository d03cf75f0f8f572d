"""A leg: what one process saw of a request, as its span says it.

Durations of a leg come from one clock. Instants of two legs come from two, which may disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from domain.labels import Labels

__all__ = [
    "ALONE",
    "CLOCK_TOLERANCE_S",
    "ENGINES",
    "SECOND_NS",
    "SLICES",
    "Leg",
    "LegKind",
    "Outcome",
    "difference_s",
    "first",
    "rest_s",
    "sum_s",
]

T = TypeVar("T")

SECOND_NS = 1_000_000_000

CLOCK_TOLERANCE_S = 0.001
"""Two clocks that tick at slightly different speeds may disagree by this much on one duration."""

ALONE = b"\xff" * 8
"""In place of a parent: a client known by its trace only (a line of a load client's table).

Nobody's parent id can lead to it, and whatever else is in the trace happened on its behalf."""


class LegKind(StrEnum):
    """Who saw it. Stored by place: new ones go to the end."""

    CLIENT = "client"  # the user's side
    SERVER = "server"  # a whole engine
    PREFILL = "prefill"  # one half of a disaggregated pair
    DECODE = "decode"  # the other
    FRONTEND = "frontend"  # a gateway that users talk to, engines behind it
    LINK = "link"  # tells nothing but who is above whom
    QUEUE_SLICE = "queue_slice"  # a piece of the leg above it: waiting
    PREFILL_SLICE = "prefill_slice"  # filling
    TRANSFER_SLICE = "transfer_slice"  # handing the KV cache over


ENGINES = frozenset((LegKind.SERVER, LegKind.PREFILL, LegKind.DECODE))
SLICES = frozenset((LegKind.QUEUE_SLICE, LegKind.PREFILL_SLICE, LegKind.TRANSFER_SLICE))


class Outcome(StrEnum):
    """How a request ended."""

    OK = "ok"
    FAILED = "failed"  # an error, a refusal under load, a stream cut off: bad for every objective
    CANCELLED = "cancelled"  # the client hung up: excluded from objectives, and counted
    REJECTED = "rejected"  # the request itself was wrong (HTTP 4xx): excluded, and counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Leg:
    """What one span says. None means that the span does not say it; it never means zero."""

    trace_id: bytes
    span_id: bytes
    kind: LegKind
    labels: Labels
    start_at_ns: int
    end_at_ns: int
    parent_id: bytes = b""
    room: int = 0  # what both halves of a pair were told to meet by; 0 where there is nothing
    streamed: bool | None = None
    outcome: Outcome = Outcome.OK
    finish_reason: str = ""
    ttft_s: float | None = None
    e2e_s: float | None = None
    queue_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    itl_max_s: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None

    def __post_init__(self) -> None:
        if self.end_at_ns < self.start_at_ns:
            raise ValueError("a span must not end before it starts")
        for name in ("ttft_s", "e2e_s", "queue_s", "prefill_s", "decode_s", "itl_max_s"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < float("inf"):
                raise ValueError(f"{name} must be a finite duration, not {value}")

    @property
    def length_s(self) -> float:
        """How long the span is."""
        return (self.end_at_ns - self.start_at_ns) / SECOND_NS

    @property
    def is_handler(self) -> bool:
        """A worker's half that tells only when it worked: the frontend above it knows the rest."""
        half = self.kind in (LegKind.PREFILL, LegKind.DECODE)
        return half and self.e2e_s is None and self.ttft_s is None

    @property
    def tpot_s(self) -> float | None:
        """Decode time per gap, or None: a one-token answer has no gaps."""
        gaps = (self.output_tokens or 0) - 1
        return self.decode_s / gaps if gaps > 0 and self.decode_s is not None else None

    @property
    def overhead_s(self) -> float | None:
        """What queue, prefill and decode leave unexplained of the leg's E2E.

        None where a part is missing or the parts exceed the whole beyond the clocks' tolerance.
        """
        return rest_s(self.e2e_s, sum_s(self.queue_s, self.prefill_s, self.decode_s))


def rest_s(whole_s: float | None, parts_s: float | None) -> float | None:
    """What parts leave of a whole; None where either is not known or they exceed it."""
    return None if whole_s is None or parts_s is None else difference_s(whole_s, parts_s)


def difference_s(whole_s: float, parts_s: float) -> float | None:
    """The same of what is known; a hair's breadth below nothing is nothing."""
    left_s = whole_s - parts_s
    return max(left_s, 0.0) if left_s >= -CLOCK_TOLERANCE_S else None


def sum_s(*parts_s: float | None) -> float | None:
    """The sum, or None where one is not known."""
    known = [part for part in parts_s if part is not None]
    return sum(known) if len(known) == len(parts_s) else None


def first(*values: T | None) -> T | None:
    """The first that is known."""
    return next((value for value in values if value is not None), None)
