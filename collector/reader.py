"""The query door's hinge: every question of `collector.query.Reader`, each in one read transaction."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import overload

from collector import (
    breakdown,
    conditions,
    endpoint_series,
    endpoint_slices,
    gpus,
    liveness,
    readings,
    request_rows,
)
from collector.cover import Piece
from collector.edges import decided_around
from collector.gathered import Gathered
from collector.leg_columns import legs
from collector.query import (
    EndpointSeries,
    Freshness,
    Numbers,
    Point,
    Selection,
    Series,
    Stages,
    Window,
)
from collector.request_cloud import Joined, columns
from collector.segment_cache import Segments
from collector.slices import Slices
from collector.snapshot import Snapshot, Snapshots
from collector.store import Store
from collector.tile_rows import gather, plan
from domain.condition import Condition, ConditionKind
from domain.errors import InputError
from domain.gpu import Gpus
from domain.indicator import EndpointIndicator, Indicator, LatencyIndicator
from domain.labels import Labels, value_of
from domain.leg_columns import LegColumns
from domain.metric import COUNTERS, GAUGES, LATENCIES
from domain.own_work import own_work
from domain.request import Request
from domain.request_columns import RequestColumns, Traced
from domain.slice import Slice

__all__ = ["StoreReader"]

_SETTLED_S, _LOOKED_AT_S = 120, 600  # requests of which a span is missing: of these ten minutes


class StoreReader:
    """Reads a store, also one that another process writes. Many threads may ask at once."""

    def __init__(
        self, store: Path | Store, *, connections: int = 4, now: Callable[[], float] = time.time
    ) -> None:
        path = store.path if isinstance(store, Store) else store
        self._snapshots = Snapshots(path, connections=connections)
        self._segments = Segments()
        self._slices = Slices(self._segments)
        self._joined = Joined()
        self._now = now

    def close(self) -> None:
        self._snapshots.close()

    @contextmanager
    def _open(self, question: str) -> Iterator[Snapshot]:
        asked = {"db.system.name": "sqlite", "db.operation.name": question}
        with own_work(f"query {question}", asked), self._snapshots.open() as snapshot:
            yield snapshot

    def latency(self, metric: str, selection: Selection) -> list[Series]:
        _check(metric, LATENCIES)
        with self._open("latency") as snapshot:
            return _latency(snapshot, metric, selection)

    def numbers(self, metric: str, selection: Selection) -> list[Numbers]:
        _check(metric, GAUGES + COUNTERS)
        with self._open("numbers") as snapshot:
            return readings.numbers(snapshot, metric, selection)

    def stages(self, selection: Selection) -> list[Stages]:
        with self._open("stages") as snapshot:
            return breakdown.stages(snapshot, selection)

    def requests(
        self, window: Window, *, where: Labels = (), limit: int = 100, slowest_by: str | None = None
    ) -> list[Request]:
        with self._open("requests") as snapshot:
            if slowest_by is None:
                return request_rows.newest(snapshot, self._segments, window, where, limit)
            return request_rows.slowest(
                snapshot, self._segments, window, where, limit, order=slowest_by
            )

    def request(self, trace_id: bytes) -> Request | None:
        with self._open("request") as snapshot:
            found = request_rows.of_trace(snapshot, self._segments, trace_id)
            return found[0].request if found else None

    def traced(self, trace_id: bytes) -> list[Traced]:
        with self._open("traced") as snapshot:
            return request_rows.of_trace(snapshot, self._segments, trace_id)

    def request_columns(self, window: Window, *, where: Labels = ()) -> RequestColumns:
        with self._open("request_columns") as snapshot:
            return columns(snapshot, self._segments, self._joined, window, where)

    def legs(self, window: Window, *, where: Labels = (), most: int = 20_000) -> LegColumns:
        with self._open("legs") as snapshot:
            return legs(snapshot, self._segments, window, where, most=most)

    def slices(self, indicator: Indicator, window: Window) -> list[Slice]:
        with self._open("slices") as snapshot:
            return self._slices.of(snapshot, indicator, window, now_s=self._now())

    def slices_of(self, indicators: Sequence[Indicator], window: Window) -> list[list[Slice]]:
        with self._open("slices_of") as snapshot:
            return self._slices.of_many(snapshot, indicators, window, now_s=self._now())

    def settled_s(self, indicator: Indicator, now_s: float) -> int | None:
        if not isinstance(indicator, EndpointIndicator):
            return None
        with self._open("settled_s") as snapshot:
            return endpoint_slices.settled_s(snapshot, indicator, now_s)

    def edges_around(
        self, indicator: Indicator, window: Window
    ) -> tuple[Fraction, Fraction] | None:
        if not isinstance(indicator, LatencyIndicator):
            return None
        found = self.latency(indicator.metric, Selection(window=window, where=indicator.where))
        distributions = [point.distribution for each in found for point in each.points]
        return decided_around(distributions, indicator.threshold_s)

    def endpoints(
        self, window: Window, *, service: str = "", metric: str = ""
    ) -> list[EndpointSeries]:
        with self._open("endpoints") as snapshot:
            return endpoint_series.endpoints(
                snapshot, window, service=service, metric=metric, now_s=self._now()
            )

    def gpus(self, window: Window, *, where: Labels = (), step_s: int | None = None) -> Gpus:
        with self._open("gpus") as snapshot:
            return gpus.gpus(snapshot, window, where=where, step_s=step_s)

    def label_values(self, name: str, window: Window) -> list[str]:
        with self._open("label_values") as snapshot:
            return liveness.label_values(snapshot, name, window)

    def freshness(self, window: Window, *, service: str = "") -> list[Freshness]:
        with self._open("freshness") as snapshot:
            return liveness.freshness(snapshot, window, service=service)

    def conditions(
        self,
        at_s: int,
        *,
        where: Labels = (),
        kinds: Collection[ConditionKind] = tuple(ConditionKind),
        over_within_s: int = 120,
    ) -> list[Condition]:
        with self._open("conditions") as snapshot:
            return conditions.conditions(
                snapshot, at_s=at_s, where=where, kinds=kinds, over_within_s=over_within_s
            )

    def watermark_s(self) -> int | None:
        with self._open("watermark_s") as snapshot:
            return liveness.watermark_s(snapshot, now_s=self._now())

    def health(self) -> Mapping[str, float]:
        with self._open("health") as snapshot:
            found = {name: float(value) for name, value in snapshot.rows("SELECT * FROM counts")}
            found["store_bytes"] = float(self._snapshots.path.stat().st_size)
            for name, table in (
                ("series", "series"),
                ("dirty_tiles", "dirty"),
                ("segments", "segment"),
            ):
                ((count,),) = snapshot.rows(f"SELECT count(*) FROM {table}")  # noqa: S608 - ours
                found[name] = float(count)
            until_s = int(self._now()) - _SETTLED_S
            window = Window(since_s=until_s - _LOOKED_AT_S, until_s=until_s)
            found["incomplete_requests"] = float(
                request_rows.incomplete(snapshot, self._segments, window)
            )
            return found

    def export(self, window: Window, *, where: Labels = ()) -> Iterator[Request]:
        with self._open("export") as snapshot:
            yield from request_rows.streamed(snapshot, self._segments, window, where)


def _latency(snapshot: Snapshot, metric: str, selection: Selection) -> list[Series]:
    asked = plan(snapshot, metric, selection, crowded=True)
    grouping = snapshot.labels.grouping(selection.where, selection.by)
    names, group_of = grouping.names, grouping.group_of
    found = gather(snapshot, asked, group_of)
    sources: defaultdict[int, set[str]] = defaultdict(set)
    for number in found.seen:
        sources[group_of[number]].add(value_of(asked.series[number], "source"))
    points: defaultdict[int, list[tuple[Piece, Gathered]]] = defaultdict(list)
    for (group, step), tiles in sorted(found.tiles.items(), key=lambda item: item[0]):
        points[group].append((asked.steps[step], tiles))
    return [
        Series(
            labels=names[group],
            points=_Points(points[group]),
            sources=frozenset(sources[group]),
        )
        for group in sorted(points)
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Points(Sequence[Point]):
    """The steps of a series. A distribution is made when it is looked at: thousands would be dense."""

    steps: Sequence[tuple[Piece, Gathered]]

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, index: int) -> Point: ...
    @overload
    def __getitem__(self, index: slice) -> list[Point]: ...
    def __getitem__(self, index: int | slice) -> Point | list[Point]:
        if isinstance(index, slice):
            return [_point(*step) for step in self.steps[index]]
        return _point(*self.steps[index])


def _point(step: Piece, tiles: Gathered) -> Point:
    return Point(
        since_s=step.since_s,
        until_s=step.until_s,
        distribution=tiles.distribution(),
        failed=tiles.failed,
    )


def _check(metric: str, known: Sequence[str]) -> None:
    if metric not in known:
        raise InputError(
            f"{metric!r} is not known here",
            where="metric",
            remedy=f"Use one of {', '.join(known)}.",
        )
