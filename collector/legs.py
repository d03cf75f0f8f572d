"""Many legs as columns: a column of seconds has NaN where a span does not say, one of tokens -1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from domain.labels import Labels
from domain.request import Leg, LegKind, Outcome

__all__ = ["KINDS", "OUTCOMES", "SECONDS", "SPAN_ID", "TOKENS", "TRACE_ID", "LegTable", "concat"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Codes = NDArray[np.uint8]

KINDS = tuple(LegKind)
OUTCOMES = tuple(Outcome)
SECONDS = ("ttft_s", "e2e_s", "queue_s", "prefill_s", "decode_s", "itl_max_s")
TOKENS = ("prompt_tokens", "cached_tokens", "output_tokens")
TRACE_ID, SPAN_ID = 16, 8  # bytes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LegTable:
    """One row per leg. `kind` and `outcome` are places in KINDS and OUTCOMES."""

    trace_ids: bytes
    span_ids: bytes
    series_id: Integers
    kind: Codes
    outcome: Codes
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

    def traces(self) -> list[bytes]:
        """The trace id of each row."""
        return [
            self.trace_ids[at : at + TRACE_ID] for at in range(0, len(self.trace_ids), TRACE_ID)
        ]

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
        return LegTable(
            trace_ids=b"".join([self.trace_id(row) for row in chosen]),
            span_ids=b"".join([self.span_id(row) for row in chosen]),
            series_id=self.series_id[rows],
            kind=self.kind[rows],
            outcome=self.outcome[rows],
            start_at_ns=self.start_at_ns[rows],
            end_at_ns=self.end_at_ns[rows],
            seconds={name: column[rows] for name, column in self.seconds.items()},
            tokens={name: column[rows] for name, column in self.tokens.items()},
            finish=[self.finish[row] for row in chosen],
        )


def concat(tables: Sequence[LegTable]) -> LegTable:
    """All rows of all tables, in order."""
    if len(tables) == 1:
        return tables[0]
    return LegTable(
        trace_ids=b"".join([table.trace_ids for table in tables]),
        span_ids=b"".join([table.span_ids for table in tables]),
        series_id=np.concatenate([table.series_id for table in tables]),
        kind=np.concatenate([table.kind for table in tables]),
        outcome=np.concatenate([table.outcome for table in tables]),
        start_at_ns=np.concatenate([table.start_at_ns for table in tables]),
        end_at_ns=np.concatenate([table.end_at_ns for table in tables]),
        seconds={name: np.concatenate([t.seconds[name] for t in tables]) for name in SECONDS},
        tokens={name: np.concatenate([t.tokens[name] for t in tables]) for name in TOKENS},
        finish=[reason for table in tables for reason in table.finish],
    )


def _known(value: np.float64) -> float | None:
    return None if np.isnan(value) else float(value)


def _counted(value: np.int64) -> int | None:
    return None if value < 0 else int(value)
