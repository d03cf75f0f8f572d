"""One process: collector, alerts and pages, wired together; or some of the three."""

import argparse
import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from socket import socket

import uvicorn
from fastapi import FastAPI

from alerts import api as alerts_api
from alerts.definition import gather
from alerts.delivery import Delivery
from alerts.evaluator import Evaluator
from alerts.ledger import Ledger
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from collector import api as collector_api
from collector.firehose import firehose_router
from collector.grpc_server import serve as serve_grpc
from collector.http import otlp_router
from collector.intake import EndpointIntake
from collector.log import RefusalLog
from collector.own_metrics import OwnMetrics, health_router
from collector.query import Reader
from collector.reader import StoreReader
from collector.store import open_store
from collector.writer import Writer
from dashboard.app import attach
from exporters.engine.run import run as run_exporter
from stagewatch.config import Config, load
from stagewatch.release import VERSION
from stagewatch.sockets import listen

__all__ = ["PARTS", "Running", "configured", "run", "serve"]

PARTS = ("collector", "alerts", "dashboard")
_GRACE_S = 1  # to each part in turn: all together end within 5 s


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where a started process can be reached; None where that part does not run."""

    pages_url: str
    otlp_http_url: str | None
    otlp_grpc_port: int | None


def run(arguments: argparse.Namespace) -> int:
    """`stagewatch up | collector | alerts | dashboard`."""
    config = configured(load(arguments.config), arguments.data_dir, arguments.port)
    serve(config, PARTS if arguments.command == "up" else (arguments.command,), ready=_announce)
    return 0


def configured(config: Config, data_dir: Path | None, port: int | None) -> Config:
    """What the command line says goes before the file."""
    if data_dir is not None:
        store = config.store.model_copy(update={"data_dir": data_dir})
        config = config.model_copy(update={"store": store})
    if port is not None:
        dashboard = config.dashboard.model_copy(update={"port": port})
        config = config.model_copy(update={"dashboard": dashboard})
    return config


def serve(
    config: Config,
    parts: Sequence[str] = PARTS,
    *,
    ready: Callable[[Running], None] = lambda _: None,
    asked: threading.Event | None = None,
    ending: Callable[[], None] = lambda: None,
) -> None:
    """Run until a signal comes or `asked` is set; then let everything finish and go.

    `ending` is called while the server still takes exports, so that senders can say their last.
    """
    asked, stop = asked or threading.Event(), threading.Event()
    with _signals(asked), ExitStack() as stack:
        process = _Process(config, stack, stop)
        if "collector" in parts:
            process.collect()
            process.scrape()
        if "alerts" in parts:
            process.evaluate()
        process.show(pages="dashboard" in parts)
        process.run("web", _serve_web, process.web, stop, asked)
        stack.callback(ending)
        ready(process.running())
        asked.wait()


class _Process:
    """The parts of one process; what they hold is let go in the reverse order."""

    def __init__(self, config: Config, stack: ExitStack, stop: threading.Event) -> None:
        self.web: list[tuple[FastAPI, socket]] = []
        self._config = config
        self._stack = stack
        self._stop = stop
        self._own = OwnMetrics(version=VERSION)
        self._writer: Writer | None = None
        self._otlp: socket | None = None
        self._pages: socket | None = None
        self._grpc_port: int | None = None
        self._log = RefusalLog()
        self._state = open_state(config.alerting.state_location(config.store.data_dir))
        self._reader: Reader | None = None

    def run(self, name: str, target: Callable[..., None], *arguments: object) -> None:
        """A thread that is told to stop, and waited for, before what it stands on goes."""
        thread = threading.Thread(target=target, args=arguments, name=name)
        thread.start()
        self._stack.callback(thread.join)
        self._stack.callback(self._stop.set)

    def collect(self) -> None:
        """The store's one writer, and the two ways in."""
        config = self._config
        settings = config.collecting
        store = open_store(config.store.data_dir)
        self._stack.callback(store.close)
        self._writer = self._stack.enter_context(Writer(store, settings))
        self._own.watch(self._writer.counts)
        self._otlp = self._listen(
            settings.host, settings.otlp_http_port, "collector.otlp_http_port"
        )
        grpc = serve_grpc(self._writer, settings, self._own, log=self._log)
        self._stack.callback(grpc.stop, _GRACE_S / 2)
        self._grpc_port = grpc.port
        app = _application()
        self._add_intake(app, self._writer)
        app.include_router(health_router(self._own, self._problem))
        self.web.append((app, self._otlp))

    def scrape(self) -> None:
        """The sidecars in this process, where the configuration names engines or accounts."""
        settings = self._config.exporters.engine
        if settings is not None:
            self.run("exporter", run_exporter, settings, self._stop)
        endpoints = self._config.exporters.cloudwatch
        if endpoints is not None:
            from exporters.cloudwatch.run import run as run_cloudwatch  # noqa: PLC0415 - needs boto3

            if "spool_dir" not in endpoints.model_fields_set:
                spool_dir = self._config.store.data_dir / "spool"
                endpoints = endpoints.model_copy(update={"spool_dir": spool_dir})
            self.run("cloudwatch", run_cloudwatch, endpoints, self._stop)

    def evaluate(self) -> None:
        """The objectives, and the receivers of what comes of them."""
        settings = self._config.alerting
        delivery = Delivery(self._state, settings.receivers)
        # why a reader of its own: slow questions of people must not hold up a page
        reader = StoreReader(self._config.store.data_dir)
        self._stack.callback(reader.close)
        evaluator = Evaluator(
            reader,
            gather(settings.objectives),
            self._state,
            settings=settings,
            wake=delivery.wake,
        )
        delivery.start()
        self._stack.callback(delivery.close, _GRACE_S)
        self.run("evaluator", evaluator.run, self._stop)

    def show(self, *, pages: bool) -> None:
        """The API, and the pages over it."""
        config, reader = self._config, self._read()
        ledger: Ledger = SqlLedger(self._state)
        app = _application()
        app.include_router(collector_api.router(reader))
        app.include_router(alerts_api.router(ledger))
        app.include_router(health_router(self._own, self._problem))
        if self._writer is not None:
            self._add_intake(app, self._writer)
        if pages:
            attach(app, reader, ledger, refresh_s=config.dashboard.refresh_s)
        else:
            app.include_router(collector_api.unknown_router())
        self._pages = self._listen(config.dashboard.host, config.dashboard.port, "dashboard.port")
        self.web.append((app, self._pages))

    def running(self) -> Running:
        if self._pages is None:
            raise AssertionError("show() opens the pages before anybody asks where they are")
        return Running(
            pages_url=_url(self._pages),
            otlp_http_url=_url(self._otlp) if self._otlp else None,
            otlp_grpc_port=self._grpc_port,
        )

    def _add_intake(self, app: FastAPI, intake: EndpointIntake) -> None:
        settings = self._config.collecting
        app.include_router(otlp_router(intake, settings, self._own, log=self._log))
        app.include_router(firehose_router(intake, settings, self._own, log=self._log))

    def _listen(self, host: str, port: int, setting: str) -> socket:
        return self._stack.enter_context(listen(host, port, setting=setting))

    def _read(self) -> Reader:
        if self._reader is None:
            reader = StoreReader(self._config.store.data_dir)
            self._stack.callback(reader.close)
            self._reader = reader
        return self._reader

    def _problem(self) -> str | None:
        return self._writer.problem() if self._writer is not None else None


