"""`stagewatch demo`: a simulated fleet, a real sidecar and the real product, each its own process."""

import argparse
import multiprocessing
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.connection import wait as wait_for
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alerts.receivers.settings import WebhookSettings
from domain.errors import ConfigError, StagewatchError
from exporters.engine.settings import EngineSettings
from stagewatch.config import Config, load
from stagewatch.demo.replay import read_trace
from stagewatch.demo.serve import OBJECTIVES, run_fleet
from stagewatch.demo.settings import FleetSettings
from stagewatch.sockets import is_free
from stagewatch.up import Running, configured, serve

__all__ = ["DEFAULT_PORT", "run"]

DEFAULT_PORT = 8400
_READY_S = 120.0
_LOOK_S = 0.2
_CLOSE_S = 1.5


def run(arguments: argparse.Namespace) -> int:
    """Bring everything up, say where it is, and end it all together."""
    _check(arguments)
    asked = threading.Event()
    config = _config(arguments)
    children = _Children(asked)
    if arguments.exit_after is not None:
        timer = threading.Timer(arguments.exit_after, asked.set)
        timer.daemon = True
        timer.start()
    try:
        serve(
            config,
            asked=asked,
            ready=lambda running: _start(children, arguments, running),
            ending=children.close,
        )
    finally:
        children.close()
    return children.failed


def _check(arguments: argparse.Namespace) -> None:
    """What was typed, before anything is started."""
    try:
        _fleet_settings(arguments, "http://127.0.0.1:4318")
        _receivers(arguments)
    except ValidationError as error:
        first = error.errors()[0]
        given = " ".join(str(part) for part in first["loc"])
        raise ConfigError(
            first["msg"].removeprefix("Value error, "),
            where=f"demo ({given}: {first['input']!r})",
            remedy="See stagewatch demo --help.",
        ) from error
    if arguments.trace is not None:
        read_trace(arguments.trace)


def _fleet_settings(arguments: argparse.Namespace, endpoint: str) -> FleetSettings:
    return FleetSettings(
        endpoint=endpoint,
        seed=arguments.seed,
        speed=arguments.speed,
        trace=arguments.trace,
        incident=arguments.incident,
        incident_start_s=arguments.incident_after,
    )


def _receivers(arguments: argparse.Namespace) -> tuple[WebhookSettings, ...]:
    if not arguments.webhook:
        return ()
    hook = {"name": "demo-webhook", "url": arguments.webhook, "allow_private": True}
    return (WebhookSettings.model_validate(hook),)


def _config(arguments: argparse.Namespace) -> Config:
    """The demo's objectives, its receiver if one is named, and whatever the environment says.

    Where the usual OTLP ports are taken (a collector may run beside us) free ones do as well.
    """
    config = configured(load(None), arguments.data_dir, arguments.port)
    receivers = (*config.receivers, *_receivers(arguments))
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
    fleet = _fleet_settings(arguments, running.otlp_http_url or "")
    targets = children.start_fleet(fleet)
    children.start_exporter(
        EngineSettings.model_validate(
            {
                "targets": targets,
                "endpoint": running.otlp_http_url,
                "listen_port": arguments.sidecar_port,
                "spool_dir": arguments.data_dir / "spool",
            }
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
    url = "" if arguments.port == DEFAULT_PORT else f" --url {running.pages_url}"
    print(  # noqa: T201 - a command speaks
        f"""
Stagewatch demo: {replicas} simulated vLLM replicas, one sidecar, one server; {incident}.

  pages     {running.pages_url}
  ask       {command} query quantile --metric ttft --q 0.5,0.95,0.99 --by replica --from now-5m{url}
  OTLP      {running.otlp_http_url} (HTTP), port {running.otlp_grpc_port} (gRPC)
  data      {arguments.data_dir} (kept; a second start goes on from there)

The first objectives are judged when the first minute has closed. Ctrl-C ends everything.
""",
        file=sys.stderr,
        flush=True,
    )


class _Children:
    """The fleet and the sidecar. If one dies, the demo ends and says so.

    Each child holds the far end of a pipe: it leaves when we close ours, and so also when we die.
    """

    def __init__(self, asked: threading.Event) -> None:
        self.failed = 0
        self._asked = asked
        self._context = multiprocessing.get_context("spawn")
        self._processes: list[Any] = []
        self._ends: list[Connection] = []

    def start_fleet(self, settings: FleetSettings) -> Sequence[dict[str, Any]]:
        """Returns where the replicas' pages are."""
        receiver, sender = self._context.Pipe(duplex=False)
        self._start("fleet", _fleet, settings, sender)
        sender.close()  # the child has its own: if it dies, there is nothing more to wait for
        until_s = time.monotonic() + _READY_S
        while not self._asked.is_set() and time.monotonic() < until_s:
            if receiver.poll(_LOOK_S):
                return _targets(receiver)
        raise _never_came(f"did not come up within {_READY_S:.0f} s")

    def start_exporter(self, settings: EngineSettings) -> None:
        self._start("exporter", _exporter, settings)

    def close(self) -> None:
        """Ask, wait a little, insist. A second time there is nothing left to do."""
        self._asked.set()
        for end in self._ends:
            end.close()
        until_s = time.monotonic() + _CLOSE_S
        for process in self._processes:
            process.join(max(until_s - time.monotonic(), 0.0))
            if process.is_alive():
                process.kill()
        self._processes.clear()

    def _start(self, name: str, target: Callable[..., None], *arguments: Any) -> None:
        far, near = self._context.Pipe(duplex=False)
        process = self._context.Process(
            target=target, args=(far, *arguments), name=name, daemon=True
        )
        process.start()
        far.close()
        self._ends.append(near)
        self._processes.append(process)
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()

    def _watch(self, process: Any) -> None:
        wait_for([process.sentinel])
        if not self._asked.is_set():
            print(f"stagewatch: the demo's {process.name} ended", file=sys.stderr)  # noqa: T201
            self.failed = 1
            self._asked.set()


def _targets(receiver: Connection) -> Sequence[dict[str, Any]]:
    try:
        targets: Sequence[dict[str, Any]] = receiver.recv()
    except EOFError as error:
        raise _never_came("ended before it had come up") from error
    return targets


def _never_came(problem: str) -> StagewatchError:
    return StagewatchError(
        problem,
        where="the simulated fleet",
        remedy="Its words stand above. Where there are none, the machine is busy: try again.",
    )


def _fleet(far: Connection, settings: FleetSettings, sender: Connection) -> None:
    run_fleet(settings, _until(far), lambda targets: sender.send(list(targets)))


def _exporter(far: Connection, settings: EngineSettings) -> None:
    from exporters.engine.run import (  # noqa: PLC0415 - only this process needs it
        run as run_exporter,
    )

    run_exporter(settings, _until(far))


def _until(far: Connection) -> threading.Event:
    """Set once the other end is closed. Ctrl-C reaches the demo itself, which then closes it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    stop = threading.Event()

    def wait() -> None:
        wait_for([far])
        stop.set()

    threading.Thread(target=wait, daemon=True).start()
    return stop
