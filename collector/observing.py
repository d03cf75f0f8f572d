"""What legs add to the tiles: column by column each leg's own values, and per trace what joining tells.

The same values as `domain.request.observations`, without an object per value. A leg that failed
gives no value and counts as failed wherever requests are judged; a cancelled or rejected one gives
nothing. Both are counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from collector.legs import KINDS, OUTCOMES, Floats, Integers, LegTable
from domain.labels import Labels
from domain.leg import CLOCK_TOLERANCE_S, Leg, LegKind, Outcome
from domain.metric import METRICS
from domain.telling import Observation, Told, tell

__all__ = [
    "FAILED_IN",
    "Sink",
    "joined_only",
    "leg_columns",
    "observe",
    "observe_joined",
    "told_together",
]

FAILED_IN = ("ttft", "tpot", "e2e", "itl_max")
"""The metrics by which requests are judged: a failed one is in each one's denominator."""

_CLIENT, _SERVER, _PREFILL, _DECODE, _FRONTEND = (
    1 << KINDS.index(kind)
    for kind in (
        LegKind.CLIENT,
        LegKind.SERVER,
        LegKind.PREFILL,
        LegKind.DECODE,
        LegKind.FRONTEND,
    )
)
_OUTER = _CLIENT | _FRONTEND
_TOLD_BY = {
    "ttft": _OUTER | _SERVER,
    "e2e": _OUTER | _SERVER,
    "tpot": _OUTER | _SERVER | _DECODE,
    "itl_max": _OUTER | _SERVER,
    "queue": _SERVER | _PREFILL | _DECODE,
    "prefill": _SERVER | _PREFILL,
    "decode": _SERVER | _DECODE,
    "overhead": _SERVER,
}
_COUNTERS = {
    OUTCOMES.index(Outcome.FAILED): "requests_failed",
    OUTCOMES.index(Outcome.CANCELLED): "requests_cancelled",
    OUTCOMES.index(Outcome.REJECTED): "requests_rejected",
}
_NUMBER = {name: metric.number for name, metric in METRICS.items()}
_HALVES = np.array([kind in (LegKind.PREFILL, LegKind.DECODE) for kind in KINDS])


class Sink(Protocol):
    """Where values go: `collector.tiles.Tiles`, or a reader that wants them one by one."""

    def add_values(
        self, metric: int, at_ns: Integers, series_id: Integers, values_s: Floats
    ) -> None: ...

    def add_failed(self, metric: int, at_ns: int, series_id: int) -> None: ...

    def add_number(self, metric: int, at_ns: int, series_id: int, value: float) -> None: ...


def observe(table: LegTable, gaps: Mapping[int, Floats], tiles: Sink) -> None:
    """Each leg's own values, and how it ended."""
    fine = table.outcome == OUTCOMES.index(Outcome.OK)
    # why: a handler's frontend says whether its request ended well (`domain.leg.Leg.is_handler`)
    tells_alone = fine & ~_handlers(table)
    kind_bit = np.left_shift(1, table.kind.astype(np.int64))
    for metric, values_s in leg_columns(table).items():
        told = tells_alone & ((kind_bit & _TOLD_BY[metric]) != 0) & ~np.isnan(values_s)
        if told.all():
            tiles.add_values(_NUMBER[metric], table.end_at_ns, table.series_id, values_s)
        elif told.any():
            tiles.add_values(
                _NUMBER[metric], table.end_at_ns[told], table.series_id[told], values_s[told]
            )
    for row, gaps_s in gaps.items():
        if fine[row]:
            n = len(gaps_s)
            at_ns, series_id = table.end_at_ns[row].repeat(n), table.series_id[row].repeat(n)
            tiles.add_values(_NUMBER["itl"], at_ns, series_id, gaps_s)
    for row in (~fine).nonzero()[0].tolist():
        _count(table, row, tiles)


def _handlers(table: LegTable) -> NDArray[np.bool_]:
    handlers: NDArray[np.bool_] = _HALVES[table.kind]
    if handlers.any():
        handlers &= np.isnan(table.seconds["e2e_s"]) & np.isnan(table.seconds["ttft_s"])
    return handlers


def leg_columns(table: LegTable) -> dict[str, Floats]:
    """By metric what each leg says of itself, NaN where it says nothing."""
    seconds = table.seconds
    decode_s, output = seconds["decode_s"], table.tokens["output_tokens"]
    parts_s = seconds["queue_s"] + seconds["prefill_s"] + decode_s
    rest_s = seconds["e2e_s"] - parts_s
    rest_s = np.where(rest_s >= -CLOCK_TOLERANCE_S, np.maximum(rest_s, 0.0), np.nan)
    return {
        "ttft": seconds["ttft_s"],
        "e2e": seconds["e2e_s"],
        "tpot": np.where(output > 1, decode_s / np.maximum(output - 1, 1), np.nan),
        "itl_max": seconds["itl_max_s"],
        "queue": seconds["queue_s"],
        "prefill": seconds["prefill_s"],
        "decode": decode_s,
        "overhead": rest_s,
    }


def _count(table: LegTable, row: int, tiles: Sink) -> None:
    at_ns, series_id = int(table.end_at_ns[row]), int(table.series_id[row])
    counter = _COUNTERS[int(table.outcome[row])]
    tiles.add_number(_NUMBER[counter], at_ns, series_id, 1.0)
    if counter == "requests_failed":
        for metric in FAILED_IN:
            tiles.add_failed(_NUMBER[metric], at_ns, series_id)


def observe_joined(
    joined: Sequence[tuple[Sequence[Leg], Sequence[Leg]]],
    series_ids: Mapping[Labels, int],
    tiles: Sink,
    counts: Counter[str],
) -> None:
    """What more legs of a trace tell than the ones before did; never takes anything back."""
    for before, legs in joined:
        was, now = told_together(before), told_together(legs)
        counts.update(now.doubts - was.doubts)
        for told, times in (Counter(now.values) - Counter(was.values)).items():
            tiles.add_values(
                _NUMBER[told.metric],
                np.full(times, told.at_ns, np.int64),
                np.full(times, series_ids[told.labels], np.int64),
                np.full(times, told.value_s),
            )


def joined_only(legs: Sequence[Leg]) -> Counter[Observation]:
    """What legs of one trace tell together and none alone, cut short ones left out."""
    return Counter(told_together(legs).values)


def told_together(legs: Sequence[Leg]) -> Told:
    """The same, with what is in doubt."""
    if len(legs) < 2:
        return Told()
    told = tell(legs)
    alone = Counter(value for leg in legs for value in tell([leg]).values)
    together = Counter(told.values) - alone
    return Told(list(together.elements()), told.doubts)