def _application() -> FastAPI:
    # why: FastAPI's own /docs page loads its scripts from a CDN
    return FastAPI(title="Stagewatch", version=VERSION, docs_url=None, redoc_url=None)


def _url(listener: socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _serve_web(
    apps: Sequence[tuple[FastAPI, socket]], stop: threading.Event, asked: threading.Event
) -> None:
    """All web servers on one loop of their own: signals belong to the main thread."""
    try:
        asyncio.run(_serve_all(apps, stop))
    finally:
        asked.set()  # why: a server without its pages must end, not linger


async def _serve_all(apps: Sequence[tuple[FastAPI, socket]], stop: threading.Event) -> None:
    servers = [
        (
            uvicorn.Server(
                uvicorn.Config(
                    app,
                    log_level="warning",
                    access_log=False,
                    timeout_graceful_shutdown=_GRACE_S,
                    server_header=False,
                )
            ),
            listener,
        )
        for app, listener in apps
    ]
    running = [asyncio.create_task(server.serve(sockets=[sock])) for server, sock in servers]
    await asyncio.to_thread(stop.wait)
    for server, _ in servers:
        server.should_exit = True
    await asyncio.gather(*running)


@contextlib.contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """SIGINT and SIGTERM ask to stop; only the main thread may listen to them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = {s: signal.signal(s, lambda *_: stop.set()) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, before in asked.items():
            signal.signal(number, before)


def _announce(running: Running) -> None:
    print(f"stagewatch: pages and API on {running.pages_url}", file=sys.stderr)  # noqa: T201 - a command speaks
    if running.otlp_http_url is not None:
        print(  # noqa: T201
            f"stagewatch: OTLP on {running.otlp_http_url} (HTTP) and port "
            f"{running.otlp_grpc_port} (gRPC). Ctrl-C ends it.",
            file=sys.stderr,
        )
