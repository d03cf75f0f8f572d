"""One transaction of exports: read, sift what is known, observe, and write, all or nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from sqlalchemy import Connection

from collector import endpoint_points, segments
from collector.coverage import Coverage
from collector.cumulative import Cumulative
from collector.endpoint_rows import EndpointRows
from collector.intake import Outcome
from collector.joining import KnownLegs
from collector.legs import Floats, LegTable, concat
from collector.observing import observe, observe_joined
from collector.past import Ending
from collector.points import Ledgers, PointReader
from collector.retention import cutoffs
from collector.series import OTHER, SeriesIds
from collector.settings import CollectorSettings
from collector.span_columns import Times
from collector.spans import SpanReader, Spans
from collector.tiles import DirtyWindows, Growth, Tiles
from domain.endpoint import EndpointPoint

__all__ = ["Export", "Ingest"]

Export = (
    bytes | ExportMetricsServiceRequest | tuple[EndpointPoint, ...]
)  # spans as serialised: see `collector.lockstep`
_SECOND_NS = 1_000_000_000


class Ingest:
    """Everything the writer knows between transactions. Call `forget` when one came to nothing."""

    def __init__(self, settings: CollectorSettings) -> None:
        self.settings = settings
        self.dirty = DirtyWindows()
        self.cutoff_s: dict[int, int] = {}
        self.counts: Counter[str] = Counter()
        self.small_segments: Counter[int] = Counter()
        self.known = KnownLegs(join_window_s=settings.join_window_s)
        self._ids = SeriesIds(
            max_series=settings.max_series, max_label_values=settings.max_label_values
        )
        named = {"roles": settings.roles, "services": settings.services}
        self._spans = SpanReader(self._ids, **named)
        self._points = PointReader(self._ids, **named)
        self._coverage = Coverage()
        self._cumulative = Cumulative()
        self._growth = Growth()
        self._endpoints = EndpointRows()
        self._ending = Ending()
        self._loaded = False

    @property
    def crowd_of(self) -> Mapping[int, int]:
        """The crowd of each series."""
        return self._ids.crowds.of

    def load(self, connection: Connection) -> None:
        """What the store knows, as far as it must be in memory."""
        self._ids.load(connection)
        self.dirty.load(connection)
        self._ending.load(connection)
        if not self._loaded:
            self.cutoff_s.update(cutoffs(connection))
            self.small_segments.update(segments.hours_to_compact(connection))
            connection.exec_driver_sql(
                "INSERT OR REPLACE INTO meta VALUES ('join_window_s', ?)",
                (str(self.settings.join_window_s),),
            )
            self._loaded = True

    def forget(self) -> None:
        """The last transaction is not in the store: read anew what it may have changed."""
        for part in (
            self.dirty,
            self.known,
            self._ids,
            self._spans,
            self._coverage,
            self._cumulative,
            self._growth,
            self._endpoints,
            self._ending,
        ):
            part.forget()
        self.cutoff_s.clear()
        self.small_segments.clear()
        self._loaded = False

    def take(
        self, connection: Connection, exports: Sequence[Export], *, now_s: float, at_s: float
    ) -> list[Outcome]:
        """Store these exports; `at_s` is the clock by which windows fall quiet."""
        self.load(connection)
        counts, tiles, outcomes = Counter[str](), Tiles(), []
        times = self._times(now_s)
        ledgers = Ledgers(connection, self._coverage, self._cumulative)
        spans: list[Spans] = []
        for export in exports:
            if isinstance(export, bytes):
                read = self._spans.read(export, times)
                spans.append(read)
                counts.update(read.counts)
                counts["refused_spans_total"] += read.refused.total()
                outcomes.append(_outcome("span", read.refused, read.counts))
            elif isinstance(export, tuple):
                outcomes.append(self._endpoint_points(connection, export, counts))
            else:
                points = self._points.read(export, times, ledgers, tiles)
                counts.update(points.counts)
                counts["stored_points_total"] += len(points.ends_at_ns)
                counts["late_points_total"] += sum(
                    end < self._late_ns(now_s) for end in points.ends_at_ns
                )
                endpoints = endpoint_points.read(export, times)
                points.refused += endpoints.refused + self._endpoints.keep(
                    connection, endpoints.points, counts
                )
                counts["refused_points_total"] += points.refused.total()
                outcomes.append(_outcome("point", points.refused, points.counts))
        new = self._legs(connection, spans, tiles, counts, now_s)
        self._ids.save(connection)
        self._coverage.save(connection)
        self._cumulative.save(connection)
        windows = tiles.flush(connection, self.cutoff_s, self._growth, self.crowd_of)
        self.dirty.mark(connection, windows, at_s=at_s)
        self._ending.note(connection, tiles.oldest_s, now_s=now_s)
        if new is not None:
            self.known.remember(new)
        self.counts.update(counts)
        return outcomes

    def _endpoint_points(
        self, connection: Connection, points: Sequence[EndpointPoint], counts: Counter[str]
    ) -> Outcome:
        refused = self._endpoints.keep(connection, points, counts)
        counts["refused_points_total"] += refused.total()
        return _outcome("point", refused, Counter())

    def _legs(
        self,
        connection: Connection,
        spans: Sequence[Spans],
        tiles: Tiles,
        counts: Counter[str],
        now_s: float,
    ) -> LegTable | None:
        held = [each for each in spans if len(each.table)]
        if not held:
            return None
        table, gaps = concat([each.table for each in held]), _gaps(held)
        admitted = self.known.admit(connection, table, self._ids.labels)
        counts["duplicate_spans_total"] += len(table) - len(admitted.rows)
        if len(admitted.rows) < len(table):
            gaps = {at: gaps[row] for at, row in enumerate(admitted.rows.tolist()) if row in gaps}
            table = table.take(admitted.rows)
        if not len(table):
            return None
        observe(table, gaps, tiles)
        observe_joined(admitted.joined, self._ids.numbers, tiles, counts)
        for hour in segments.write(connection, table, stored_at_s=int(now_s)):
            self.small_segments[hour] += 1
        counts["stored_spans_total"] += len(table)
        counts["late_spans_total"] += int((table.end_at_ns < self._late_ns(now_s)).sum())
        return table

    def _times(self, now_s: float) -> Times:
        keep_s = max(self.settings.retention.by_tier().values())
        return Times(
            oldest_at_ns=int((now_s - keep_s) * _SECOND_NS),
            newest_at_ns=int((now_s + self.settings.max_future_s) * _SECOND_NS),
        )

    def _late_ns(self, now_s: float) -> int:
        return int((now_s - self.settings.lateness_s) * _SECOND_NS)


def _gaps(spans: Sequence[Spans]) -> dict[int, Floats]:
    """Gaps by row of the tables put together."""
    starts = np.cumsum([0, *(len(each.table) for each in spans)]).tolist()
    return {
        start + row: gaps
        for start, each in zip(starts, spans, strict=False)
        for row, gaps in each.gaps.items()
    }


def _outcome(unit: str, refused: Counter[str], counts: Counter[str]) -> Outcome:
    reasons = [
        f"{n} {unit}{'s' if n > 1 else ''} refused: {reason}"
        for reason, n in refused.most_common(5)
    ]
    if bounded := counts["bounded_labels_total"]:
        reasons.append(f"{bounded} series beyond the limits of labels and series became `{OTHER}`")
    return Outcome(rejected=refused.total(), message="; ".join(reasons))
