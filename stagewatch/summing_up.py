"""The summary in a process: worked out in a thread, shown on a page, written to whoever takes it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from alerts.ledger import Ledger
from collector.own_metrics import OwnMetrics
from collector.query import Reader
from stagewatch.config import Config
from stagewatch.remote_write.writer import RemoteWriter
from stagewatch.summary.page import SummaryPage
from stagewatch.summary.summary import Summary

__all__ = ["SummingUp", "summing_up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SummingUp:
    """`page`: what `/metrics` shows besides our own health; None: nothing."""

    page: SummaryPage | None = None
    problems: Sequence[Callable[[], str | None]] = ()

    def problem(self) -> str | None:
        """What somebody should look at, or None."""
        return "; ".join(said for each in self.problems if (said := each())) or None


@contextmanager
def summing_up(
    config: Config, reader: Reader, ledger: Ledger, own: OwnMetrics
) -> Iterator[SummingUp]:
    """While the block lasts."""
    with ExitStack() as stack:
        writer = _writer(config, stack)
        if writer is not None:
            own.watch(writer.counts)
        elif not config.summary.enabled:
            yield SummingUp()
            return
        arrived = None if writer is None else writer.put
        summary = Summary(reader, ledger, config.summary, begun_s=time.time(), arrived=arrived)
        _start(summary, stack)
        yield SummingUp(
            page=SummaryPage(summary.told) if config.summary.enabled else None,
            problems=(summary.problem, *(() if writer is None else (writer.problem,))),
        )


def _start(summary: Summary, stack: ExitStack) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=summary.run, args=(stop,), name="summary")
    thread.start()
    stack.callback(thread.join)
    stack.callback(stop.set)


def _writer(config: Config, stack: ExitStack) -> RemoteWriter | None:
    settings = config.remote_write_out
    if settings.url is None:
        return None
    folder = config.store.data_dir / "spool" / "remote-write-out"
    return stack.enter_context(RemoteWriter(settings, settings.url, folder))
