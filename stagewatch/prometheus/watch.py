"""One target of Prometheus: its scrapes, one after the other, as what a sidecar would have said.

Counting begins with the first scrape that can be read whole. A series whose first words came late,
and are as old as that one, counts from them and not from zero.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from collector.native_histogram import NativeHistogram
from collector.remote_write_series import NAME
from domain.distribution import EMPTY
from domain.labels import Labels
from exporters.engine.failure import ScrapeError
from exporters.engine.otlp import export_request
from exporters.engine.reading import Latency, Reading
from exporters.engine.target import TargetState
from exporters.engine.text import page_of
from stagewatch.prometheus.classic import Window, classic
from stagewatch.prometheus.flow import UP, Scrape, Stream, Value
from stagewatch.prometheus.naming import Naming, common

__all__ = ["Spoken", "Told", "Watch", "export_of"]

_TRIES: Final = 3  # a family that is always refused must not keep the others waiting
_MS_NS: Final = 1_000_000
_DOWN = ScrapeError(
    "target_down",
    "Prometheus says that the target does not answer",
    where="up",
    remedy="See the page `Targets` of that Prometheus.",
)

Spoken = tuple[str, Labels]
"""A metric and the labels of one of its series."""

Line = tuple[str, Labels, float]
"""A sample as a page has it: name, labels with `le`, value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A scrape as lines of a page, and whose it is."""

    at_ms: int
    lines: tuple[Line, ...]
    ours: Labels


@dataclass(slots=True)
class Watch:
    """What is remembered of a target.

    `recent` are the last scrapes that all is counted from, `spoken` the latencies ever told.
    """

    naming: Naming
    recent: list[Told] = field(default_factory=list)
    spoken: dict[Spoken, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    _state: TargetState | None = None
    _base_at_ms: int = -1
    _tries: int = 0
    _windows: dict[tuple[str, Labels], Window] = field(default_factory=dict)

    def restored(self, scrapes: Iterable[Told], spoken: Mapping[Spoken, str]) -> list[Reading]:
        """Go on where another process ended: what it may not have told any more is told again."""
        self.spoken = dict(spoken)
        readings = []
        for told in scrapes:
            is_first = self._state is None
            reading = self._observe(told)
            if not is_first:
                readings.append(reading)
        self._base_at_ms = -1  # why: how old series are that come now, nobody knows
        return readings

    def read(self, scrape: Scrape) -> Reading:
        """What is new since the scrape before, or how it is now where there was none."""
        ours = self._ours(scrape)
        if not scrape.is_up:
            self._state = self._state or TargetState(ours)
            return self._state.failed(_DOWN, scrape.at_ms * _MS_NS)
        strange = self._strange(scrape)
        told = Told(at_ms=scrape.at_ms, lines=self._lines(scrape.values, strange), ours=ours)
        if self.recent:
            self._begin_again(told, self._late(scrape, strange))
        is_base = not self.recent
        reading = self._observe(told)
        if is_base and self.recent:
            self._base_at_ms = told.at_ms
            self._tries += 1
            if _refused(reading) and self._tries < _TRIES:
                self._state, self.recent = None, []
            else:
                self.counts["begun_targets"] += 1
                self.spoken = _may_speak(told)
        return reading

    def _observe(self, told: Told) -> Reading:
        state = self._state = self._state or TargetState(told.ours)
        page = page_of((name, dict(labels), value) for name, labels, value in told.lines)
        reading = state.observe(page, told.at_ms * _MS_NS)
        if reading.up:
            reading = self._with_silence(reading)
            if not _refused(reading):
                del self.recent[:-1]
            self.recent.append(told)
        elif state.page_at_ns is None:  # it could not be told from another engine
            self.recent.clear()
        return reading

    def _with_silence(self, reading: Reading) -> Reading:
        """With an empty pair for every latency that took no value.

        why: the ledger of intervals must know the quiet ones too, or a longer interval around
        them, told later, would be counted again.
        """
        told = {(each.metric, each.labels): each.sample for each in reading.latencies}
        silent = tuple(
            Latency(
                metric=metric,
                labels=labels,
                start_at_ns=self.recent[-1].at_ms * _MS_NS,
                distribution=EMPTY,
                sample=sample,
            )
            for (metric, labels), sample in self.spoken.items()
            if self.recent and (metric, labels) not in told
        )
        self.spoken |= told
        return replace(reading, latencies=(*reading.latencies, *silent))

    def _begin_again(self, told: Told, late: tuple[Line, ...]) -> None:
        """Compare with the last scrape anew: the target has another name, or more of it is known."""
        last = self.recent[-1]
        if told.ours == last.ours and not late:
            return
        self._state, self.recent = None, []
        base = Told(at_ms=last.at_ms, lines=(*last.lines, *late), ours=told.ours)
        self._observe(base)
        self.spoken = _may_speak(base)

    def _late(self, scrape: Scrape, strange: frozenset[str]) -> tuple[Line, ...]:
        """What series said that were there when counting began, and only now are heard of."""
        first = {
            one: value for one, (at_ms, value) in scrape.late.items() if at_ms <= self._base_at_ms
        }
        return self._lines(first, strange) if first else ()

    def _ours(self, scrape: Scrape) -> Labels:
        up = next((one for one in scrape.values if one.name == UP), None)
        if up is not None:
            return self.naming.ours(dict(up.labels))
        return self.naming.ours(common(one.labels for one in scrape.values))

    def _strange(self, scrape: Scrape) -> frozenset[str]:
        """Labels that are the target's and not the engine's: `up` carries them and no others."""
        up = (one for one in scrape.values if one.name == UP)
        return self.naming.strange(name for one in up for name, _ in one.labels)

    def _lines(self, values: Mapping[Stream, Value], strange: frozenset[str]) -> tuple[Line, ...]:
        classics = {one.name for one in values}
        lines: list[Line] = []
        for stream, value in values.items():
            if stream.name == UP:
                continue
            labels = _own(stream, strange)
            if not isinstance(value, NativeHistogram):
                lines.append((stream.name, labels, value))
            elif f"{stream.name}_bucket" not in classics:  # it may be sent in both shapes
                lines.extend(self._classic(stream.name, labels, value))
        return tuple(lines)

    def _classic(self, name: str, labels: Labels, value: NativeHistogram) -> Iterable[Line]:
        found = classic(value, self._windows.get((name, labels)))
        if found is None:
            self.counts["refused_native_histograms"] += 1
            return
        samples, self._windows[name, labels] = found
        for ending, le, number in samples:
            yield name + ending, labels if le is None else (*labels, ("le", le)), number


def export_of(reading: Reading) -> ExportMetricsServiceRequest:
    """The export of a sidecar, without what only says in which process it was made.

    why: such attributes are part of a stream's name, and the same scrape read by another process
    or version of us must be known again.
    """
    request = export_request(reading)
    for metrics in request.resource_metrics:
        metrics.resource.CopyFrom(_resource(reading.target))
    return request


@lru_cache(maxsize=4096)
def _resource(target: Labels) -> Resource:
    resource = Resource()
    for name, value in target:
        if name != "source":
            resource.attributes.add(key=f"stagewatch.{name}").value.string_value = value
    return resource


def _own(stream: Stream, strange: frozenset[str]) -> Labels:
    """The labels that the engine itself gave a series; remembered, they rarely change."""
    if stream.own is None or stream.own[0] != strange:
        kept = (pair for pair in stream.labels if pair[0] not in strange and pair[0] != NAME)
        stream.own = strange, tuple(kept)
    return stream.own[1]


def _may_speak(told: Told) -> dict[Spoken, str]:
    """Every latency of a page, silent ones too: what it would tell with one more value in each."""
    lines = (
        (name, dict(labels), value + (name.endswith("_count") or ("le", "+Inf") in labels))
        for name, labels, value in told.lines
    )
    state = TargetState(told.ours, from_zero=True)
    reading = state.observe(page_of(lines), told.at_ms * _MS_NS)
    return {(each.metric, each.labels): each.sample for each in reading.latencies}


def _refused(reading: Reading) -> bool:
    return any(each.metric == "refused_families" for each in reading.increments)
