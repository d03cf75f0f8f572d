"""How fresh the data are: newest and oldest of each replica, and up to where all of it has arrived."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from collector.cover import TileRange
from collector.crowds import names_a_place
from collector.query import Freshness, Replica, Selection, Window
from collector.schema import TIERS_S
from collector.snapshot import Snapshot
from collector.tile_rows import Plan, plan, sources, split
from domain.labels import Labels, labels_of, value_of
from domain.metric import METRICS, Kind

__all__ = ["freshness", "label_values", "watermark_s"]

_NS = 1_000_000_000
_LIVE_S = 60
_RECENT_S = 300
_FINE_S = TIERS_S[1]
_TELLING = ("up", "requests_running", "ttft", "e2e", "queue")
"""Among these is something that every source tells."""

_PLACE = ("service", "replica", "role", "pool", "engine", "model", "region", "zone")


@dataclass(slots=True)
class _Told:
    """What one series says in the window."""

    newest_at_s: int
    oldest_at_s: int
    tier_s: int  # of the tile in which that was
    up: tuple[int, bool] | None  # when it said so, and what


@dataclass(slots=True)
class _Seen:
    """One replica: its newest and oldest data, what it last said of itself, what it is."""

    newest_at_s: int = 0
    oldest_at_s: int | None = None
    up: tuple[int, bool] | None = None
    labels: dict[str, set[str]] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)

    def add(self, labels: Mapping[str, str], told: _Told) -> None:
        self.newest_at_s = max(self.newest_at_s, told.newest_at_s)
        known_s = told.oldest_at_s if self.oldest_at_s is None else self.oldest_at_s
        self.oldest_at_s = min(known_s, told.oldest_at_s)
        if told.up is not None and (self.up is None or told.up[0] >= self.up[0]):
            self.up = told.up
        self.sources.add(labels.get("source", ""))
        for name in _PLACE:
            if value := labels.get(name):
                self.labels.setdefault(name, set()).add(value)

    def replica(self) -> Replica:
        """Of labels with several values (two models of one engine) none is its label."""
        told = {
            name: next(iter(values)) for name, values in self.labels.items() if len(values) == 1
        }
        return Replica(
            labels=labels_of(told),
            last_seen_at_s=self.newest_at_s,
            up=None if self.up is None else self.up[1],
            since_s=self.oldest_at_s,
            sources=frozenset(self.sources - {""}),
        )


def freshness(snapshot: Snapshot, window: Window, *, service: str = "") -> list[Freshness]:
    """Every service that the store knows, or one: the newest of its data in the window, its replicas."""
    by_id = snapshot.labels.by_id
    where = labels_of({"service": service})
    seen: dict[str, dict[str, _Seen]] = {
        value_of(by_id[number], "service"): {} for number in snapshot.labels.matching(where)
    }
    for series_id, told in _told_by_any(snapshot, window, where).items():
        own = dict(by_id[series_id])
        replicas = seen[own.get("service", "")]
        replicas.setdefault(own.get("replica", ""), _Seen()).add(own, told)
    return [
        Freshness(
            service=service,
            newest_at_s=max((each.newest_at_s for each in replicas.values()), default=None),
            since_s=min(
                (each.oldest_at_s for each in replicas.values() if each.oldest_at_s is not None),
                default=None,
            ),
            replicas=[
                each.replica()
                for name, each in sorted(replicas.items())
                if name or len(replicas) == 1
            ],
        )
        for service, replicas in sorted(seen.items())
        if service
    ]


def _told_by_any(snapshot: Snapshot, window: Window, where: Labels) -> dict[int, _Told]:
    """By series what all metrics together say."""
    found: dict[int, _Told] = {}
    for metric in _TELLING:
        for series_id, told in _told(snapshot, metric, window, where).items():
            known = found.setdefault(series_id, told)
            known.newest_at_s = max(known.newest_at_s, told.newest_at_s)
            known.oldest_at_s = min(known.oldest_at_s, told.oldest_at_s)
    return found


def _told(snapshot: Snapshot, metric: str, window: Window, where: Labels) -> dict[int, _Told]:
    """By series its newest and oldest, and whether it said that it is up."""
    found: dict[int, _Told] = {}
    for part, coarsest_s in _by_age(window):
        for tier_s, first_s, series_id, newest_s, up in _each(
            snapshot, metric, part, coarsest_s, where
        ):
            told = found.get(series_id)
            if told is None:
                found[series_id] = _Told(newest_s, first_s, tier_s, up)
                continue
            if newest_s >= told.newest_at_s:
                told.newest_at_s, told.up = newest_s, up
            if first_s < told.oldest_at_s:
                told.oldest_at_s, told.tier_s = first_s, tier_s
    _refine(snapshot, metric, found, where)
    for told in found.values():
        told.oldest_at_s = max(told.oldest_at_s, window.since_s)
    return found


def _refine(snapshot: Snapshot, metric: str, found: Mapping[int, _Told], where: Labels) -> None:
    """When within a coarse tile those began that it is the oldest of."""
    coarse = {(t.oldest_at_s, t.tier_s) for t in found.values() if t.tier_s > _FINE_S}
    for at_s, tier_s in coarse:
        inside = Window(since_s=at_s, until_s=at_s + tier_s)
        first: dict[int, int] = {}
        for _, first_s, series_id, _, _ in _each(snapshot, metric, inside, _FINE_S, where):
            first[series_id] = min(first_s, first.get(series_id, first_s))
        for series_id, first_s in first.items():
            told = found.get(series_id)
            if told is not None and (told.oldest_at_s, told.tier_s) == (at_s, tier_s):
                told.oldest_at_s = first_s


def _each(
    snapshot: Snapshot, metric: str, part: Window, coarsest_s: int, where: Labels
) -> Iterator[tuple[int, int, int, int, tuple[int, bool] | None]]:
    """By run of tiles, of each series: tier, first tile, its newest, and whether that says it is up."""
    selection = Selection(window=part, where=where)
    asked = plan(snapshot, metric, selection, coarsest_s=coarsest_s, sift=False)
    over, open_ = split(asked.tiles, snapshot.over_s)
    key = ("told", metric, where, len(asked.series), tuple(over))
    yield from snapshot.of_the_past(key, lambda: list(_of_runs(snapshot, asked, over)))
    yield from _of_runs(snapshot, asked, open_)


def _of_runs(
    snapshot: Snapshot, asked: Plan, runs: Sequence[TileRange]
) -> Iterator[tuple[int, int, int, int, tuple[int, bool] | None]]:
    metric, series = asked.metric, sorted(asked.series)
    newest = "max(at_s)" if METRICS[metric].kind is Kind.LATENCY else f"max(last_at_ns) / {_NS}"
    for run in runs if series else ():
        for source, parameters in sources(snapshot, metric, [run], series):
            last: dict[int, bool] = {}
            if metric == "up":
                # why alone: a bare column is of the maximum's row only where that is the only one
                sql = f"SELECT series_id, last >= 1, max(last_at_ns) {source} GROUP BY series_id"
                last = {number: bool(up) for number, up, _ in snapshot.rows(sql, parameters)}
            sql = f"SELECT series_id, min(at_s), {newest} {source} GROUP BY series_id"
            for series_id, first_s, newest_s in snapshot.rows(sql, parameters):
                if series_id in asked.series:
                    up = (newest_s, last[series_id]) if series_id in last else None
                    yield run.tier_s, first_s, series_id, newest_s, up


def _by_age(window: Window) -> list[tuple[Window, int]]:
    """The recent part to ten seconds; of the rest a tile's start is near enough."""
    middle_s = max(window.since_s, window.until_s - _RECENT_S)
    recent = (Window(since_s=middle_s, until_s=window.until_s), TIERS_S[0])
    if middle_s == window.since_s:
        return [recent]
    return [(Window(since_s=window.since_s, until_s=middle_s), TIERS_S[-1]), recent]


