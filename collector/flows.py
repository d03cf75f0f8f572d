"""Requests in and out of a group, as far as anybody counts them; what nobody could count is None.

An engine's page counts first tokens and ends, and nothing of what was given up in between: aborts
vanish from a vLLM's page and from its spans alike. Starts and ends are taken from one source, and
what was in flight when the window began is added to the upper side of their difference.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from collector.query import Flow, Selection, Window
from collector.schema import TIERS_S
from collector.snapshot import Snapshot
from collector.tile_rows import held, plan, rows, totals
from domain.labels import SOURCES, Labels, project, value_of

__all__ = ["NO_FLOW", "flows"]

NO_FLOW = Flow(started=None, finished=None, failed=None, cancelled=None, rejected=None)
_STARTED, _FINISHED = "requests_started", "requests_finished"
_ENDED = ("requests_failed", "requests_cancelled", "requests_rejected")
_COUNTED_BY: Mapping[str, frozenset[str]] = {
    # why not spans: an engine makes no span of an answer that was given up, and none of a refusal
    "requests_failed": frozenset(("span", "client", "probe")),
    "requests_cancelled": frozenset(("client",)),
    "requests_rejected": frozenset(("client",)),
}
_RANK = {source: rank for rank, source in enumerate(SOURCES)}
_BEFORE_S = 60
_NS = 1_000_000_000

Place = tuple[str, str]  # service, replica


@dataclass(slots=True)
class _Counted:
    """Starts and ends of one group as one source counts them."""

    by: dict[str, float] = field(default_factory=dict)
    places: set[Place] = field(default_factory=set)

    @property
    def whole(self) -> bool:
        return self.by.keys() == {_STARTED, _FINISHED}


def flows(
    snapshot: Snapshot, selection: Selection, sources: Mapping[Labels, frozenset[str]]
) -> dict[Labels, Flow]:
    """One per group of which anything was counted. `sources`: who measured each group's latencies.

    Starts and ends are counted also where spans were asked for: only pages count them.
    """
    anyhow = replace(selection, where=tuple(p for p in selection.where if p[0] != "source"))
    counted = {
        labels: _best(by_source) for labels, by_source in _by_source(snapshot, anyhow).items()
    }
    before = _before(snapshot, anyhow)
    ended = {name: _increase(snapshot, name, selection) for name in _ENDED}
    clients = _clients(snapshot, anyhow)
    seen = set(sources).union(counted, *ended.values())
    found: dict[Labels, Flow] = {}
    for labels in seen:
        source, own = counted.get(labels, ("", _Counted()))
        heard = sources.get(labels, frozenset()) | ({"client"} if labels in clients else set())
        failed, cancelled, rejected = (
            _known(ended[name].get(labels), heard & _COUNTED_BY[name]) for name in _ENDED
        )
        found[labels] = Flow(
            started=_rounded(own.by.get(_STARTED)),
            finished=_rounded(own.by.get(_FINISHED)),
            failed=failed,
            cancelled=cancelled,
            rejected=rejected,
            in_flight_before=_in_flight(before.get((labels, source), {}), own.places),
        )
    return found


def _by_source(snapshot: Snapshot, selection: Selection) -> dict[Labels, dict[str, _Counted]]:
    found: defaultdict[Labels, defaultdict[str, _Counted]] = defaultdict(
        lambda: defaultdict(_Counted)
    )
    for metric in (_STARTED, _FINISHED):
        asked = plan(snapshot, metric, selection, sift=False)
        for series_id, increase in totals(snapshot, asked).items():
            labels, source, place = _owner(asked.series[series_id], selection)
            counted = found[labels][source]
            counted.by[metric] = counted.by.get(metric, 0.0) + increase
            counted.places.add(place)
    return {labels: dict(by_source) for labels, by_source in found.items()}


def _owner(own: Labels, selection: Selection) -> tuple[Labels, str, Place]:
    place = (value_of(own, "service"), value_of(own, "replica"))
    return project(own, selection.by), value_of(own, "source"), place


def _best(by_source: Mapping[str, _Counted]) -> tuple[str, _Counted]:
    """The source we believe first of those that count both; else the first that counts anything."""
    order = sorted(by_source, key=lambda each: _RANK.get(each, len(_RANK)))
    source = next((each for each in order if by_source[each].whole), order[0])
    return source, by_source[source]


def _before(
    snapshot: Snapshot, selection: Selection
) -> dict[tuple[Labels, str], dict[Place, float]]:
    """By group and source what ran in each place when the window began: the last reading before."""
    since_s = selection.window.since_s
    window = Window(since_s=since_s - _BEFORE_S, until_s=since_s + TIERS_S[0])
    asked = plan(snapshot, "requests_running", replace(selection, window=window), sift=False)
    newest: dict[int, tuple[int, float]] = {}
    for tier_s, (at_s, series_id, _, _, _, high, last, last_ns) in rows(snapshot, asked):
        # why high: of a tile that reaches into the window the first reading is not known
        value = last if last_ns <= since_s * _NS else high
        known = newest.get(series_id)
        if tier_s <= _BEFORE_S and at_s <= since_s and (known is None or at_s > known[0]):
            newest[series_id] = (at_s, value)
    found: defaultdict[tuple[Labels, str], dict[Place, float]] = defaultdict(dict)
    for series_id, (_, value) in newest.items():
        labels, source, place = _owner(asked.series[series_id], selection)
        of_group = found[labels, source]
        of_group[place] = of_group.get(place, 0.0) + value
    return found


def _in_flight(before: Mapping[Place, float], places: Iterable[Place]) -> int | None:
    """None unless every place that counted in the window was seen at its beginning."""
    values = [before.get(place) for place in places]
    known = [value for value in values if value is not None]
    return round(sum(known)) if known and len(known) == len(values) else None


def _clients(snapshot: Snapshot, selection: Selection) -> frozenset[Labels]:
    """The groups whose clients reported anything in the window, whoever else did."""
    where = (*selection.where, ("source", "client"))
    if not snapshot.labels.matching(where):
        return frozenset()
    asked = plan(snapshot, "e2e", replace(selection, where=where), sift=False)
    return frozenset(
        project(asked.series[number], selection.by) for _, _, number in held(snapshot, asked)
    )


def _increase(snapshot: Snapshot, metric: str, selection: Selection) -> dict[Labels, int]:
    asked = plan(snapshot, metric, selection)
    grown: dict[Labels, float] = {}
    for series_id, increase in totals(snapshot, asked).items():
        labels = project(asked.series[series_id], selection.by)
        grown[labels] = grown.get(labels, 0.0) + increase
    return {labels: round(increase) for labels, increase in grown.items()}


def _known(counted: int | None, counters: frozenset[str]) -> int | None:
    """What was counted; zero where somebody would have, None where nobody could."""
    if counted is not None:
        return counted
    return 0 if counters else None


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)
