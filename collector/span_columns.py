"""Columns of legs from what spans say, one by one or many of one shape: the same rules for both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from collector.legs import (
    KINDS,
    OUTCOMES,
    SECONDS,
    SPAN_ID,
    STREAMED,
    TOKENS,
    TRACE_ID,
    Floats,
    LegTable,
)
from collector.lockstep import Alike
from collector.semantics import (
    FINISH,
    LONGEST_S,
    OUTCOME,
    PLACE,
    ROOM,
    outcome_of,
    reason_in,
    status_of,
    text_in,
)
from collector.semantics import STREAMED as STREAM_ATTRIBUTES
from collector.span_names import SpanName
from domain.leg import ENGINES, LegKind, Outcome

__all__ = [
    "ABSENT",
    "MOST_TOKENS",
    "UNSAID",
    "WIDTH",
    "Ending",
    "Rows",
    "Times",
    "columns_of",
    "ending_in",
    "number_at",
    "sound",
]

ABSENT: Final = float("nan")
WIDTH: Final = len(SECONDS) + len(TOKENS)
MOST_TOKENS: Final = 1e12
UNSAID: Final = 255
"""In place of an outcome: the span says nothing, so what it measured decides."""

_OUTCOME = {outcome: place for place, outcome in enumerate(OUTCOMES)}
_TTFT, _E2E, _PREFILL, _DECODE, _ITL_MAX, _OUTPUT = (
    PLACE[name]
    for name in ("ttft_s", "e2e_s", "prefill_s", "decode_s", "itl_max_s", "output_tokens")
)
_ENGINES: Final = np.array([kind in ENGINES for kind in KINDS])  # by place in KINDS
_PREFILLS: Final = KINDS.index(LegKind.PREFILL)
_CLIENTS: Final = KINDS.index(LegKind.CLIENT)
_OUTER: Final = np.array([kind in (LegKind.CLIENT, LegKind.FRONTEND) for kind in KINDS])
_UNARY: Final = STREAMED.index(False)
_LONGEST_NS: Final = int(LONGEST_S * 1e9)
_LONGEST_REASON: Final = 64  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Which ends of spans and points are believed."""

    oldest_at_ns: int
    newest_at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What the texts of a span say of the request: places of an outcome and of how it was sent."""

    outcome: int = UNSAID
    finish: str = ""
    streamed: int = 0
    room: int = 0


@dataclass(slots=True)
class Rows:
    """Spans read one by one, while they become columns."""

    trace_ids: list[bytes] = field(default_factory=list)
    span_ids: list[bytes] = field(default_factory=list)
    parent_ids: list[bytes] = field(default_factory=list)
    series_id: list[int] = field(default_factory=list)
    kind: list[int] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)
    start_at_ns: list[int] = field(default_factory=list)
    end_at_ns: list[int] = field(default_factory=list)
    numbers: list[list[float]] = field(default_factory=list)
    gaps: dict[int, Floats] = field(default_factory=dict)

    def table(self) -> LegTable:
        return _table(
            np.array(self.numbers, np.float64).reshape(-1, WIDTH).T,
            self.endings,
            trace_ids=b"".join(self.trace_ids),
            span_ids=b"".join(self.span_ids),
            parent_ids=b"".join(self.parent_ids),
            series_id=np.array(self.series_id, np.int64),
            kind=np.array(self.kind, np.uint8),
            start_at_ns=np.array(self.start_at_ns, np.int64),
            end_at_ns=np.array(self.end_at_ns, np.int64),
        )


def columns_of(
    alike: Alike,
    row: SpanName,
    ending: Ending,
    place: tuple[int, int],
    counts: Counter[str],
) -> LegTable:
    """Sound spans of one shape as legs; `place` is their series and kind."""
    n = len(alike.rows)
    numbers = np.full((WIDTH, n), ABSENT)
    start_at_ns = np.asarray(alike.start_at_ns).astype(np.int64)
    end_at_ns = np.asarray(alike.end_at_ns).astype(np.int64)
    if row.length is not None:
        numbers[row.length] = (end_at_ns - start_at_ns) / 1e9
    for key, told in alike.numbers.items():
        at = row.numbers[key.decode()]
        values = told * row.scale if at < len(SECONDS) else told
        fine = (values >= 0.0) & (values <= (LONGEST_S if at < len(SECONDS) else MOST_TOKENS))
        counts["rejected_values_total"] += n - int(fine.sum())
        numbers[at] = np.where(fine, values, numbers[at])
    series_id, kind = place
    return _table(
        numbers,
        [ending],
        trace_ids=alike.trace_ids,
        span_ids=alike.span_ids,
        parent_ids=alike.parent_ids or bytes(SPAN_ID * n),
        series_id=np.full(n, series_id, np.int64),
        kind=np.full(n, kind, np.uint8),
        start_at_ns=start_at_ns,
        end_at_ns=end_at_ns,
    )


def number_at(place: int, value: float, row: SpanName) -> float | None:
    """A number of a span in our unit; None where it cannot be."""
    if place >= len(SECONDS):
        return value if 0.0 <= value <= MOST_TOKENS else None
    value *= row.scale
    return value if 0.0 <= value <= LONGEST_S else None


def ending_in(row: SpanName, texts: Sequence[KeyValue], *, error: bool = False) -> Ending:
    """What the attributes, or else the status, say of how it ended."""
    told = {attribute.key: attribute.value for attribute in texts}
    finish, by_reason = "", None
    for key in sorted(FINISH & told.keys()):
        finish, by_reason = reason_in(told[key])
    if not row.tells_outcome:
        outcome: Outcome | None = Outcome.OK
    else:
        words = [text_in(told[key]) for key in OUTCOME if key in told]
        outcome = outcome_of(words[0]) if words else by_reason
        if outcome is Outcome.FAILED and not finish:
            finish = next(filter(None, map(status_of, words)), "")
        if outcome is None and error:
            outcome = Outcome.FAILED
    streams = [text_in(told[key]).lower() for key in sorted(STREAM_ATTRIBUTES & told.keys())]
    return Ending(
        outcome=UNSAID if outcome is None else _OUTCOME[outcome],
        finish=finish[:_LONGEST_REASON],
        streamed=STREAMED.index(streams[0] == "true") if streams else 0,
        room=_room_in(text_in(told[ROOM])) if ROOM in told else 0,
    )


def _room_in(text: str) -> int:
    try:
        room = int(text, 16)
    except ValueError:
        return 0
    return room if 0 < room < 2**63 else 0


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


def _table(numbers: Floats, endings: Sequence[Ending], **columns: Any) -> LegTable:
    """The legs, completed by what the spans imply."""
    kind = columns["kind"]
    outcome, streamed, room, finish = _endings(endings, len(kind))
    unsaid = outcome == UNSAID
    # why: an engine that never produced a token says 0 for what it never reached (vllm#49135)
    never = unsaid & (numbers[_OUTPUT] == 0) & ~(numbers[_TTFT] > 0) & _ENGINES[kind]
    outcome = np.where(unsaid, np.uint8(_OUTCOME[Outcome.OK]), outcome)
    if never.any():
        outcome[never] = _OUTCOME[Outcome.CANCELLED]
        numbers[[[_TTFT], [_PREFILL], [_DECODE]], never] = ABSENT
    # why: it ends with its first token, and says that it decoded for 0 s
    numbers[_DECODE, kind == _PREFILLS] = ABSENT
    outer = _OUTER[kind]
    if outer.any():
        _complete(numbers, outer, (columns["end_at_ns"] - columns["start_at_ns"]) / 1e9)
        # why: whoever waits for the whole answer sees no first token and no gap
        unary = (kind == _CLIENTS) & (streamed == _UNARY)
        numbers[[[_TTFT], [_DECODE], [_ITL_MAX]], unary] = ABSENT
    tokens = np.where(np.isnan(numbers[len(SECONDS) :]), -1.0, numbers[len(SECONDS) :])
    return LegTable(
        outcome=outcome,
        streamed=streamed,
        room=room,
        finish=finish,
        seconds=dict(zip(SECONDS, numbers, strict=False)),
        tokens=dict(zip(TOKENS, tokens.astype(np.int64), strict=True)),
        **columns,
    )


def _endings(
    endings: Sequence[Ending], n: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.int64], list[str]]:
    """Columns of endings; one stands for all."""
    if len(endings) == 1:
        one = endings[0]
        return (
            np.full(n, one.outcome, np.uint8),
            np.full(n, one.streamed, np.uint8),
            np.full(n, one.room, np.int64),
            [one.finish] * n,
        )
    return (
        np.array([each.outcome for each in endings], np.uint8),
        np.array([each.streamed for each in endings], np.uint8),
        np.array([each.room for each in endings], np.int64),
        [each.finish for each in endings],
    )


def _complete(numbers: Floats, outer: NDArray[np.bool_], length_s: Floats) -> None:
    """A client's or frontend's span is as long as its request; decoding is all but the wait."""
    numbers[_E2E] = np.where(outer & np.isnan(numbers[_E2E]), length_s, numbers[_E2E])
    rest_s = numbers[_E2E] - numbers[_TTFT]
    rest_s = np.where(rest_s >= 0, rest_s, ABSENT)
    numbers[_DECODE] = np.where(outer & np.isnan(numbers[_DECODE]), rest_s, numbers[_DECODE])
