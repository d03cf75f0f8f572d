"""The one writer: exports queue up, several share a transaction, each returns once that is committed."""

from __future__ import annotations

import fcntl
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, Self

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from sqlalchemy import Connection

from collector import rollup, segments
from collector.ingest import Export, Ingest
from collector.intake import Outcome, Overloaded
from collector.retention import retire
from collector.settings import CollectorSettings
from collector.store import Store, errors_of
from domain.endpoint import EndpointPoint
from domain.errors import StoreError

__all__ = ["Writer"]

_LOG = logging.getLogger(__name__)
_GROUP_BYTES = 16 * 1024 * 1024
_POINT_BYTES = 512  # about what one takes in memory
_RETRY_AFTER_S = 1.0
_UPKEEP_S = 1.0
_RETENTION_S = 60.0
_WINDOWS = 32  # rolled in one transaction
_BUDGET_S = 0.25  # of upkeep while exports wait, and at the end
_CLOSE_BUDGET_S = 2.0


@dataclass(slots=True)
class _Task:
    """One export, or a piece of upkeep that somebody waits for."""

    work: Export | Callable[[], None]
    size_bytes: int
    done: Future[Outcome] = field(default_factory=Future)

    @property
    def is_upkeep(self) -> bool:
        return callable(self.work)


