"""Minutes in which none of some conditions held, at no place that matches.

Told from stored readings, so that a past minute is judged as it would have been then, with what
arrived late. A condition is looked for only in minutes that something hints at. It reads ten-second
tiles of a quarter of an hour: where those are gone, the minute is not observed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from collector.conditions import LOOKBACK_S, conditions
from collector.query import Window
from collector.schema import TIERS_S
from collector.snapshot import Snapshot
from domain.condition import Condition, ConditionKind
from domain.indicator import ConditionIndicator
from domain.metric import METRICS
from domain.slice import MINUTE_S, Slice

__all__ = ["minutes"]

_TIER_S = TIERS_S[0]
_HINTS = {
    ConditionKind.STALLED: ("engine_stalled", "high >= 1", LOOKBACK_S),
    ConditionKind.DOWN: ("up", "low < 1", LOOKBACK_S),
    ConditionKind.SILENT: ("up", "high >= 1", LOOKBACK_S),
    ConditionKind.DRIFT: ("schema_drift", "sum > 0", 0),
    ConditionKind.SUSPECT: ("suspect_families", "sum > 0", 0),
    ConditionKind.LOST: ("exports_dropped", "sum > 0", 0),
    ConditionKind.NOT_REPORTED: ("not_reported", "high >= 1", 0),
}
"""What stands in the tiles of a minute, or so many seconds before it, where a condition may hold."""

_KINDS_OF_SILENCE = frozenset((ConditionKind.SILENT,))
"""Conditions that are seen by hearing nothing, of a place that was heard before."""


def minutes(snapshot: Snapshot, indicator: ConditionIndicator, window: Window) -> list[Slice]:
    """One slice per whole minute of the window."""
    asked = window.minutes
    tiles = _Tiles(snapshot, json.dumps(snapshot.labels.matching(indicator.where)), asked)
    heard_s = tiles.where("up", "n > 0", LOOKBACK_S)
    observed = set(_within(heard_s, LOOKBACK_S if _KINDS_OF_SILENCE & {*indicator.kinds} else 0))
    hinted: set[int] = set()
    for kind in indicator.kinds:
        metric, claim, back_s = _HINTS[kind]
        hints_s = tiles.where(metric, claim, back_s)
        hinted |= _within(hints_s, back_s)
        observed |= _within(hints_s, 0)
    first_s = snapshot.cutoff_s.get(_TIER_S, 0) + LOOKBACK_S
    return [
        _slice(snapshot, indicator, at_s, hinted=at_s in hinted)
        if at_s >= first_s and at_s in observed
        else Slice(minute_at_s=at_s, observed=False)
        for at_s in asked
    ]


def _slice(snapshot: Snapshot, indicator: ConditionIndicator, at_s: int, *, hinted: bool) -> Slice:
    good = int(not (hinted and _holds(snapshot, indicator, at_s)))
    return Slice(minute_at_s=at_s, good_low=good, good_high=good, total=1)


def _holds(snapshot: Snapshot, indicator: ConditionIndicator, at_s: int) -> bool:
    """Asked as of the minute's last tile, so that nothing of the next minute is looked at."""
    found = conditions(
        snapshot,
        at_s=at_s + MINUTE_S - _TIER_S,
        where=indicator.where,
        kinds=indicator.kinds,
        over_within_s=MINUTE_S,
    )
    return any(_reaches(each, at_s) for each in found)


def _reaches(condition: Condition, at_s: int) -> bool:
    """Whether it was confirmed within the minute, and not only remembered from before."""
    if condition.over_at_s is not None:
        return condition.over_at_s > at_s
    return condition.seen_at_s >= at_s


@dataclass(frozen=True, slots=True)
class _Tiles:
    """Ten-second tiles of some series (a list as JSON) in and before some minutes."""

    snapshot: Snapshot
    series: str
    minutes: range

    def where(self, metric: str, claim: str, back_s: int) -> list[int]:
        """When those begin of which a claim is true."""
        rows = self.snapshot.rows(
            f"SELECT DISTINCT at_s FROM number_{_TIER_S}"  # noqa: S608 - claims of ours
            f" WHERE metric = ? AND at_s >= ? AND at_s < ? AND {claim}"
            " AND series_id IN (SELECT value FROM json_each(?))",
            (
                METRICS[metric].number,
                self.minutes.start - back_s,
                self.minutes.stop,
                self.series,
            ),
        )
        return [at_s for (at_s,) in rows]


def _within(tiles_s: Iterable[int], back_s: int) -> frozenset[int]:
    """The minutes in which these tiles lie, and those that begin less than so long after them."""
    found: set[int] = set()
    for tile_s in tiles_s:
        first_s = tile_s // MINUTE_S * MINUTE_S
        found.update(range(first_s, tile_s + back_s + 1, MINUTE_S))
    return frozenset(found)