def label_values(snapshot: Snapshot, name: str, window: Window) -> list[str]:
    """The values a label took in the window, sorted."""
    grouping = snapshot.labels.grouping((), (name,))
    unheard = {place for place, labels in enumerate(grouping.names) if labels}
    apart = names_a_place((name,))
    for part, metric in _until_heard(window, apart=apart):
        if not unheard:
            break
        told = _heard(snapshot, metric, part, crowded=not apart)
        unheard -= {grouping.group_of[number] for number in told}
    return sorted(
        value_of(labels, name)
        for place, labels in enumerate(grouping.names)
        if labels and place not in unheard
    )


def _heard(snapshot: Snapshot, metric: str, window: Window, *, crowded: bool) -> frozenset[int]:
    """The series, or the first of their crowds, of which there is anything in a window."""
    asked = plan(snapshot, metric, Selection(window=window), sift=False)
    over, open_ = split(asked.tiles, snapshot.over_s)
    key = ("heard", metric, crowded, tuple(over))
    (before,) = snapshot.of_the_past(
        key, lambda: (_of_tiles(snapshot, metric, over, crowded=crowded),)
    )
    return before | _of_tiles(snapshot, metric, open_, crowded=crowded)


def _of_tiles(
    snapshot: Snapshot, metric: str, runs: Sequence[TileRange], *, crowded: bool
) -> frozenset[int]:
    every, latency = list(snapshot.labels.by_id), METRICS[metric].kind is Kind.LATENCY
    return frozenset(
        number
        for run in runs
        for where, parameters in sources(
            snapshot, metric, [run], every, crowded=crowded and latency and run.tier_s >= _FINE_S
        )
        for (number,) in snapshot.rows(f"SELECT DISTINCT series_id {where}", parameters)
    )


