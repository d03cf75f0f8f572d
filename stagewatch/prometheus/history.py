"""The past of an existing Prometheus as the exports that would have come had it written to us then.

The scrapes are read at the instants at which they were made, so their intervals are those of
remote-write: what was told before, by it or by an earlier import, is known again and not counted.
Counting begins with the last scrape before the window, so windows side by side leave nothing out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collector.remote_write_series import NAME
from collector.remote_write_settings import RemoteWriteSettings
from domain.errors import ConfigError, InputError
from domain.labels import Labels
from exporters.engine.engines import WANTED
from exporters.engine.table import OF_EVERY_PROCESS
from stagewatch.prometheus.api import PrometheusApi, Remembered, TooMuch
from stagewatch.prometheus.belief import Belief
from stagewatch.prometheus.flow import UP, Scrape, Stream, Value
from stagewatch.prometheus.naming import Naming, Whose
from stagewatch.prometheus.watch import Watch, export_of

__all__ = ["History", "Progress", "Span"]

_EVERYWHERE: Final = OF_EVERY_PROCESS | {UP}
_LEAD_MS: Final = 300_000
_FIRST_CHUNK_MS: Final = 300_000
_SHORTEST_CHUNK_MS: Final = 1_000
_LONGEST_CHUNK_MS: Final = 6 * 3_600_000
_MANY_SAMPLES: Final = 300_000
_BATCH: Final = 64
_MATCHERS: Final = re.compile(r"\{(.*)\}", re.DOTALL)

_Page = tuple[int, Whose]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The window, and the shortest time from one scrape to the next that is read (0: all)."""

    since_ms: int
    until_ms: int
    step_ms: int = 0


@dataclass(slots=True)
class Progress:
    """How far it has come."""

    at_ms: int = 0
    scrapes: int = 0
    samples: int = 0
    targets: int = 0
    counts: Counter[str] = field(default_factory=Counter)


