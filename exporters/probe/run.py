"""The sidecar: every target asked on its own clock, what that shows pushed and shown."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event

from domain.own_work import Kind, own_work
from exporters.delivery.delivery import Delivery, open_delivery
from exporters.delivery.export import Export
from exporters.engine.otlp import export_request
from exporters.engine.own_page import OwnPage
from exporters.engine.reading import Level, Reading
from exporters.probe.asking import Asking
from exporters.probe.budget import BooksError, Budget
from exporters.probe.connection import Resolve, libc
from exporters.probe.floor import floor
from exporters.probe.report import Reporter, without_what_spans_tell
from exporters.probe.round import Round
from exporters.probe.settings import ProbeSettings, ProbeTarget
from exporters.probe.span import spans_request
from exporters.sidecar import serve_page, until_stopped

__all__ = ["read_once", "run"]

_LOG = logging.getLogger(__name__)


def run(
    settings: ProbeSettings, stop: Event, *, started: Callable[[int | None], None] | None = None
) -> None:
    """Ask, push and show until `stop` is set; `started` is told the port of our own page."""
    asyncio.run(_run(settings, stop, started))


def read_once(
    settings: ProbeSettings, *, resolve: Resolve = libc
) -> tuple[tuple[ProbeTarget, Round], ...]:
    """One round of every target, with every hop and the network's floor."""

    async def every() -> list[tuple[ProbeTarget, Round]]:
        budget = Budget(settings.state_file, settings.zone)
        watches = [_watch(target, settings, budget, resolve) for target in settings.targets]
        # why one after the other: they would measure each other
        return [(watch.target, await watch.round(every_hop=True)) for watch in watches]

    return tuple(asyncio.run(every()))


async def _run(
    settings: ProbeSettings, stop: Event, started: Callable[[int | None], None] | None
) -> None:
    async with AsyncExitStack() as stack:
        budget = Budget(settings.state_file, settings.zone)
        delivery = await stack.enter_async_context(open_delivery(settings, kind="probe"))
        page = OwnPage(delivery)
        port = serve_page(page, settings.listen_host, settings.listen_port, stack)

        def emit(watch: _Watch, done: Round) -> None:
            reading = watch.reporter.reading(done, time.time_ns())
            page.update(reading)
            watch.log(reading)
            for export in _exports(watch.target, done, reading, delivery, spans=settings.spans):
                delivery.put(export)

        tasks = [
            asyncio.create_task(_watch_target(_watch(target, settings, budget, libc), share, emit))
            for share, target in zip(_shares(settings), settings.targets, strict=True)
        ]
        tasks.append(asyncio.create_task(delivery.run()))
        if started is not None:
            started(port)
        await until_stopped(stop, tasks)


@dataclass(slots=True)
class _Watch:
    """One target: its rounds, when the network's floor is due, and what was logged of it."""

    asking: Asking
    interval_s: float
    floor_interval_s: float
    spacing_s: float
    resolve: Resolve
    reporter: Reporter = field(init=False)
    _floor_due_s: float = 0.0
    _told: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.reporter = Reporter(self.target, time.time_ns())

    @property
    def target(self) -> ProbeTarget:
        return self.asking.target

    async def round(self, *, every_hop: bool = False) -> Round:
        """Ask, and look for the floor when it is time and somebody is there."""
        about = {"stagewatch.service": self.target.service}
        with own_work("probe endpoint", about, Kind.CLIENT):
            done = await self.asking.round(every_hop=every_hop)
        now_s = time.monotonic()
        answered = done.last is not None and done.last.sent_at_ns is not None
        if not self.target.handshakes or not answered or now_s < self._floor_due_s:
            return done
        self._floor_due_s = now_s + self.floor_interval_s
        return done.with_floor(
            await floor(self.target, spacing_s=self.spacing_s, resolve=self.resolve)
        )

    def log(self, reading: Reading) -> None:
        """A line when what is to be said changes, none while it stays the same."""
        kinds = tuple(sorted({_kind(level) for level in reading.levels} - {""}))
        counts = {dict(each.labels).get("reason", "") for each in reading.increments}
        told = (*kinds, *sorted(counts - {"", "ok"}))
        if told != self._told:
            for note in reading.notes:
                _LOG.warning("%s: %s", self.target.service, note)
            if not reading.notes:
                _LOG.warning("%s: %s is well again", self.target.service, self.target.replica)
        self._told = told


def _kind(level: Level) -> str:
    return "lumps" if level.metric == "buffering" and level.value else ""


def _watch(
    target: ProbeTarget, settings: ProbeSettings, budget: Budget, resolve: Resolve
) -> _Watch:
    interval_s = target.interval_s or settings.interval_s
    return _Watch(
        asking=Asking(target, budget, interval_s=interval_s, clock=_now, resolve=resolve),
        interval_s=interval_s,
        floor_interval_s=settings.floor_interval_s,
        spacing_s=settings.handshake_spacing_s,
        resolve=resolve,
    )


def _now() -> datetime:
    return datetime.now(UTC)


def _shares(settings: ProbeSettings) -> list[float]:
    """Targets begin one after the other within their interval, so that none disturbs another."""
    number = len(settings.targets)
    return [
        (target.interval_s or settings.interval_s) * index / number
        for index, target in enumerate(settings.targets)
    ]


async def _watch_target(
    watch: _Watch, begin_s: float, emit: Callable[[_Watch, Round], None]
) -> None:
    """Rounds on a grid that does not drift; a tick that comes during a round is left out."""
    clock = asyncio.get_running_loop().time
    next_s = clock() + begin_s
    while True:
        await asyncio.sleep(max(next_s - clock(), 0))
        try:
            done = await watch.round()
        except BooksError as error:  # a full disk: nothing may be asked, but it may have room again
            done = Round(refused_as="no_books", refusal=str(error))
        await asyncio.to_thread(emit, watch, done)
        ticks = math.floor((clock() - next_s) / watch.interval_s) + 1
        next_s += ticks * watch.interval_s


def _exports(
    target: ProbeTarget, done: Round, reading: Reading, delivery: Delivery, *, spans: bool
) -> list[Export]:
    """The round as metrics, and its exchanges as spans."""
    waiting, owner = delivery.waiting(reading.target), reading.target
    levels = (
        Level(metric="spooled_bytes", labels=owner, value=waiting.size_bytes),
        Level(metric="spooled_age", labels=owner, value=waiting.oldest_age_s),
    )
    told = without_what_spans_tell(reading) if spans else reading
    told = replace(told, levels=(*told.levels, *levels))
    body = export_request(told).SerializeToString()
    exports = [Export(owner=owner, at_ns=reading.at_ns, body=body)]
    if spans and done.asked:
        body = spans_request(target, done.asked).SerializeToString()
        exports.append(Export(owner=owner, at_ns=reading.at_ns, body=body, traces=True))
    return exports