def _until_heard(window: Window, *, apart: bool) -> Iterator[tuple[Window, str]]:
    """Where to look: most values are heard of in the last minutes, of metrics that all tell.

    Those of latencies come first where crowds tell them: they are few.
    """
    until_s = window.until_s // _FINE_S * _FINE_S
    if until_s - _RECENT_S >= window.since_s:
        recent = Window(since_s=until_s - _RECENT_S, until_s=until_s)
        order = _TELLING if apart else _TELLING[::-1]
        yield from ((recent, metric) for metric in order)
    yield from ((window, metric) for metric in _TELLING)
    yield from ((window, metric) for metric in METRICS if metric not in _TELLING)


def watermark_s(snapshot: Snapshot, *, now_s: float) -> int | None:
    """The oldest of the last readings of all pages that still answer, or the newest data.

    Spans have no heartbeat: where there are only spans, their newest end is all that is known.
    A page that said nothing for a minute is no longer waited for.
    """
    newest_s = min(_newest_s(snapshot), int(now_s))
    if newest_s <= 0:
        return None
    last_ns = snapshot.rows(
        f"SELECT max(last_at_ns) FROM number_{TIERS_S[0]}"  # noqa: S608 - names of ours
        " WHERE metric = ? AND at_s >= ? GROUP BY series_id",
        (METRICS["up"].number, newest_s - _LIVE_S - TIERS_S[0]),
    )
    live_s: list[int] = [at_ns // _NS for (at_ns,) in last_ns if at_ns // _NS >= newest_s - _LIVE_S]
    return min([newest_s, *live_s])


def _newest_s(snapshot: Snapshot) -> int:
    """The newest instant of which anything is known that has to do with requests."""
    for tier_s in TIERS_S:
        newest = [0]
        for metric in (each for each in METRICS.values() if each.of_requests):
            table = "histogram" if metric.kind is Kind.LATENCY else "number"
            ((at_s,),) = snapshot.rows(
                f"SELECT max(at_s) FROM {table}_{tier_s} WHERE metric = ?",  # noqa: S608 - names of ours
                (metric.number,),
            )
            newest.append(at_s or 0)
        if max(newest):
            return max(newest)
    return 0