class History:
    """One window of one Prometheus."""

    def __init__(
        self,
        api: PrometheusApi,
        settings: RemoteWriteSettings,
        *,
        selector: str = "{}",
        external: Mapping[str, str] | None = None,
        told: Callable[[Progress], None] = lambda _: None,
    ) -> None:
        self.progress = Progress()
        self._api = api
        self._naming = Naming(settings)
        self._failover_ms = int(settings.failover_s * 1000)
        self._forget_after_ms = int(settings.forget_after_s * 1000)
        self._job = settings.service_label
        self._matchers = _matchers(selector)
        self._told = told
        self._watches: dict[Labels, Watch] = {}
        self._beliefs: dict[Labels, Belief] = {}
        self._streams: dict[Labels, Stream] = {}
        self._external = external

    def exports(self, span: Span) -> Iterator[ExportMetricsServiceRequest]:
        """What the window says, oldest first, in exports of many scrapes."""
        if self._external is None:
            self._external = self._api.external_labels()
            self.progress.counts["unknown_external_labels"] += self._external is None
        batch = ExportMetricsServiceRequest()
        for export in self._each(span):
            batch.resource_metrics.extend(export.resource_metrics)
            if len(batch.resource_metrics) >= _BATCH:
                yield batch
                batch = ExportMetricsServiceRequest()
        if batch.resource_metrics:
            yield batch

    def _each(self, span: Span) -> Iterator[ExportMetricsServiceRequest]:
        begin_ms = span.since_ms - max(_LEAD_MS, 2 * span.step_ms)
        selector = self._selector(begin_ms / 1000, span.until_ms / 1000)
        for until_ms, found in self._chunks(selector, begin_ms, span.until_ms):
            for (at_ms, whose), values in sorted(self._pages(found).items(), key=_in_order):
                export = self._read(at_ms, whose, values, span)
                if export is not None and at_ms > span.since_ms:
                    yield export
            self.progress.at_ms, self.progress.targets = until_ms, len(self._watches)
            self._told(self.progress)

    def _chunks(
        self, selector: str, after_ms: int, end_ms: int
    ) -> Iterator[tuple[int, list[Remembered]]]:
        """The window piece by piece; pieces shrink and grow with what is in them."""
        chunk_ms = _FIRST_CHUNK_MS
        while after_ms < end_ms:
            until_ms = min(after_ms + chunk_ms, end_ms)
            try:
                found = self._api.samples(selector, after_ms=after_ms, until_ms=until_ms)
            except TooMuch as error:
                if chunk_ms <= _SHORTEST_CHUNK_MS:
                    raise InputError(
                        f"one second is more than it can answer: {error}",
                        where=self._api.url,
                        remedy="Select fewer series with --match.",
                    ) from error
                chunk_ms = max(chunk_ms // 4, _SHORTEST_CHUNK_MS)
                continue
            n = sum(len(each.samples) for each in found)
            self.progress.samples += n
            yield until_ms, found
            after_ms = until_ms
            factor = min(max(_MANY_SAMPLES / max(n, 1), 0.25), 2.0)
            chunk_ms = int(min(max(chunk_ms * factor, _SHORTEST_CHUNK_MS), _LONGEST_CHUNK_MS))

    def _pages(self, found: Sequence[Remembered]) -> dict[_Page, dict[Stream, Value]]:
        """Every scrape of a piece: a scrape's samples have one instant, so it is whole."""
        pages: dict[_Page, dict[Stream, Value]] = defaultdict(dict)
        for series in found:
            labels = tuple(sorted({**(self._external or {}), **dict(series.labels)}.items()))
            whose = self._naming.whose(labels)
            if whose is None:
                self.progress.counts["series_of_no_target"] += 1
                continue
            stream = self._streams.setdefault(
                labels, Stream(name=dict(labels).get(NAME, ""), labels=labels, flow=None)
            )
            for at_ms, value in series.samples:
                pages[at_ms, whose][stream] = value
        return pages

    def _read(
        self, at_ms: int, whose: Whose, values: dict[Stream, Value], span: Span
    ) -> ExportMetricsServiceRequest | None:
        belief = self._beliefs.setdefault(whose.target, Belief(self._failover_ms))
        watch = self._watches.get(whose.target)
        if watch is None or at_ms - belief.at_ms > self._forget_after_ms:
            if all(stream.name in _EVERYWHERE for stream in values):
                return None  # it is no engine, as far as we have seen
            watch = self._watches[whose.target] = Watch(self._naming)
        if belief.at_ms >= 0 and at_ms - belief.at_ms < span.step_ms:
            return None
        if not belief.admits(whose.sender, at_ms):
            self.progress.counts["twin_scrapes"] += 1
            return None
        self.progress.scrapes += 1
        is_up = all(stream.name != UP or value != 0 for stream, value in values.items())
        return export_of(watch.read(Scrape(at_ms=at_ms, values=values, is_up=is_up)))

    def _selector(self, since_s: float, until_s: float) -> str:
        """Only names that this Prometheus has, and of jobs that have an engine's."""
        asked = f"{{{self._matchers}}}" if self._matchers else None
        names = self._api.label_values(NAME, asked, since_s=since_s, until_s=until_s)
        engines = sorted(WANTED.intersection(names) - OF_EVERY_PROCESS)
        if not engines:
            raise InputError(
                f"it knows no metric of an engine in that window, among {len(names)} that it knows",
                where=self._api.url,
                remedy="Check --from, --to and --match, and that it scrapes the engines.",
            )
        jobs = self._api.label_values(
            self._job, self._of(engines), since_s=since_s, until_s=until_s
        )
        return self._of([*engines, *sorted(_EVERYWHERE)], f"{self._job}=~{_any_of(jobs)}")

    def _of(self, names: Sequence[str], *matchers: str) -> str:
        told = (f"{NAME}=~{_any_of(names)}", *matchers, self._matchers)
        return "{" + ",".join(each for each in told if each) + "}"


def _in_order(page: tuple[_Page, dict[Stream, Value]]) -> tuple[int, Labels, Labels]:
    (at_ms, whose), _ = page
    return at_ms, whose.target, whose.sender


def _any_of(words: Sequence[str]) -> str:
    """A regular expression of exactly these words, as a quoted string."""
    pattern = "|".join(re.escape(word).replace("\\-", "-") for word in words)
    escaped = pattern.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _matchers(selector: str) -> str:
    """What stands between the braces of a selector without a name."""
    found = _MATCHERS.fullmatch(selector.strip())
    if found is None:
        raise ConfigError(
            f"{selector!r} is no selector of labels",
            where="--match",
            remedy="""Write it like '{job="vllm"}'; the names of metrics are known.""",
        )
    return found[1].strip().strip(",")
