"""`stagewatch demo`: a simulated fleet, a real sidecar and the real product, each its own process."""

import argparse
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.context import SpawnContext
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from alerts.settings import WebhookSettings
from exporters.engine.settings import EngineSettings
from stagewatch.config import Config, load
from stagewatch.demo.serve import OBJECTIVES, run_fleet
from stagewatch.demo.settings import FleetSettings
from stagewatch.sockets import is_free
from stagewatch.up import Running, configured, serve

__all__ = ["run"]

_READY_S = 30.0
_CLOSE_S = 2.0
_ORPHAN_CHECK_S = 1.0


def run(arguments: argparse.Namespace) -> int:
    """Bring everything up, say where it is, and end it all together."""
    stop = threading.Event()
    config = _config(arguments)
    children = _Children(stop)
    with ExitStack() as stack:
        stack.callback(children.close)
        if arguments.exit_after is not None:
            timer = threading.Timer(arguments.exit_after, stop.set)
            timer.daemon = True
            timer.start()
            stack.callback(timer.cancel)
        serve(config, stop=stop, ready=lambda running: _start(children, arguments, running))
    return children.failed


def _config(arguments: argparse.Namespace) -> Config:
    """The demo's objectives, its receiver if one is named, and whatever the environment says.

    Where the usual OTLP ports are taken (a collector may run beside us) free ones do as well.
    """
    config = configured(load(None), arguments.data_dir, arguments.port)
    receivers = config.receivers
    if arguments.webhook:
        hook = {"name": "demo-webhook", "url": arguments.webhook, "allow_private": True}
        receivers = (*receivers, WebhookSettings.model_validate(hook))
    alerts = config.alerts.model_copy(
        update={"public_url": f"http://127.0.0.1:{config.dashboard.port}"}
    )
    collector = config.collector.model_copy(
        update={
            name: 0
            for name in ("otlp_http_port", "otlp_grpc_port")
            if not is_free(config.collector.host, getattr(config.collector, name))
        }
    )
    return config.model_copy(
        update={
            "objectives": config.objectives or (str(OBJECTIVES),),
            "receivers": receivers,
            "alerts": alerts,
            "collector": collector,
        }
    )


def _start(children: "_Children", arguments: argparse.Namespace, running: Running) -> None:
    fleet = FleetSettings(
        endpoint=running.otlp_http_url or "",
        seed=arguments.seed,
        speed=arguments.speed,
        trace=arguments.trace,
        incident=arguments.incident,
        incident_start_s=arguments.incident_after,
    )
    targets = children.start_fleet(fleet)
    children.start_exporter(
        EngineSettings.model_validate(
            {"targets": targets, "endpoint": running.otlp_http_url, "listen_port": None}
        )
    )
    _welcome(arguments, running, len(targets))


def _welcome(arguments: argparse.Namespace, running: Running, replicas: int) -> None:
    command = Path(sys.executable).with_name("stagewatch")
    incident = (
        f"the incident {arguments.incident!r} begins in {arguments.incident_after:.0f} s"
        if arguments.incident != "none"
        else "all is well; try --incident queue"
    )
    print(  # noqa: T201 - a command speaks
        f"""
Stagewatch demo: {replicas} simulated vLLM replicas, one sidecar, one server; {incident}.

  pages     {running.pages_url}
  ask       {command} query quantile --metric ttft --q 0.5,0.95,0.99 --by replica --from now-5m
  OTLP      {running.otlp_http_url} (HTTP), port {running.otlp_grpc_port} (gRPC)
  data      {arguments.data_dir} (kept; a second start goes on from there)

The first objectives are judged when the first minute has closed. Ctrl-C ends everything.
""",
        file=sys.stderr,
        flush=True,
    )


@dataclass(slots=True)
class _Children:
    """The fleet and the sidecar. If one dies, the demo ends and says so."""

    stop: threading.Event
    failed: int = 0
    _context: SpawnContext = field(default_factory=lambda: multiprocessing.get_context("spawn"))
    _asked: Event | None = None
    _processes: list[Any] = field(default_factory=list)

    def start_fleet(self, settings: FleetSettings) -> Sequence[dict[str, Any]]:
        """Returns where the replicas' pages are."""
        receiver, sender = self._context.Pipe(duplex=False)
        self._start("fleet", _fleet, settings, sender)
        if not receiver.poll(_READY_S):
            raise RuntimeError("the simulated fleet did not come up; its words stand above")
        targets: Sequence[dict[str, Any]] = receiver.recv()
        return targets

    def start_exporter(self, settings: EngineSettings) -> None:
        self._start("exporter", _exporter, settings)

    def close(self) -> None:
        """Ask, wait a little, insist."""
        self.stop.set()
        if self._asked is not None:
            self._asked.set()
        for process in self._processes:
            process.join(_CLOSE_S)
            if process.is_alive():
                process.kill()

    def _start(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        if self._asked is None:
            self._asked = self._context.Event()
        process = self._context.Process(
            target=target, args=(os.getpid(), self._asked, *arguments), name=name, daemon=True
        )
        process.start()
        self._processes.append(process)
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()

    def _watch(self, process: Any) -> None:
        process.join()
        if not self.stop.is_set():
            print(f"stagewatch: the demo's {process.name} ended", file=sys.stderr)  # noqa: T201
            self.failed = 1
            self.stop.set()


def _fleet(parent: int, asked: Event, settings: FleetSettings, sender: Any) -> None:
    run_fleet(settings, _until(parent, asked), lambda targets: sender.send(list(targets)))


def _exporter(parent: int, asked: Event, settings: EngineSettings) -> None:
    from exporters.engine.run import run as run_exporter  # noqa: PLC0415 - only this process needs it

    run_exporter(settings, _until(parent, asked))


def _until(parent: int, asked: Event) -> threading.Event:
    """Set when the demo asks, or when it is gone. Ctrl-C reaches the demo, which then asks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()

    def wait() -> None:
        while not asked.wait(_ORPHAN_CHECK_S) and os.getppid() == parent:
            pass
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    return stop
