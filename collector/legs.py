"""Many legs as columns: a column of seconds has NaN where a span does not say, one of tokens -1.

A parent is eight zeros where there is none, a room 0; `streamed` is 0 unsaid, 1 no, 2 yes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from domain.labels import Labels
from domain.leg import Leg, LegKind, Outcome

__all__ = [
    "IDS",
    "KINDS",
    "OUTCOMES",
    "SECONDS",
    "SPAN_ID",
    "STREAMED",
    "TOKENS",
    "TRACE_ID",
    "LegTable",
    "concat",
    "room_key",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.uint8]

KINDS = tuple(LegKind)
OUTCOMES = tuple(Outcome)
SECONDS = ("ttft_s", "e2e_s", "queue_s", "prefill_s", "decode_s", "itl_max_s")
TOKENS = ("prompt_tokens", "cached_tokens", "output_tokens")
TRACE_ID, SPAN_ID = 16, 8  # bytes
IDS = {"trace_ids": TRACE_ID, "span_ids": SPAN_ID, "parent_ids": SPAN_ID}
"""Columns of ids and the bytes of one."""

STREAMED = (None, False, True)
_ROOM = b"meet at "  # eight bytes no trace id begins with but by chance


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LegTable:
    """One row per leg. `kind` and `outcome` are places in KINDS and OUTCOMES."""

    trace_ids: bytes
    span_ids: bytes
    parent_ids: bytes
    series_id: Integers
    kind: Codes
    outcome: Codes
    streamed: Codes
    room: Integers
    start_at_ns: Integers
    end_at_ns: Integers
    seconds: Mapping[str, Floats]
    tokens: Mapping[str, Integers]
    finish: Sequence[str]

    def __len__(self) -> int:
        return len(self.end_at_ns)

    def trace_id(self, row: int) -> bytes:
        return self.trace_ids[row * TRACE_ID : (row + 1) * TRACE_ID]

    def span_id(self, row: int) -> bytes:
        return self.span_ids[row * SPAN_ID : (row + 1) * SPAN_ID]

    def parent_id(self, row: int) -> bytes:
        """Empty where there is none."""
        found = self.parent_ids[row * SPAN_ID : (row + 1) * SPAN_ID]
        return found if any(found) else b""

    def traces(self) -> list[bytes]:
        """The trace id of each row."""
        return [
            self.trace_ids[at : at + TRACE_ID] for at in range(0, len(self.trace_ids), TRACE_ID)
        ]

    def rooms(self) -> list[tuple[int, bytes]]:
        """The rows that have a room, each with the room's key."""
        rows = self.room.nonzero()[0].tolist()
        return [(row, room_key(int(self.room[row]))) for row in rows]

    def rows_of(self, trace_id: bytes) -> list[int]:
        """The rows of one trace."""
        rows, at = [], self.trace_ids.find(trace_id)
        while at >= 0:
            if at % TRACE_ID == 0:
                rows.append(at // TRACE_ID)
            at = self.trace_ids.find(trace_id, at + 1)
        return rows

    def leg(self, row: int, labels: Mapping[int, Labels]) -> Leg:
        """One row as a value; `labels` are those of its series id."""
        seconds = {name: _known(column[row]) for name, column in self.seconds.items()}
        tokens = {name: _counted(column[row]) for name, column in self.tokens.items()}
        return Leg(
            trace_id=self.trace_id(row),
            span_id=self.span_id(row),
            parent_id=self.parent_id(row),
            room=int(self.room[row]),
            streamed=STREAMED[self.streamed[row]],
            kind=KINDS[self.kind[row]],
            labels=labels[int(self.series_id[row])],
            start_at_ns=int(self.start_at_ns[row]),
            end_at_ns=int(self.end_at_ns[row]),
            outcome=OUTCOMES[self.outcome[row]],
            finish_reason=self.finish[row],
            ttft_s=seconds["ttft_s"],
            e2e_s=seconds["e2e_s"],
            queue_s=seconds["queue_s"],
            prefill_s=seconds["prefill_s"],
            decode_s=seconds["decode_s"],
            itl_max_s=seconds["itl_max_s"],
            prompt_tokens=tokens["prompt_tokens"],
            cached_tokens=tokens["cached_tokens"],
            output_tokens=tokens["output_tokens"],
        )

    def take(self, rows: Integers) -> LegTable:
        """These rows, in this order."""
        chosen = rows.tolist()
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in _ARRAYS}
        for name, size in IDS.items():
            ids = getattr(self, name)
            columns[name] = b"".join([ids[row * size : (row + 1) * size] for row in chosen])
        return LegTable(
            seconds={name: column[rows] for name, column in self.seconds.items()},
            tokens={name: column[rows] for name, column in self.tokens.items()},
            finish=[self.finish[row] for row in chosen],
            **columns,
        )


_ARRAYS = ("series_id", "kind", "outcome", "streamed", "room", "start_at_ns", "end_at_ns")


def concat(tables: Sequence[LegTable]) -> LegTable:
    """All rows of all tables, in order."""
    if len(tables) == 1:
        return tables[0]
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(table, name) for table in tables]) for name in _ARRAYS
    }
    for name in IDS:
        columns[name] = b"".join([getattr(table, name) for table in tables])
    return LegTable(
        seconds={name: np.concatenate([t.seconds[name] for t in tables]) for name in SECONDS},
        tokens={name: np.concatenate([t.tokens[name] for t in tables]) for name in TOKENS},
        finish=[reason for table in tables for reason in table.finish],
        **columns,
    )


def room_key(room: int) -> bytes:
    """What stands for a room where a trace id may stand: legs of two traces that meet there."""
    return _ROOM + room.to_bytes(8, "little", signed=True)


def _known(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def _counted(value: np.int64) -> int | None:
    return None if value < 0 else int(value)
