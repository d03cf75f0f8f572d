"""A whole review as one value, and as JSON that reads back as the same value.

Format 1. Times in seconds, shares from 0 to 1, null where nothing is known. New keys may come; none
changes its meaning without a new format number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from domain.errors import InputError
from review.gate import Gate
from review.loads import WorkerLoad
from review.period import Kind
from review.plain import built, plain
from review.plan import Plan
from review.rails import Rails
from review.scores import Day, Promise, Score
from review.sizing import Sizing
from review.split import Split
from review.track_record import Advice, Realised
from review.triggers import Trigger
from review.verdict import Alternative, Verdict

__all__ = ["FORMAT", "Curves", "Review", "Traffic", "from_json", "to_json"]

FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What was asked. `drawn`: requests whose tokens nobody told. `left_out`: rows and why."""

    requests: int
    served: int
    failed: int
    cancelled: int
    demand_per_s: float
    peak_hour: int
    prompt_p50_tokens: float | None
    prompt_p99_tokens: float | None
    output_p50_tokens: float | None
    output_p99_tokens: float | None
    hit_ratio: float | None
    drawn: int
    left_out: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curves:
    """A fitted kind of worker: predicted steps at some places, and the range that was seen.

    `points`: (tokens or KV tokens, seconds). For decode the batch grows along with the KV cache.
    """

    kind: Kind
    points: tuple[tuple[float, float], ...]
    seen_max: float
    bias: float
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """Everything that a page, a file or next week needs. `split` is the current one.

    `hours`: (P99 TTFT seen, replayed) by hour of the period, None where nothing arrived.
    """

    format: int
    at_s: float
    since_s: float
    until_s: float
    service: str
    model: str
    split: Split
    promise: Promise
    rails: Rails
    verdict: Verdict
    gates: tuple[Gate, ...]
    traffic: Traffic
    observed: Score
    replayed: Score | None
    observed_days: tuple[Day, ...]
    alternatives: tuple[Alternative, ...]
    sizing: Sizing | None
    triggers: tuple[Trigger, ...]
    workers: tuple[WorkerLoad, ...]
    curves: tuple[Curves, ...]
    hours: tuple[tuple[float | None, float | None], ...]
    routing: tuple[str, str]
    plan: Plan | None
    track_record: Realised | None
    advice: Advice | None
    interpreted: bool
    replayed_requests: int
    notes: tuple[str, ...]
    not_evaluated: tuple[str, ...]


def to_json(review: Review, *, indent: int | None = None) -> str:
    """Keys in the order of the value; the same review is the same text."""
    return json.dumps(plain(review), indent=indent, ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Review:
    """The review that `to_json` wrote; anything else is an error that says where."""
    try:
        told = json.loads(text)
    except ValueError as error:
        raise InputError(
            f"it is no JSON: {error}", where="review", remedy="Give a file that `to_json` wrote."
        ) from error
    if not isinstance(told, dict) or told.get("format") != FORMAT:
        found = told.get("format") if isinstance(told, dict) else None
        raise InputError(
            f"its format is {found!r}, {FORMAT} is understood",
            where="review",
            remedy="Read it with the version that wrote it.",
        )
    found = built(Review, told, where="review")
    if not isinstance(found, Review):
        raise TypeError("a review was built that is none")
    return found
