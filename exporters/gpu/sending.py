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
from exporters.gpu.plan import Plan

__all__ = ["send"]

_LOG = logging.getLogger(__name__)
_LAST_FLUSH_S = 1.5


def send(plan: Plan, next_reading: Callable[[], Reading], stop: Event) -> None:
    """Until `stop`; then one last export."""
    if plan.endpoint is not None:
        asyncio.run(_send(plan, plan.endpoint, next_reading, stop))


async def _send(
    plan: Plan, endpoint: str, next_reading: Callable[[], Reading], stop: Event
) -> None:
    outbox = Outbox(max_bytes=plan.queue_bytes, max_age_s=plan.queue_age_s)
    url = endpoint.rstrip("/").removesuffix("/v1/metrics") + "/v1/metrics"
    async with http_client() as client:
        pusher = Pusher(outbox, client, url, timeout_s=plan.push_timeout_s, token=plan.token)
        pushing = asyncio.create_task(pusher.run())
        while not await _stopped(stop, plan.push_interval_s):
            outbox.put(export_request(next_reading()).SerializeToString())
        outbox.put(export_request(next_reading()).SerializeToString())
        pushing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await pushing
        if await pusher.flush(_LAST_FLUSH_S):
            _LOG.warning("%d exports were not sent and are lost", len(outbox))


async def _stopped(stop: Event, within_s: float) -> bool:
    """Waits that long, or until told to stop; the event belongs to threads."""
    return await asyncio.to_thread(stop.wait, within_s)
