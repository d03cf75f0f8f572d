"""The way of readings to the collector: a thread that makes one export after the other and pushes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from threading import Event

from exporters.engine.otlp import export_request
from exporters.engine.push import Outbox, Pusher
from exporters.engine.reading import Reading
from exporters.engine.scrape import http_client
from exporters.gpu.settings import GpuSettings

__all__ = ["send"]

_LOG = logging.getLogger(__name__)
_LAST_FLUSH_S = 1.5
_LOOK_S = 0.1


def send(settings: GpuSettings, next_reading: Callable[[], Reading], stop: Event) -> None:
    """Until `stop`; then one last export."""
    if settings.endpoint is not None:
        asyncio.run(_send(settings, settings.endpoint, next_reading, stop))


async def _send(
    settings: GpuSettings, endpoint: str, next_reading: Callable[[], Reading], stop: Event
) -> None:
    outbox = Outbox(max_bytes=settings.queue_bytes, max_age_s=settings.queue_age_s)
    url = endpoint.rstrip("/").removesuffix("/v1/metrics") + "/v1/metrics"
    token = settings.token.get_secret_value() if settings.token is not None else None
    async with http_client() as client:
        pusher = Pusher(outbox, client, url, timeout_s=settings.push_timeout_s, token=token)
        pushing = asyncio.create_task(pusher.run())
        while not await _stopped(stop, settings.push_interval_s):
            outbox.put(export_request(next_reading()).SerializeToString())
        outbox.put(export_request(next_reading()).SerializeToString())
        pushing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pushing
        if await pusher.flush(_LAST_FLUSH_S):
            _LOG.warning("%d exports were not sent and are lost", len(outbox))


async def _stopped(stop: Event, within_s: float) -> bool:
    clock = asyncio.get_running_loop().time
    end_s = clock() + within_s
    while not stop.is_set() and (left_s := end_s - clock()) > 0:
        await asyncio.sleep(min(left_s, _LOOK_S))
    return stop.is_set()
