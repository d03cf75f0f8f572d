"""What Prometheus writes to us, put together into scrapes and handed on as a sidecar's exports.

Implements `collector.remote_write.Scrapes`. Samples are taken by many threads; one thread reads
what is whole. Everything that is held is bounded: targets, series, scrapes that wait.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collector.intake import Intake, Overloaded
from collector.log import RefusalLog
from collector.remote_write_series import Sample
from collector.remote_write_settings import RemoteWriteSettings
from domain.errors import StoreError
from domain.labels import Labels
from exporters.engine.engines import WANTED
from exporters.engine.reading import Reading
from stagewatch.prometheus.flow import UP, Flow, Scrape, Stream
from stagewatch.prometheus.keeping import Keeper
from stagewatch.prometheus.naming import Naming
from stagewatch.prometheus.targets import Target, Targets
from stagewatch.prometheus.watch import Watch, export_of

__all__ = ["Receiver"]

_LOG = logging.getLogger(__name__)
_LOOK_S: Final = 0.1
_RETRY_S: Final = 1.0
_SWEEP_S: Final = 60.0
_WAITING_PER_SERIES: Final = 4
_COUNTED: Final = (
    "begun_targets",
    "failovers",
    "faults",
    "forgotten_targets",
    "late_samples",
    "partial_scrapes",
    "refused_future",
    "refused_max_series",
    "refused_max_series_per_target",
    "refused_max_targets",
    "refused_native_histograms",
    "rejected_points",
    "scrapes",
    "scrapes_down",
    "series_of_no_target",
    "skipped_first_scrapes",
    "twin_scrapes",
)


class Receiver:
    """`now_ns` is the clock of time stamps, `clock_s` the one by which scrapes are waited for."""

    def __init__(
        self,
        settings: RemoteWriteSettings,
        intake: Intake,
        *,
        keeper: Keeper | None = None,
        max_future_s: float = 300.0,
        log: RefusalLog | None = None,
        clock_s: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._intake = intake
        self._keeper = keeper
        self._forget_after_ms = int(settings.forget_after_s * 1000)
        self._max_future_ms = int(max_future_s * 1000)
        self._log = log or RefusalLog()
        self._clock_s, self._now_ns = clock_s, now_ns
        self._naming = Naming(settings)
        self._targets = Targets(settings, self._naming, self._log)
        self._most_waiting = _WAITING_PER_SERIES * settings.max_series
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._waiting = 0
        self._swept_s = clock_s()

    def wanted(self, name: str) -> bool:
        return name in WANTED or name == UP

    def series(self, labels: Labels) -> Stream | None:
        with self._lock:
            return self._targets.stream(labels)

    def take(self, samples: Sequence[Sample]) -> None:
        now_s, latest_ms = self._clock_s(), self._now_ns() // 1_000_000 + self._max_future_ms
        with self._lock:
            if self._waiting > self._most_waiting:
                raise Overloaded(_RETRY_S)
            self._waiting += len(samples)  # at most; `read` counts them
            for handle, at_ms, value in samples:
                # why again: it was forgotten while the sender's labels were remembered
                stream = handle if handle.flow is not None else self._targets.stream(handle.labels)
                flow = stream.flow if stream is not None else None
                if stream is None or flow is None:
                    continue
                if 0 < at_ms <= latest_ms:
                    flow.put(stream, at_ms, value, now_s)
                else:
                    problem = "a sample's time is ahead of our clock, or none"
                    self._targets.refused("future", problem, stream.labels)

    def run(self, stop: threading.Event) -> None:
        """Read what is whole until `stop` is set; what waits then, later scrapes tell."""
        while not stop.wait(_LOOK_S):
            self.read(stop)

    def read(self, stop: threading.Event | None = None) -> None:
        """Read everything that is whole by now."""
        stop = stop or threading.Event()
        for target, sender, scrape in self._due():
            self._digest(target, sender, scrape, stop)
            if stop.is_set():
                return
        now_s = self._clock_s()
        with self._lock:
            self._waiting = sum(
                flow.held for target in self._targets for flow in target.flows.values()
            )
            if now_s - self._swept_s >= _SWEEP_S:
                self._swept_s = now_s
                self._targets.forget(now_s)

    def counts(self) -> Mapping[str, float]:
        """What was counted since the start, and how much is held."""
        with self._lock:
            counts = self._counts + self._targets.counts
            for target in self._targets:
                counts.update(target.watch.counts.copy())
                counts["failovers"] += target.belief.failovers
                for flow in target.flows.values():
                    counts.update(flow.counts)
            return {
                **{f"remote_write_{name}_total": counts[name] for name in _COUNTED},
                "remote_write_targets": len(self._targets),
                "remote_write_held_series": self._targets.series,
                "remote_write_waiting_samples": self._waiting,
            }

    def _due(self) -> Iterator[tuple[Target, Labels, Scrape]]:
        """Scrapes that are whole, of each target in order."""
        with self._lock:
            flows = [
                (target, sender, flow)
                for target in self._targets
                for sender, flow in target.flows.items()
                if flow.waiting
            ]
        for target, sender, flow in flows:
            while (scrape := self._next(flow)) is not None:
                yield target, sender, scrape

    def _next(self, flow: Flow) -> Scrape | None:
        with self._lock:
            return flow.next(self._clock_s())

    def _digest(
        self, target: Target, sender: Labels, scrape: Scrape, stop: threading.Event
    ) -> None:
        if self._keeper is not None and target.belief.at_ms < 0:
            self._restore(target, self._keeper, scrape.at_ms, stop)
        if not target.belief.admits(sender, scrape.at_ms):
            self._counts["twin_scrapes"] += 1
            return
        self._counts["scrapes" if scrape.is_up else "scrapes_down"] += 1
        try:
            reading = target.watch.read(scrape)
        except Exception:  # noqa: BLE001 - one target must not end the others: it is logged and counted
            _LOG.exception("a fault of ours while reading a scrape; its target begins anew")
            self._counts["faults"] += 1
            target.watch = Watch(self._naming)
            return
        if self._keeper is not None and scrape.is_up:
            self._keeper.keep(target.key, target.watch.recent, target.watch.spoken)
        self._send(reading, stop)

    def _restore(self, target: Target, keeper: Keeper, at_ms: int, stop: threading.Event) -> None:
        """Go on where the process before us ended, if that is not too long ago."""
        kept = keeper.kept(target.key)
        if not kept.scrapes or kept.scrapes[-1].at_ms < at_ms - self._forget_after_ms:
            return
        for reading in target.watch.restored(kept.scrapes, kept.spoken):
            self._send(reading, stop)
        target.belief.at_ms = kept.scrapes[-1].at_ms

    def _send(self, reading: Reading, stop: threading.Event) -> None:
        """Hand over until it is taken: what is not told now, nobody tells later."""
        export = export_of(reading)
        while (wait_s := self._offer(export)) > 0 and not stop.wait(wait_s):
            pass

    def _offer(self, export: ExportMetricsServiceRequest) -> float:
        """Seconds to wait before the next try; 0 where it was taken."""
        try:
            outcome = self._intake.metrics(export)
        except Overloaded as full:
            return full.retry_after_s
        except StoreError as error:
            self._log.refused("store", event="scrape_waits", problem=str(error))
            return _RETRY_S
        if outcome.rejected:
            self._counts["rejected_points"] += outcome.rejected
            self._log.refused("partial", event="scrape_refused", problem=outcome.message)
        return 0.0
