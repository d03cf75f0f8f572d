"""The sidecar: every target on its own clock, what they say pushed and shown."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from threading import Event

import httpx

from domain.own_work import Kind, own_work
from exporters.delivery.delivery import Delivery, open_delivery
from exporters.delivery.export import Export
from exporters.engine.checkpoint import Checkpoint, pages_in
from exporters.engine.clock import Clock
from exporters.engine.describe import why_down
from exporters.engine.engines import WANTED
from exporters.engine.failure import ScrapeError
from exporters.engine.otlp import export_request
from exporters.engine.own_page import OwnPage
from exporters.engine.reading import Level, Reading
from exporters.engine.scrape import fetch, http_client
from exporters.engine.settings import EngineSettings, TargetSettings
from exporters.engine.target import STALL_AFTER_S, TargetState
from exporters.engine.text import PageParser
from exporters.sidecar import serve_page, until_stopped

__all__ = ["read_once", "run"]

_LOG = logging.getLogger(__name__)
_SECOND_NS = 1_000_000_000
_FAR_BACK_NS = 60 * _SECOND_NS


@dataclass(slots=True)
class _Watch:
    """One target: its pages become readings, and what is new about it is logged once."""

    target: TargetSettings
    state: TargetState
    parser: PageParser = field(default_factory=lambda: PageParser(WANTED.__contains__))
    stall_after_s: float = STALL_AFTER_S
    clock: Clock = field(default_factory=Clock)
    memo: bytes | None = None
    """What a new process would have to know after the last reading; None: what it knew before."""
    _checkpoint: Checkpoint = field(init=False)
    _told: str = ""

    def __post_init__(self) -> None:
        self._checkpoint = Checkpoint(self.target.page_url)

    def go_on(self, memo: bytes | None) -> None:
        """From where the last process was, so that nothing in between is lost or counted twice."""
        pages = pages_in(memo, self.target.page_url, now_ns=time.time_ns())
        for at_ns, text in pages:
            self._digest(text, at_ns)
        if pages:
            _LOG.info("%s: counting goes on from the last page", self.target.page_url)

    async def read(self, client: httpx.AsyncClient, settings: EngineSettings) -> Reading:
        """One scrape; never raises for what the other side does."""
        self.memo = None
        about = {"stagewatch.service": self.target.service}
        with own_work("scrape engine", about, Kind.CLIENT) as piece:
            reading = await self._read(client, settings)
            if not reading.up:
                piece.tell("error.type", why_down(reading))
            return reading

    async def _read(self, client: httpx.AsyncClient, settings: EngineSettings) -> Reading:
        try:
            text = await fetch(
                client,
                self.target.page_url,
                timeout_s=settings.timeout_s,
                max_bytes=settings.max_page_bytes,
            )
        except ScrapeError as failure:
            return self.state.failed(failure, self._now_ns())
        # why a thread: a long or hostile page must not hold up the others
        return await asyncio.to_thread(self._digest, text, self._now_ns())

    def _now_ns(self) -> int:
        """The wall clock. What was counted by it before it was set means nothing afterwards."""
        now_ns, step_ns = self.clock.look()
        if step_ns <= -_FAR_BACK_NS:  # why not wait for it: nobody would see this engine until then
            _LOG.warning("the clock was set back: counting begins anew")
            self._begin_anew()
        elif abs(step_ns) >= _SECOND_NS:
            self.state.forget_standstill()
        return now_ns

    def _begin_anew(self) -> None:
        self.state = _state(self.target, self.stall_after_s)
        self.memo = self._checkpoint.forget()

    def _digest(self, text: str, at_ns: int) -> Reading:
        try:
            page = self.parser.parse(text, where=self.target.page_url)
            reading = self.state.observe(page, at_ns)
            if reading.up:
                settled = not self.state.pending
                self.memo = self._checkpoint.after(page, text, reading.at_ns, is_settled=settled)
            elif self.state.page_at_ns is None:
                self.memo = self._checkpoint.forget()
            return reading  # noqa: TRY300 - what is caught below may come from any of these lines
        except ScrapeError as failure:
            return self.state.failed(failure, at_ns)
        except Exception as error:  # noqa: BLE001 - one page must not end the other targets
            _LOG.exception("a fault of ours while reading %s", self.target.page_url)
            self._begin_anew()
            fault = ScrapeError(
                "fault",
                f"this page cannot be digested: {error!r}",
                where=self.target.page_url,
                remedy="Report it with the page; counting begins anew with the next one.",
            )
            return self.state.failed(fault, at_ns)

    def log(self, reading: Reading) -> None:
        """A line when what is wrong changes, none while it stays the same."""
        trouble = "" if reading.up else reading.notes[0]
        if trouble and trouble != self._told:
            reason = why_down(reading)
            _LOG.warning("%s is not observed (%s): %s", self.target.service, reason, trouble)
        elif self._told and reading.up:
            _LOG.warning("%s (%s) is observed again", self.target.service, self.target.page_url)
        self._told = trouble
        for note in reading.notes if reading.up else ():
            _LOG.info("%s: %s", self.target.page_url, note)


def run(
    settings: EngineSettings, stop: Event, *, started: Callable[[int | None], None] | None = None
) -> None:
    """Read, push and show until `stop` is set; `started` is told the port of our own page."""
    asyncio.run(_run(settings, stop, started))


def read_once(settings: EngineSettings) -> tuple[Reading, ...]:
    """One reading of every target, counted from the start of the engines."""

    async def read_all() -> list[Reading]:
        watches = [_watch(target, settings, from_zero=True) for target in settings.targets]
        async with http_client() as client:
            return await asyncio.gather(*(watch.read(client, settings) for watch in watches))

    return tuple(asyncio.run(read_all()))


def _watch(target: TargetSettings, settings: EngineSettings, *, from_zero: bool = False) -> _Watch:
    after_s = settings.stall_after_s
    state = _state(target, after_s, from_zero=from_zero)
    return _Watch(target, state, stall_after_s=after_s)


def _state(target: TargetSettings, after_s: float, *, from_zero: bool = False) -> TargetState:
    return TargetState(
        target.series, from_zero=from_zero, stall_after_s=after_s, declared=target.declared
    )


async def _run(
    settings: EngineSettings, stop: Event, started: Callable[[int | None], None] | None
) -> None:
    async with AsyncExitStack() as stack:
        delivery = await stack.enter_async_context(open_delivery(settings, kind="engine"))
        page = OwnPage(delivery)
        port = serve_page(page, settings.listen_host, settings.listen_port, stack)
        secure = any(target.page_url.startswith("https:") for target in settings.targets)
        client = await stack.enter_async_context(http_client(for_https=secure))

        def emit(reading: Reading, memo: bytes | None) -> None:
            page.update(reading)
            delivery.put(_export(reading, memo, delivery))

        watches = [_watch(target, settings) for target in settings.targets]
        for watch in watches:
            watch.go_on(delivery.memo(watch.state.labels))
        tasks = [
            asyncio.create_task(_watch_target(watch, client, settings, share, emit))
            for share, watch in zip(_shares(settings), watches, strict=True)
        ]
        tasks.append(asyncio.create_task(delivery.run()))
        if started is not None:
            started(port)
        await until_stopped(stop, tasks)


def _export(reading: Reading, memo: bytes | None, delivery: Delivery) -> Export:
    """The reading, with what of its target waits already."""
    waiting, labels = delivery.waiting(reading.target), reading.target
    levels = (
        Level(metric="spooled_bytes", labels=labels, value=waiting.size_bytes),
        Level(metric="spooled_age", labels=labels, value=waiting.oldest_age_s),
    )
    told = replace(reading, levels=(*reading.levels, *levels))
    body = export_request(told).SerializeToString()
    return Export(owner=labels, at_ns=reading.at_ns, body=body, memo=memo)


def _shares(settings: EngineSettings) -> list[float]:
    """Targets begin one after the other within an interval, so that the load is even."""
    number = len(settings.targets)
    return [settings.interval_s * index / number for index in range(number)]


async def _watch_target(
    watch: _Watch,
    client: httpx.AsyncClient,
    settings: EngineSettings,
    begin_s: float,
    emit: Callable[[Reading, bytes | None], None],
) -> None:
    """Scrapes on a grid that does not drift; a tick that comes during a scrape is left out."""
    clock = asyncio.get_running_loop().time
    next_s = clock() + begin_s
    while True:
        await asyncio.sleep(max(next_s - clock(), 0))
        reading = await watch.read(client, settings)
        watch.log(reading)
        # why a thread: a slow disk must not hold up the others
        await asyncio.to_thread(emit, reading, watch.memo)
        ticks = math.floor((clock() - next_s) / settings.interval_s) + 1
        next_s += ticks * settings.interval_s
