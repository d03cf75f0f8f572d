"""The sidecar: every target on its own clock, what they say pushed and shown."""

import asyncio
import logging
import math
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from threading import Event

import httpx
from prometheus_client import CollectorRegistry, start_http_server

from domain.errors import ConfigError
from exporters.engine.describe import describe
from exporters.engine.failure import ScrapeError
from exporters.engine.otlp import export_request
from exporters.engine.own_page import OwnPage
from exporters.engine.push import Outbox, Pusher
from exporters.engine.reading import Reading
from exporters.engine.scrape import fetch, http_client
from exporters.engine.settings import EngineSettings, TargetSettings
from exporters.engine.target import TargetState
from exporters.engine.text import PageParser
from exporters.engine.vllm import wanted

__all__ = ["once", "read_once", "run"]

_LOG = logging.getLogger(__name__)
_LAST_FLUSH_S = 2.0
_LOOK_S = 0.1


@dataclass(slots=True)
class _Watch:
    """One target: its pages become readings, and what is new about it is logged once."""

    target: TargetSettings
    state: TargetState
    parser: PageParser = field(default_factory=lambda: PageParser(wanted().__contains__))
    _told: str = ""

    async def read(self, client: httpx.AsyncClient, settings: EngineSettings) -> Reading:
        """One scrape; never raises for what the other side does."""
        try:
            text = await fetch(
                client,
                self.target.page_url,
                timeout_s=settings.timeout_s,
                max_bytes=settings.max_page_bytes,
            )
        except ScrapeError as failure:
            return self.state.failed(failure, time.time_ns())
        # why a thread: a long or hostile page must not hold up the others
        return await asyncio.to_thread(self._digest, text, time.time_ns())

    def _digest(self, text: str, at_ns: int) -> Reading:
        try:
            return self.state.observe(self.parser.parse(text, where=self.target.page_url), at_ns)
        except ScrapeError as failure:
            return self.state.failed(failure, at_ns)
        except Exception as error:  # noqa: BLE001 - one page must not end the other targets
            _LOG.exception("a fault of ours while reading %s", self.target.page_url)
            self.state = TargetState(self.target.series)
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
            _LOG.warning("%s is not observed: %s", self.target.service, trouble)
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


def once(settings: EngineSettings) -> str:
    """One reading of every target as text: all that the engines counted since they started."""
    return describe(read_once(settings))


def read_once(settings: EngineSettings) -> tuple[Reading, ...]:
    """One reading of every target, counted from the start of the engines."""

    async def read_all() -> list[Reading]:
        watches = [_watch(target, from_zero=True) for target in settings.targets]
        async with http_client() as client:
            return await asyncio.gather(*(watch.read(client, settings) for watch in watches))

    return tuple(asyncio.run(read_all()))


def _watch(target: TargetSettings, *, from_zero: bool = False) -> _Watch:
    return _Watch(target, TargetState(target.series, from_zero=from_zero))


async def _run(
    settings: EngineSettings, stop: Event, started: Callable[[int | None], None] | None
) -> None:
    outbox = Outbox(max_bytes=settings.queue_bytes, max_age_s=settings.queue_age_s)
    page = OwnPage(outbox)

    def emit(reading: Reading) -> None:
        page.update(reading)
        if settings.endpoint is not None:
            outbox.put(export_request(reading).SerializeToString())

    async with AsyncExitStack() as stack:
        port = _serve(settings, page, stack)
        client = await stack.enter_async_context(http_client())
        pusher = _pusher(settings, outbox, client)
        tasks = [
            asyncio.create_task(_watch_target(_watch(target), client, settings, share, emit))
            for share, target in zip(_shares(settings), settings.targets, strict=True)
        ]
        tasks += [asyncio.create_task(pusher.run())] if pusher is not None else []
        if started is not None:
            started(port)
        await _until(stop, tasks)
        if pusher is not None and await pusher.flush(_LAST_FLUSH_S):
            _LOG.warning("%d exports were not sent and are lost", len(outbox))


def _shares(settings: EngineSettings) -> list[float]:
    """Targets begin one after the other within an interval, so that the load is even."""
    number = len(settings.targets)
    return [settings.interval_s * index / number for index in range(number)]


async def _watch_target(
    watch: _Watch,
    client: httpx.AsyncClient,
    settings: EngineSettings,
    begin_s: float,
    emit: Callable[[Reading], None],
) -> None:
    """Scrapes on a grid that does not drift; a tick that comes during a scrape is left out."""
    clock = asyncio.get_running_loop().time
    next_s = clock() + begin_s
    while True:
        await asyncio.sleep(max(next_s - clock(), 0))
        reading = await watch.read(client, settings)
        watch.log(reading)
        emit(reading)
        ticks = math.floor((clock() - next_s) / settings.interval_s) + 1
        next_s += ticks * settings.interval_s


def _pusher(settings: EngineSettings, outbox: Outbox, client: httpx.AsyncClient) -> Pusher | None:
    if settings.endpoint is None:
        return None
    url = settings.endpoint.rstrip("/").removesuffix("/v1/metrics") + "/v1/metrics"
    token = settings.token.get_secret_value() if settings.token is not None else None
    return Pusher(outbox, client, url, timeout_s=settings.push_timeout_s, token=token)


def _serve(settings: EngineSettings, page: OwnPage, stack: AsyncExitStack) -> int | None:
    """Our own page on its port, until the stack closes."""
    if settings.listen_port is None:
        return None
    registry = CollectorRegistry()
    registry.register(page)
    try:
        server, thread = start_http_server(
            settings.listen_port, addr=settings.listen_host, registry=registry
        )
    except OSError as error:
        raise ConfigError(
            f"the exporter's own page cannot listen there: {error.strerror}",
            where=f"listen_port {settings.listen_host}:{settings.listen_port}",
            remedy="Choose another port, 0 for a free one, or null for no page.",
        ) from error
    stack.callback(thread.join)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    return int(server.server_port)


async def _until(stop: Event, tasks: list[asyncio.Task[None]]) -> None:
    """Waits for `stop`, or for a task that ends: none of them should."""
    try:
        while not stop.is_set():
            ended, _ = await asyncio.wait(
                tasks, timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED
            )
            for task in ended:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
