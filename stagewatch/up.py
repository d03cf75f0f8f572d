"""One process: collector, alerts and pages, wired together; or some of the three."""

import argparse
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import socket

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError

from alerts import api as alerts_api
from alerts.access import Access, Gate
from alerts.change_api import change_router
from alerts.definition import gather
from alerts.delivery_api import router as delivery_router
from alerts.diagnosis.api import diagnosis_router
from alerts.ledger import Ledger
from alerts.reset_api import reset_router
from alerts.response_api import response_router
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from alerts.told_changes import ToldChanges
from collector import api as collector_api
from collector.firehose import firehose_router
from collector.grpc_server import serve as serve_grpc
from collector.http import otlp_router
from collector.intake import EndpointIntake, Intake
from collector.log import RefusalLog
from collector.own_metrics import OwnMetrics, health_router
from collector.query import Reader
from collector.reader import StoreReader
from collector.remote_write import remote_write_router
from collector.store import open_store
from collector.times import instant_at
from collector.writer import Writer
from dashboard.app import attach
from dashboard.mount import Mount, clean_prefix
from domain.errors import ConfigError
from exporters.cloudwatch.run import run as run_cloudwatch
from exporters.engine.run import run as run_exporter
from exporters.gpu.run import run as run_gpu_exporter
from exporters.probe.run import run as run_probe
from review.shelf import Shelf
from stagewatch.companion import Companion
from stagewatch.config import Config, Delivering, load
from stagewatch.evaluation import Evaluation
from stagewatch.prometheus.keeping import Keeper
from stagewatch.prometheus.receiver import Receiver
from stagewatch.release import VERSION
from stagewatch.request_bounds import BoundedBodies, wrong_question
from stagewatch.review_api import review_router
from stagewatch.review_schedule import ReviewSchedule
from stagewatch.sockets import listen
from stagewatch.summary.page import SummaryPage
from stagewatch.summing_up import summing_up
from stagewatch.telemetry.opening import own_telemetry
from stagewatch.telemetry.web import QuestionsTold
from stagewatch.vitals import ProcessWitness
from stagewatch.web_servers import GRACE_S, serve_web

__all__ = ["PARTS", "Running", "configured", "run", "serve"]

PARTS = ("collector", "alerts", "dashboard")


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """Where a started process can be reached; None where that part does not run."""

    pages_url: str
    otlp_http_url: str | None
    otlp_grpc_port: int | None


def run(arguments: argparse.Namespace) -> int:
    """`stagewatch up | collector | alerts | dashboard`."""
    config = configured(load(arguments.config), arguments.data_dir, arguments.port)
    if (prefix := vars(arguments).get("path_prefix")) is not None:
        config = _under(config, prefix)
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


def _under(config: Config, prefix: str) -> Config:
    """The same under another path; what is no prefix is refused as in the file."""
    if clean_prefix(prefix) is None:
        raise ConfigError(
            f"{prefix!r} is no path prefix", where="--path-prefix", remedy="Use one such as /watch."
        )
    dashboard = config.dashboard.model_copy(update={"path_prefix": prefix})
    return config.model_copy(update={"dashboard": dashboard})


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
    own = OwnMetrics(version=VERSION)
    with _signals(asked), ExitStack() as stack:
        telemetry = stack.enter_context(
            own_telemetry("stagewatch", config.telemetry, registry=own.registry)
        )
        process = _Process(config, stack, stop, asked, own=own, telemetry=telemetry)
        if "collector" in parts:
            process.collect()
            process.watch()
        if "alerts" in parts:
            process.evaluate()
        process.show(pages="dashboard" in parts)
        process.run("web", serve_web, process.web, stop, asked)
        stack.callback(ending)
        ready(process.running())
        asked.wait()
    process.fail()


