"""`stagewatch import --prometheus URL`: which window of whom, where it goes, and how far it is."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collector.intake import Intake, Outcome, Overloaded
from collector.remote_write_settings import RemoteWriteSettings
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.times import duration_s, window
from collector.writer import Writer
from domain.errors import ConfigError
from stagewatch.importing import Sender
from stagewatch.prometheus.api import Access, PrometheusApi
from stagewatch.prometheus.history import History, Progress, Span

__all__ = ["Asked", "import_history", "renamed"]

_SPEAK_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the person typed."""

    prometheus: str
    since: str
    until: str
    step: str | None = None
    match: str = "{}"
    external: Mapping[str, str] | None = None
    token_file: Path | None = None
    data_dir: Path | None = None
    url: str = "http://127.0.0.1:4318"
    token: str | None = None


def import_history(
    asked: Asked,
    settings: CollectorSettings,
    *,
    environment: Mapping[str, str] = os.environ,
    now_s: Callable[[], float] = time.time,
) -> int:
    """0 when all was taken, 1 when some of it was refused."""
    asked_for = window(asked.since, asked.until, now_s=now_s())
    step_ms = duration_s(asked.step, name="--step") * 1000 if asked.step else 0
    span = Span(
        since_ms=int(asked_for.since_s * 1000),
        until_ms=int(min(asked_for.until_s, now_s()) * 1000),
        step_ms=step_ms,
    )
    api = PrometheusApi(asked.prometheus, _access(asked.token_file, environment))
    speaker = _Speaker(span)
    try:
        history = History(
            api,
            settings.remote_write,
            selector=asked.match,
            external=asked.external,
            told=speaker.tell,
        )
        with _into(asked, settings) as intake:
            rejected = _send(history, span, intake)
    finally:
        api.close()
    speaker.end(history.progress, rejected)
    return 1 if rejected else 0


def renamed(
    settings: RemoteWriteSettings, services: Mapping[str, str], roles: Mapping[str, str]
) -> RemoteWriteSettings:
    """The settings with what the command line says of jobs."""
    told = {**settings.model_dump(), "services": {**settings.services, **services}}
    return RemoteWriteSettings.model_validate({**told, "roles": {**settings.roles, **roles}})


def _send(history: History, span: Span, intake: Intake) -> int:
    rejected = 0
    for export in history.exports(span):
        outcome = _offered(intake, export)
        rejected += outcome.rejected
        if outcome.message:
            print(f"import: {outcome.message}", file=sys.stderr)  # noqa: T201 - a command speaks
    return rejected


def _offered(intake: Intake, export: ExportMetricsServiceRequest) -> Outcome:
    while True:
        try:
            return intake.metrics(export)
        except Overloaded as full:
            time.sleep(full.retry_after_s)


@contextmanager
def _into(asked: Asked, settings: CollectorSettings) -> Iterator[Intake]:
    """A store nobody else writes, or a collector that runs."""
    if asked.data_dir is None:
        with Sender.to(asked.url, asked.token) as sender:
            yield sender
        return
    store = open_store(asked.data_dir)
    try:
        with Writer(store, settings) as writer:
            yield writer
            writer.settle()
    finally:
        store.close()


def _access(token_file: Path | None, environment: Mapping[str, str]) -> Access:
    """Secrets never stand on a command line: others could read it."""
    token = environment.get("PROMETHEUS_TOKEN")
    if token_file is not None:
        try:
            token = token_file.read_text().strip()
        except OSError as error:
            raise ConfigError(
                f"cannot be read: {error.strerror}",
                where=str(token_file),
                remedy="Check the path after --prometheus-token-file.",
            ) from error
    return Access(
        token=token,
        user=environment.get("PROMETHEUS_USER"),
        password=environment.get("PROMETHEUS_PASSWORD"),
    )


class _Speaker:
    """How far it has come, on standard error: on a terminal one line that changes."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._began_s = self._spoke_s = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def tell(self, progress: Progress) -> None:
        now_s = time.monotonic()
        if now_s - self._spoke_s < _SPEAK_S:
            return
        self._spoke_s = now_s
        passed_s = now_s - self._began_s
        span_ms = max(self._span.until_ms - self._span.since_ms, 1)
        share = min(max((progress.at_ms - self._span.since_ms) / span_ms, 0.0), 1.0)
        left = f", {_span(passed_s / share - passed_s)} left" if share > 0.01 else ""
        line = (
            f"import: {_instant(progress.at_ms)}, {share:.0%}, {_targets(progress)}, "
            f"{progress.samples / passed_s:,.0f} samples/s{left}"
        )
        end = "\r" if self._is_terminal else "\n"
        print(line.ljust(78), end=end, file=sys.stderr, flush=True)  # noqa: T201

    def end(self, progress: Progress, rejected: int) -> None:
        passed_s = max(time.monotonic() - self._began_s, 0.001)
        if progress.counts["unknown_external_labels"]:
            print(  # noqa: T201
                "import: it does not show its external labels. If it has some and writes to us "
                "as well, give them with --external NAME=VALUE, or both are counted.",
                file=sys.stderr,
            )
        if not progress.targets and progress.counts["series_of_no_target"]:
            print(  # noqa: T201
                "import: nothing was taken: no series has both labels that name a service and a "
                "replica. Look at `service_label` and `replica_label` of collector.remote_write.",
                file=sys.stderr,
            )
        refused = f", {rejected} points refused" if rejected else ""
        print(  # noqa: T201
            f"{progress.scrapes} scrapes of {_targets(progress)} taken, from "
            f"{_instant(self._span.since_ms)} to {_instant(self._span.until_ms)}: "
            f"{progress.samples:,} samples in {_span(passed_s)}{refused}"
        )


def _targets(progress: Progress) -> str:
    return f"{progress.targets} target{'' if progress.targets == 1 else 's'}"


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
