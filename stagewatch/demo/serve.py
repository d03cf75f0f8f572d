"""The fleet in real time: pages on real sockets, spans to a real collector.

Time stamps and durations are those of the wall clock at every speed. `speed` makes the traffic's
clock run faster and the engines as much wider, so that an hour of users passes in 60/speed minutes
while no latency is scaled and no time stamp is invented.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from domain.errors import ConfigError
from stagewatch.demo.blueprint import Replica
from stagewatch.demo.fleet import Fleet
from stagewatch.demo.incidents import incident
from stagewatch.demo.page_server import PageServer, open_pages
from stagewatch.demo.replay import arrivals, read_trace
from stagewatch.demo.replica import SimulatedReplica
from stagewatch.demo.sender import SpanSender
from stagewatch.demo.settings import FleetSettings
from stagewatch.demo.spans import export_request

__all__ = ["OBJECTIVES", "run_fleet", "targets"]

OBJECTIVES = Path(__file__).with_name("objectives.yaml")
_TICK_S = 0.05

_log = logging.getLogger(__name__)

Target = Mapping[str, Any]


def run_fleet(
    settings: FleetSettings,
    stop: threading.Event,
    ready: Callable[[Sequence[Target]], None] = lambda _: None,
) -> None:
    """Run until `stop` is set; `ready` is told once where the pages are."""
    replayed = {}
    if settings.trace is not None:
        replayed["assistant"] = arrivals(read_trace(settings.trace))
    fleet = Fleet(
        settings,
        started_at_ns=time.time_ns(),
        incident=incident(settings.incident),
        arrivals=replayed,
    )
    sender = SpanSender(settings)
    sender.start()
    try:
        asyncio.run(_serve(settings, fleet, sender, stop, ready))
    finally:
        sender.close()


def targets(replicas: Sequence[Replica], host: str, ports: Sequence[int]) -> list[Target]:
    """What an engine exporter needs to know of each page."""
    return [
        {
            "url": f"http://{host}:{port}/metrics",
            "service": replica.service,
            "replica": replica.name,
            "role": replica.role,
            "pool": replica.pool,
            "labels": {
                "region": replica.region,
                "zone": replica.zone,
                "use_case": replica.use_case,
            },
        }
        for replica, port in zip(replicas, ports, strict=True)
    ]


async def _serve(
    settings: FleetSettings,
    fleet: Fleet,
    sender: SpanSender,
    stop: threading.Event,
    ready: Callable[[Sequence[Target]], None],
) -> None:
    replicas = list(fleet.replicas.values())
    pages = await _open(settings, replicas)
    found = targets([replica.about for replica in replicas], settings.host, pages.ports)
    for target in found:
        _log.info("page of %s: %s", target["replica"], target["url"])
    ready(found)
    started_s = time.monotonic()
    export_at_s = settings.export_every_s
    try:
        while not stop.is_set():
            await asyncio.sleep(_TICK_S)
            fleet.advance(time.monotonic() - started_s)
            if fleet.now_s >= export_at_s:
                export_at_s = fleet.now_s + settings.export_every_s
                _export(fleet, sender)
        _export(fleet, sender)
    finally:
        await pages.close()


async def _open(settings: FleetSettings, replicas: Sequence[SimulatedReplica]) -> PageServer:
    renders = [replica.render for replica in replicas]
    try:
        return await open_pages(renders, host=settings.host, base_port=settings.base_port)
    except OSError as error:
        raise ConfigError(
            f"cannot listen for the engines' pages: {error.strerror}",
            where=f"demo ({settings.host}:{settings.base_port})",
            remedy="Use another base port, or 0 for free ones.",
        ) from error


def _export(fleet: Fleet, sender: SpanSender) -> None:
    spans = fleet.drain()
    if spans:
        sender.offer(export_request(spans), len(spans))