class Writer:
    """Implements `collector.intake.Intake` on a store that it alone writes."""

    def __init__(
        self,
        store: Store,
        settings: CollectorSettings,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._settings = settings
        self._now = now
        self._ingest = Ingest(settings)
        self._queue: deque[_Task] = deque()
        self._queued_bytes = 0
        self._changed = threading.Condition()
        self._closing = False
        self._problem: str | None = None
        self._saved: dict[str, int] = {}
        self._lock_file: IO[str] | None = None
        self._thread = threading.Thread(target=self._run, name="stagewatch-writer", daemon=True)
        self._connection: Connection | None = None
        self._upkeep_at_s = self._retention_at_s = 0.0

    def start(self) -> Self:
        """Take the store; refuses one that another process writes."""
        self._lock_file = _locked(self._store)
        self._retention_at_s = time.monotonic() + _RETENTION_S
        self._thread.start()
        return self

    def close(self) -> None:
        """Store what is queued, and let the store go."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        if self._lock_file is not None:
            self._lock_file.close()
            self._lock_file = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def traces(self, request: ExportTraceServiceRequest) -> Outcome:
        body = request.SerializeToString()
        return self._put(_Task(body, len(body))).result()

    def metrics(self, request: ExportMetricsServiceRequest) -> Outcome:
        return self._put(_Task(request, request.ByteSize())).result()

    def endpoints(self, points: Sequence[EndpointPoint]) -> Outcome:
        return self._put(_Task(tuple(points), _POINT_BYTES * len(points))).result()

    def settle(self) -> None:
        """Wait until all that was sent before is stored and every tier is complete."""
        self._put(_Task(lambda: self._roll(None), 0)).result()

    def retain(self) -> None:
        """Let go of what is older than it is kept, now and not at the next minute."""
        self._put(_Task(self._retain, 0)).result()

    def compact(self) -> None:
        """Merge the small segments of hours that have many, now."""
        self._put(_Task(self._compact, 0)).result()

    def counts(self) -> Mapping[str, float]:
        """What was counted since the start, and how much waits."""
        with self._changed:
            waiting = self._queued_bytes
        return {**self._ingest.counts.copy(), "queued_bytes": waiting}

    def problem(self) -> str | None:
        """Why nothing can be stored now, or None."""
        if not self._thread.is_alive():
            return "the writer is not running"
        return self._problem

    def _put(self, task: _Task) -> Future[Outcome]:
        with self._changed:
            if self._closing:
                raise Overloaded(_RETRY_AFTER_S)
            # why `and`: one export larger than the queue is taken when nothing else waits
            if self._queue and self._queued_bytes + task.size_bytes > self._settings.queue_bytes:
                self._ingest.counts["overloaded_total"] += 1
                raise Overloaded(_RETRY_AFTER_S)
            self._queue.append(task)
            self._queued_bytes += task.size_bytes
            self._changed.notify_all()
        return task.done

    def _take(self) -> list[_Task]:
        """The next group; empty when it is time for upkeep."""
        with self._changed:
            if not self._queue and not self._closing:
                self._changed.wait(_UPKEEP_S)
            group: list[_Task] = []
            size = 0
            while self._queue and size < _GROUP_BYTES:
                if self._queue[0].is_upkeep and group:
                    break
                task = self._queue.popleft()
                group.append(task)
                size += task.size_bytes
                if task.is_upkeep:
                    break
            self._queued_bytes -= size
            return group

    def _run(self) -> None:
        with self._store.engine.connect() as self._connection:
            while True:
                group = self._take()
                if group:
                    self._commit(group)
                elif self._closing:
                    break
                self._guarded(self._upkeep)
            self._guarded(self._finish)

    def _commit(self, group: list[_Task]) -> None:
        try:
            outcomes = self._store_group(group)
        except Exception as error:  # noqa: BLE001 - whoever sent it is told; the writer goes on
            self._ingest.forget()
            if len(group) > 1 and not isinstance(error, StoreError):
                for task in group:  # one of them is to blame: the others are not
                    self._commit([task])
                return
            self._failed(error)
            for task in group:
                task.done.set_exception(error)
            return
        self._problem = None
        for task, outcome in zip(group, outcomes, strict=True):
            task.done.set_result(outcome)

    def _store_group(self, group: list[_Task]) -> list[Outcome]:
        exports = []
        for task in group:
            if callable(task.work):  # stands alone in its group
                task.work()
                return [Outcome()]
            exports.append(task.work)
        with self._begin() as connection:
            return self._ingest.take(connection, exports, now_s=self._now(), at_s=time.monotonic())

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        if self._connection is None:
            raise RuntimeError("the writer's thread owns the connection")
        with errors_of(self._store.path), self._connection.begin():
            yield self._connection

    def _guarded(self, work: Callable[[], None]) -> None:
        """Upkeep that fails is tried again later; exports go on."""
        try:
            work()
        except Exception as error:  # noqa: BLE001 - it is logged, shown by `problem`, and tried again
            self._ingest.forget()
            self._failed(error)

    def _failed(self, error: Exception) -> None:
        if isinstance(error, StoreError):
            self._problem = str(error)
            _LOG.error("%s", error)
        else:
            _LOG.exception("the writer failed")

    def _upkeep(self) -> None:
        clock_s = time.monotonic()
        if clock_s - self._upkeep_at_s < _UPKEEP_S:
            return
        self._upkeep_at_s = clock_s
        with self._begin() as connection:
            self._ingest.load(connection)
            self._save_counts(connection)
            if self._problem is not None:  # can it be written again?
                connection.exec_driver_sql(
                    "INSERT OR REPLACE INTO meta VALUES ('probed_at_s', ?)",
                    (str(int(self._now())),),
                )
        self._problem = None
        self._roll(_BUDGET_S)
        if clock_s >= self._retention_at_s:
            self._retention_at_s = clock_s + _RETENTION_S
            self._retain()
        self._compact()

    def _retain(self) -> None:
        with self._begin() as connection:
            self._ingest.load(connection)
        retire(
            self._begin,
            self._ingest.dirty,
            self._ingest.cutoff_s,
            keep_s=self._settings.retention.by_tier(),
            requests_keep_s=self._settings.requests_retention_s,
            now_s=int(self._now()),
            crowd_of=self._ingest.crowd_of,
        )
        self._ingest.known.segments_changed()

    def _roll(self, budget_s: float | None) -> None:
        """Roll the windows that fell quiet, or without a budget all of them."""
        dirty, until_s = self._ingest.dirty, time.monotonic() + (budget_s or 0.0)
        with self._begin() as connection:
            self._ingest.load(connection)
        now_s = float("inf") if budget_s is None else time.monotonic()
        due = rollup.due(dirty, now_s=now_s)
        for at in range(0, len(due), _WINDOWS):
            with self._begin() as connection:
                rollup.roll(connection, dirty, due[at : at + _WINDOWS], self._ingest.crowd_of)
            if budget_s is not None and time.monotonic() > until_s:
                return

    def _compact(self) -> None:
        small = self._ingest.small_segments
        for hour, count in list(small.items()):
            if count >= segments.MANY:
                with self._begin() as connection:
                    segments.compact_hour(connection, hour)
                self._ingest.known.segments_changed()
                small[hour] = 0
                return

    def _save_counts(self, connection: Connection) -> None:
        now = dict(self._ingest.counts)
        grown = [(name, n - self._saved.get(name, 0)) for name, n in now.items()]
        if changed := [(name, by) for name, by in grown if by]:
            connection.exec_driver_sql(
                "INSERT INTO counts VALUES (?, ?)"
                " ON CONFLICT (name) DO UPDATE SET value = value + excluded.value",
                changed,
            )
        self._saved = now

    def _finish(self) -> None:
        self._roll(_CLOSE_BUDGET_S)
        with self._begin() as connection:
            self._save_counts(connection)


def _locked(store: Store) -> IO[str]:
    """Hold the store for this process; the system lets go of it even after a kill."""
    path = store.path.with_name(store.path.name + ".lock")
    file = path.open("w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        file.close()
        raise StoreError(
            "another process is writing",
            where=str(store.path),
            remedy="One collector owns a store: stop the other one, or send to it with `--url`.",
        ) from error
    return file
