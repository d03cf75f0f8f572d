"""Columns of legs from what spans say, one by one or many of one shape: the same rules for both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from collector.legs import KINDS, OUTCOMES, SECONDS, SPAN_ID, TOKENS, TRACE_ID, Floats, LegTable
from collector.lockstep import Alike
from collector.semantics import FINISH, LONGEST_S, NUMBERS, OUTCOME, OUTCOME_WORDS, text_in
from domain.request import LegKind, Outcome

__all__ = [
    "ABSENT",
    "MOST_TOKENS",
    "UNSAID",
    "WIDTH",
    "Rows",
    "Times",
    "columns_of",
    "finish_in",
    "outcome_in",
    "sound",
]

ABSENT: Final = float("nan")
WIDTH: Final = len(SECONDS) + len(TOKENS)
MOST_TOKENS: Final = 1e12
UNSAID: Final = 255
"""In place of an outcome: the span says nothing, so what it measured decides."""

_OUTCOME = {outcome: place for place, outcome in enumerate(OUTCOMES)}
_CLIENT: Final = KINDS.index(LegKind.CLIENT)
_TTFT, _E2E, _PREFILL, _DECODE = (
    SECONDS.index(name) for name in ("ttft_s", "e2e_s", "prefill_s", "decode_s")
)
_OUTPUT: Final = len(SECONDS) + TOKENS.index("output_tokens")
_LONGEST_NS: Final = int(LONGEST_S * 1e9)
_LONGEST_REASON: Final = 64  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Which ends of spans and points are believed."""

    oldest_at_ns: int
    newest_at_ns: int


@dataclass(slots=True)
class Rows:
    """Spans read one by one, while they become columns."""

    trace_ids: list[bytes] = field(default_factory=list)
    span_ids: list[bytes] = field(default_factory=list)
    series_id: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    outcome: list[int] = field(default_factory=list)
    start_at_ns: list[int] = field(default_factory=list)
    end_at_ns: list[int] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)
    finish: list[str] = field(default_factory=list)
    gaps: dict[int, Floats] = field(default_factory=dict)

    def table(self) -> LegTable:
        return _table(
            np.array(self.numbers, np.float64).reshape(-1, WIDTH).T,
            trace_ids=b"".join(self.trace_ids),
            span_ids=b"".join(self.span_ids),
            series_id=np.array(self.series_id, np.int64),
            kind=np.array(self.kind, np.uint8),
            outcome=np.array(self.outcome, np.uint8),
            start_at_ns=np.array(self.start_at_ns, np.int64),
            end_at_ns=np.array(self.end_at_ns, np.int64),
            finish=self.finish,
        )


def columns_of(
    alike: Alike, texts: Sequence[KeyValue], place: tuple[int, int], counts: Counter[str]
) -> LegTable:
    """Sound spans of one shape as legs; `place` is their series and kind."""
    n = len(alike.rows)
    numbers = np.full((WIDTH, n), ABSENT)
    for key, values in alike.numbers.items():
        row = NUMBERS[key.decode()]
        fine = (values >= 0.0) & (values <= (LONGEST_S if row < len(SECONDS) else MOST_TOKENS))
        counts["rejected_values_total"] += n - int(fine.sum())
        numbers[row] = np.where(fine, values, numbers[row])
    series_id, kind = place
    return _table(
        numbers,
        trace_ids=alike.trace_ids,
        span_ids=alike.span_ids,
        series_id=np.full(n, series_id, np.int64),
        kind=np.full(n, kind, np.uint8),
        outcome=np.full(n, outcome_in(texts), np.uint8),
        start_at_ns=np.asarray(alike.start_at_ns).astype(np.int64),
        end_at_ns=np.asarray(alike.end_at_ns).astype(np.int64),
        finish=[finish_in(texts)] * n,
    )


def outcome_in(texts: Sequence[KeyValue], *, error: bool = False) -> int:
    """What the attributes, or else the status, say of how it ended."""
    for attribute in texts:
        if attribute.key in OUTCOME:
            word = text_in(attribute.value).lower()
            return _OUTCOME[OUTCOME_WORDS.get(word, Outcome.FAILED)]
    return _OUTCOME[Outcome.FAILED] if error else UNSAID


def finish_in(texts: Sequence[KeyValue]) -> str:
    return next((text_in(a.value)[:_LONGEST_REASON] for a in texts if a.key in FINISH), "")


def sound(alike: Alike, times: Times) -> NDArray[np.bool_]:
    """Which of these can be legs: the others are read one by one, for their reason."""
    start, end, n = alike.start_at_ns, alike.end_at_ns, len(alike.rows)
    if start is None or end is None or not alike.trace_ids or not alike.span_ids:
        return np.zeros(n, np.bool_)
    oldest, newest = max(times.oldest_at_ns, 0), max(times.newest_at_ns, 0)
    within = (end >= oldest) & (end <= newest) & (start <= end) & (end - start <= _LONGEST_NS)
    named = np.frombuffer(alike.trace_ids, np.uint8).reshape(n, TRACE_ID).any(axis=1)
    named &= np.frombuffer(alike.span_ids, np.uint8).reshape(n, SPAN_ID).any(axis=1)
    both: NDArray[np.bool_] = within & named
    return both


def _table(numbers: Floats, *, outcome: NDArray[np.uint8], **columns: Any) -> LegTable:
    """The legs, completed by what the spans imply."""
    client = columns["kind"] == _CLIENT
    unsaid = outcome == UNSAID
    # why: an engine that never produced a token says 0 for what it never reached (vllm#49135)
    never = unsaid & ~client & (numbers[_OUTPUT] == 0) & ~(numbers[_TTFT] > 0)
    outcome = np.where(unsaid, np.uint8(_OUTCOME[Outcome.OK]), outcome)
    outcome[never] = _OUTCOME[Outcome.CANCELLED]
    numbers[[[_TTFT], [_PREFILL], [_DECODE]], never] = ABSENT
    if client.any():
        _complete(numbers, client, (columns["end_at_ns"] - columns["start_at_ns"]) / 1e9)
    tokens = np.where(np.isnan(numbers[len(SECONDS) :]), -1.0, numbers[len(SECONDS) :])
    return LegTable(
        outcome=outcome,
        seconds=dict(zip(SECONDS, numbers, strict=False)),
        tokens=dict(zip(TOKENS, tokens.astype(np.int64), strict=True)),
        **columns,
    )


def _complete(numbers: Floats, client: NDArray[np.bool_], length_s: Floats) -> None:
    """A client's span is as long as its request, and decoding is all but the wait."""
    numbers[_E2E] = np.where(client & np.isnan(numbers[_E2E]), length_s, numbers[_E2E])
    rest_s = numbers[_E2E] - numbers[_TTFT]
    rest_s = np.where(rest_s >= 0, rest_s, ABSENT)
    numbers[_DECODE] = np.where(client & np.isnan(numbers[_DECODE]), rest_s, numbers[_DECODE])
