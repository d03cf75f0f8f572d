"""Which minutes somebody watched: a source that said it is up, or a request that was measured.

Traffic of another kind through the same place counts: a chat service that only had batch requests
was watched, and had no chat traffic. Of a place that nobody knows, nothing is observed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence

from collector.query import Window
from collector.schema import TIERS_S
from collector.snapshot import Snapshot
from domain.labels import Labels, value_of
from domain.metric import LATENCIES, METRICS
from domain.slice import MINUTE_S

__all__ = ["observed_minutes", "told_before", "watching", "watching_minutes"]

_OF_A_REQUEST = frozenset(
    ("model", "model_version", "use_case", "tenant", "finish_reason", "reason")
)
"""What a request is, not where it was served: whoever watches the place would have seen it."""

_FINE_S = tuple(tier_s for tier_s in TIERS_S if tier_s <= MINUTE_S)
_HOUR_S = 3600
_UP = METRICS["up"].number
_LATENCIES = ", ".join(str(METRICS[name].number) for name in LATENCIES)
_TELLING = tuple(
    table
    for tier_s in reversed(_FINE_S)
    for table in (
        f"number_{tier_s} WHERE metric = {_UP} AND high >= 1",
        f"histogram_{tier_s} WHERE metric IN ({_LATENCIES})",
    )
)


def watching(snapshot: Snapshot, where: Labels) -> list[int]:
    """The series whose data tell that requests matching `where` would be seen.

    These are all series of the place asked for, of services known to serve such requests.
    """
    place = {name: value for name, value in where if name not in _OF_A_REQUEST}
    labels = snapshot.labels
    services = {value_of(labels.by_id[number], "service") for number in labels.matching(where)}
    return [
        number
        for service in sorted(services)
        for number in labels.matching(tuple(sorted({**place, "service": service}.items())))
    ]


def observed_minutes(snapshot: Snapshot, where: Labels, minutes_s: Sequence[int]) -> frozenset[int]:
    """Those of these minutes that were watched.

    A row that stands in either fine tier tells it, up to date or not.
    """
    wanted, found = set(minutes_s), set[int]()
    series = json.dumps(watching(snapshot, where))
    parameters = (MINUTE_S, MINUTE_S, min(minutes_s), max(minutes_s) + MINUTE_S, series)
    for table in _TELLING:
        if wanted <= found:
            return frozenset(wanted)
        told = snapshot.rows(
            f"SELECT DISTINCT at_s / ? * ? FROM {table} AND at_s >= ? AND at_s < ?"  # noqa: S608 - names of ours
            " AND series_id IN (SELECT value FROM json_each(?))",
            parameters,
        )
        found.update(at_s for (at_s,) in told)
    return frozenset(wanted & found)


def watching_minutes(snapshot: Snapshot, window: Window) -> Mapping[int, frozenset[int]]:
    """The same of every series: the minutes in which each said that it is up, or measured."""
    found: defaultdict[int, set[int]] = defaultdict(set)
    for table in _TELLING:
        told = snapshot.rows(
            f"SELECT DISTINCT series_id, at_s / ? * ? FROM {table} AND at_s >= ? AND at_s < ?",  # noqa: S608 - names of ours
            (MINUTE_S, MINUTE_S, window.since_s, window.until_s),
        )
        for series_id, at_s in told:
            found[series_id].add(at_s)
    return {series_id: frozenset(minutes_s) for series_id, minutes_s in found.items()}


def told_before(snapshot: Snapshot, metric: str, series: Sequence[int], window: Window) -> bool:
    """Whether these series told a counter at all in the day that ends with the window.

    A counter that stands still is not written down: who told it before says nothing new by silence.
    """
    number, numbers = METRICS[metric].number, json.dumps(series)
    for tier_s, back_s in ((_HOUR_S, 24 * _HOUR_S), *((fine_s, 2 * _HOUR_S) for fine_s in _FINE_S)):
        if snapshot.rows(
            f"SELECT 1 FROM number_{tier_s} WHERE metric = ? AND at_s >= ? AND at_s < ?"  # noqa: S608 - names of ours
            " AND series_id IN (SELECT value FROM json_each(?)) LIMIT 1",
            (number, window.since_s - back_s, window.until_s, numbers),
        ):
            return True
    return False