class _Process:
    """The parts of one process; what they hold is let go in the reverse order."""

    def __init__(
        self,
        config: Config,
        stack: ExitStack,
        stop: threading.Event,
        asked: threading.Event,
        *,
        own: OwnMetrics,
        telemetry: Callable[[], str | None],
    ) -> None:
        self.web: list[tuple[FastAPI, socket]] = []
        self._config = config
        self._stack = stack
        self._stop, self._asked = stop, asked
        self._companions: list[Companion] = []
        self._own = own
        self._writer: Writer | None = None
        self._otlp: socket | None = None
        self._pages: socket | None = None
        self._grpc_port: int | None = None
        self._log = RefusalLog()
        self._problems: list[Callable[[], str | None]] = []
        self._warnings: list[Callable[[], str | None]] = [telemetry]
        self._state = open_state(config.alerting.state_location(config.store.data_dir))
        self._evaluation: Evaluation | None = None
        self._reader: Reader | None = None
        self._prometheus: APIRouter | None = None

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
        self._problems.append(self._writer.problem)
        self._otlp = self._listen(
            settings.host, settings.otlp_http_port, "collector.otlp_http_port"
        )
        grpc = serve_grpc(self._writer, settings, self._own, log=self._log)
        self._stack.callback(grpc.stop, GRACE_S / 2)
        self._grpc_port = grpc.port
        self._prometheus = self._receive(self._writer)
        app = _application()
        self._add_intake(app, self._writer)
        # why the writer alone: who sends must not be turned away because nothing is judged
        app.include_router(health_router(self._own, self._writer.problem))
        self.web.append((app, self._otlp))

    def watch(self) -> None:
        """The sidecars in this process, where the configuration names what they watch."""
        exporters = self._config.exporters
        if exporters.engine is not None:
            self._accompany("exporter", partial(run_exporter, self._beside(exporters.engine)))
        if exporters.gpu is not None:
            plan = self._beside(exporters.gpu).plan()
            self._accompany("gpu exporter", partial(run_gpu_exporter, plan))
        if (probing := self._config.probing) is not None:
            self._accompany("probe", partial(run_probe, self._beside(probing)))
        if (settings := exporters.cloudwatch) is not None:
            run = partial(run_cloudwatch, self._beside(settings))
            self._accompany("cloudwatch exporter", run)

    def fail(self) -> None:
        """Raises what kept a sidecar from running, if anything did."""
        for each in self._companions:
            if each.failure is not None:
                raise each.failure

    def evaluate(self) -> None:
        """The objectives, and the receivers of what comes of them, while this process leads."""
        evaluation = Evaluation(self._config.alerting, self._state, self._config.store.data_dir)
        self._stack.enter_context(evaluation.open())
        self._evaluation = evaluation
        self._own.watch(evaluation.counts)
        self._problems.append(evaluation.problem)
        self._warnings.append(evaluation.warning)
        self.run("leadership", evaluation.run, self._stop)
        if (cron := self._config.review.schedule) is not None:
            reviews = ReviewSchedule(
                self._config, cron, self._state, leads=lambda: evaluation.leads
            )
            self._warnings.append(reviews.problem)
            self.run("review", reviews.run, self._stop)

    def show(self, *, pages: bool) -> None:
        """The API, and the pages over it."""
        config, reader = self._config, self._read()
        ledger: Ledger = SqlLedger(self._state)
        app = _application()
        app.include_router(collector_api.router(reader))
        app.include_router(alerts_api.router(ledger))
        app.include_router(delivery_router(self._state))
        app.include_router(response_router(self._state, ledger))
        app.include_router(reset_router(self._state))
        promised = gather(config.alerting.objectives)
        events = ToldChanges(self._state)
        app.include_router(diagnosis_router(reader, promised, instant=instant_at, told=events))
        app.include_router(change_router(self._state, reader, ledger))
        shelf = Shelf(config.store.data_dir / "reviews")
        app.include_router(review_router(shelf))
        page = self._sum_up(reader, ledger) if pages else None
        app.include_router(health_router(self._own, self._problem, self._warning, page))
        if self._writer is not None:
            self._add_intake(app, self._writer)
        access = app.state.access = Access(config.auth)
        prefix = config.dashboard.path_prefix
        app.add_middleware(BoundedBodies)
        app.add_middleware(Gate, access)
        if pages:
            witness = ProcessWitness(
                config,
                self._own,
                self._state,
                self._evaluation,
                collects=self._writer is not None,
                told=(self._problem, self._warning),
            )
            attach(
                app,
                reader,
                ledger,
                prefix=prefix,
                refresh_s=config.dashboard.refresh_s,
                silent_s=config.dashboard.silent_s,
                access=access,
                witness=witness,
                shelf=shelf,
            )
        else:
            app.include_router(collector_api.unknown_router())
            app.add_middleware(Mount, prefix=prefix, access=access)
        app.add_middleware(QuestionsTold)
        self._pages = self._listen(config.dashboard.host, config.dashboard.port, "dashboard.port")
        self.web.append((app, self._pages))

    def _sum_up(self, reader: Reader, ledger: Ledger) -> SummaryPage | None:
        """Our answers for a Prometheus: by the one process that has the pages."""
        summing = self._stack.enter_context(summing_up(self._config, reader, ledger, self._own))
        self._warnings.append(summing.problem)
        return summing.page

    def running(self) -> Running:
        if self._pages is None:
            raise AssertionError("show() opens the pages before anybody asks where they are")
        return Running(
            pages_url=_url(self._pages),
            otlp_http_url=_url(self._otlp) if self._otlp else None,
            otlp_grpc_port=self._grpc_port,
        )

    def _accompany(self, name: str, run: Callable[[threading.Event], None]) -> None:
        companion = Companion(name, run)
        self._companions.append(companion)
        self._problems.append(companion.problem)
        self.run(name, companion.run, self._stop, self._asked)

    def _beside(self, settings: Delivering) -> Delivering:
        """A sidecar's settings: it sends to the collector of this process if there is one."""
        return self._config.beside(settings, _url(self._otlp) if self._otlp else None)

    def _receive(self, intake: Intake) -> APIRouter:
        """What Prometheus writes, and the thread that reads it."""
        settings = self._config.collecting
        keeper = Keeper(self._config.store.data_dir / "remote-write")
        keeper.forget(time.time() - settings.remote_write.forget_after_s)
        receiver = Receiver(
            settings.remote_write,
            intake,
            keeper=keeper,
            max_future_s=settings.max_future_s,
            log=self._log,
        )
        self._own.watch(receiver.counts)
        self.run("prometheus", receiver.run, self._stop)
        return remote_write_router(receiver, intake, settings, self._own, log=self._log)

    def _add_intake(self, app: FastAPI, intake: EndpointIntake) -> None:
        settings = self._config.collecting
        app.include_router(otlp_router(intake, settings, self._own, log=self._log))
        app.include_router(firehose_router(intake, settings, self._own, log=self._log))
        if self._prometheus is not None:
            app.include_router(self._prometheus)

    def _listen(self, host: str, port: int, setting: str) -> socket:
        return self._stack.enter_context(listen(host, port, setting=setting))

    def _read(self) -> Reader:
        if self._reader is None:
            reader = StoreReader(self._config.store.data_dir)
            self._stack.callback(reader.close)
            self._reader = reader
        return self._reader

    def _problem(self) -> str | None:
        """All that is wrong with the parts of this process."""
        return "; ".join(found for problem in self._problems if (found := problem())) or None

    def _warning(self) -> str | None:
        """What somebody should look at, while all of it works."""
        return "; ".join(found for warning in self._warnings if (found := warning())) or None


def _application() -> FastAPI:
    # why: FastAPI's own /docs page loads its scripts from a CDN
    app = FastAPI(title="Stagewatch", version=VERSION, docs_url=None, redoc_url=None)
    app.add_exception_handler(RequestValidationError, wrong_question)
    return app


def _url(listener: socket) -> str:
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - told, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


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
