"""The requests of one minute, as the kept legs tell them: how each ended, and all of its latencies.

A request is one as each who saw it whole tells it: a client, a frontend, an engine, or both halves
of a pair together. What several legs tell together (a pair's TTFT, the network) goes to the one
whose it is. The tables are remembered: every objective of a service asks for the same minute.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from collector.legs import KINDS, OUTCOMES, Codes, Floats, Integers, LegTable, concat
from collector.observing import leg_columns
from collector.segment_cache import SegmentKey, Segments, join_window_ns, together
from collector.snapshot import Snapshot
from domain.calls import calls
from domain.labels import Labels
from domain.leg import Leg, LegKind, Outcome
from domain.telling import tell

__all__ = ["MEASURED", "MinuteRequests", "RequestTable"]

_NS = 1_000_000_000
_MINUTE_NS = 60 * _NS
_WHOLE = (LegKind.CLIENT, LegKind.FRONTEND, LegKind.SERVER)
_WHOLE_PLACES = [KINDS.index(kind) for kind in _WHOLE]
_HALVES = (LegKind.PREFILL, LegKind.DECODE)
_WORST = (Outcome.FAILED, Outcome.CANCELLED, Outcome.REJECTED, Outcome.OK)

MEASURED = ("ttft", "e2e")
"""By these it is known whether every request of a minute is kept: the tiles count them too."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestTable:
    """One row per request that ended in the minute.

    `values_s` by metric, NaN where nobody measured. `gapless`: an answer of one token, which has no
    gap. `kept` and `failed`: the series of each value and failure in the minute, one by one.
    """

    series_id: Integers
    outcome: Codes
    gapless: NDArray[np.bool_]
    values_s: Mapping[str, Floats]
    kept: Mapping[str, Integers]
    failed: Integers

    def value_s(self, metric: str) -> Floats:
        """A column, also of what none of them has."""
        known = self.values_s.get(metric)
        return np.full(len(self.series_id), np.nan) if known is None else known


@dataclass(slots=True)
class MinuteRequests:
    """Tables of the minutes last asked for."""

    segments: Segments
    most_minutes: int = 16
    _known: OrderedDict[int, tuple[list[SegmentKey], RequestTable]] = field(
        default_factory=OrderedDict
    )
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, snapshot: Snapshot, at_s: int) -> RequestTable:
        """The requests that ended in the minute that begins at `at_s`."""
        since_ns, near_ns = at_s * _NS, join_window_ns(snapshot)
        keys = self.segments.keys(snapshot, since_ns - near_ns, since_ns + _MINUTE_NS + near_ns)
        with self._lock:
            known = self._known.get(at_s)
        if known is not None and known[0] == keys:
            return known[1]
        near = _near(self.segments.tables(snapshot, keys), since_ns, near_ns)
        table = _table(near, since_ns, snapshot.labels.by_id)
        with self._lock:
            self._known[at_s] = keys, table
            self._known.move_to_end(at_s)
            while len(self._known) > self.most_minutes:
                self._known.popitem(last=False)
        return table


@dataclass(slots=True)
class _Rows:
    """Requests that were put together leg by leg."""

    series_id: list[int] = field(default_factory=list)
    outcome: list[int] = field(default_factory=list)
    gapless: list[bool] = field(default_factory=list)
    values_s: list[dict[str, float]] = field(default_factory=list)
    kept: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def column(self, metric: str) -> Floats:
        return np.array([each.get(metric, np.nan) for each in self.values_s], np.float64)


def _near(tables: Sequence[LegTable], since_ns: int, near_ns: int) -> LegTable | None:
    found = []
    for table in tables:
        inside = table.end_at_ns >= since_ns - near_ns
        inside &= table.end_at_ns < since_ns + _MINUTE_NS + near_ns
        if inside.any():
            found.append(table if inside.all() else table.take(inside.nonzero()[0]))
    return concat(found) if found else None


def _table(near: LegTable | None, since_ns: int, labels: Mapping[int, Labels]) -> RequestTable:
    if near is None:
        none = np.zeros(0, np.int64)
        return RequestTable(none, none.astype(np.uint8), none.astype(bool), {}, {}, none)
    inside = (near.end_at_ns >= since_ns) & (near.end_at_ns < since_ns + _MINUTE_NS)
    place = together(near)
    several = np.bincount(place)[place] > 1
    alone = near.take((inside & ~several & np.isin(near.kind, _WHOLE_PLACES)).nonzero()[0])
    meets = np.zeros(int(place.max()) + 1, bool)
    meets[place[inside]] = True
    joined = _joined(near, place, meets[place] & ~_alone(near, several), since_ns, labels)
    failed = inside & (near.outcome == OUTCOMES.index(Outcome.FAILED))
    return _assembled(alone, joined, near.series_id[failed])


def _alone(near: LegTable, several: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Legs that stand for themselves; a half that is alone is looked at with the others."""
    found: NDArray[np.bool_] = ~several & np.isin(near.kind, _WHOLE_PLACES)
    return found


def _assembled(alone: LegTable, joined: _Rows, failed: Integers) -> RequestTable:
    own_s = leg_columns(alone)
    fine = alone.outcome == OUTCOMES.index(Outcome.OK)
    metrics = {*own_s, *(name for each in joined.values_s for name in each)}
    none = np.full(len(alone), np.nan)
    kept = {
        metric: np.concatenate(
            (
                alone.series_id[fine & ~np.isnan(own_s[metric])],
                np.array(joined.kept[metric], np.int64),
            )
        )
        for metric in MEASURED
    }
    return RequestTable(
        series_id=np.concatenate((alone.series_id, np.array(joined.series_id, np.int64))),
        outcome=np.concatenate((alone.outcome, np.array(joined.outcome, np.uint8))),
        gapless=np.concatenate((_gapless(alone), np.array(joined.gapless, bool))),
        values_s={
            metric: np.concatenate((own_s.get(metric, none), joined.column(metric)))
            for metric in metrics
        },
        kept=kept,
        failed=failed,
    )


def _gapless(table: LegTable) -> NDArray[np.bool_]:
    tokens = table.tokens["output_tokens"]
    found: NDArray[np.bool_] = (tokens >= 0) & (tokens <= 1)
    return found


def _joined(
    near: LegTable,
    place: Integers,
    wanted: NDArray[np.bool_],
    since_ns: int,
    labels: Mapping[int, Labels],
) -> _Rows:
    """Requests of which several legs tell, call by call."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for row in wanted.nonzero()[0].tolist():
        groups[int(place[row])].append(row)
    number = {own: series_id for series_id, own in labels.items()}
    found = _Rows()
    for rows in groups.values():
        legs = [near.leg(row, labels) for row in rows]
        for call in calls(legs):
            _add_call(found, call, since_ns, number)
    return found


def _add_call(
    found: _Rows, call: Sequence[Leg], since_ns: int, number: Mapping[Labels, int]
) -> None:
    until_ns = since_ns + _MINUTE_NS
    told: defaultdict[tuple[Labels, int], dict[str, float]] = defaultdict(dict)
    for each in tell(call).values:
        told[each.labels, each.at_ns].setdefault(each.metric, each.value_s)
        if each.metric in MEASURED and since_ns <= each.at_ns < until_ns:
            found.kept[each.metric].append(number[each.labels])
    handlers = [leg for leg in call if leg.is_handler]
    for whole in _wholes(call):
        chief = whole[-1]
        if not since_ns <= chief.end_at_ns < until_ns:
            continue
        beneath = handlers if chief.kind is LegKind.FRONTEND else []
        values_s: dict[str, float] = {}
        for leg in (*whole, *beneath):
            values_s = {**told[leg.labels, leg.end_at_ns], **values_s}
        outcomes = Counter(leg.outcome for leg in whole)
        worst = next(outcome for outcome in _WORST if outcome in outcomes)
        found.series_id.append(number[chief.labels])
        found.outcome.append(OUTCOMES.index(worst))
        found.gapless.append(chief.output_tokens is not None and chief.output_tokens <= 1)
        found.values_s.append(values_s)


def _wholes(call: Sequence[Leg]) -> Iterable[list[Leg]]:
    """The legs of each who saw the request whole, the one that it ends by last."""
    yield from ([leg] for leg in call if leg.kind in _WHOLE)
    halves = [leg for leg in call if leg.kind in _HALVES and not leg.is_handler]
    if any(leg.kind is LegKind.DECODE or leg.outcome is not Outcome.OK for leg in halves):
        yield sorted(halves, key=lambda leg: (leg.kind is LegKind.DECODE, leg.end_at_ns))
