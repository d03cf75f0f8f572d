"""The door: exports go in here, and come out at the collector or are counted."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING

import httpx

from domain.errors import ConfigError
from domain.labels import Labels
from exporters.delivery.export import Export, Waiting
from exporters.delivery.loss import Losses
from exporters.delivery.outbox import Outbox
from exporters.delivery.pusher import Pusher
from exporters.delivery.way import Way

if TYPE_CHECKING:  # a sidecar that needs neither does without their memory
    from prometheus_client.metrics_core import Metric

    from exporters.delivery.settings import DeliverySettings

__all__ = ["Delivery", "open_delivery", "open_way"]

_LOG = logging.getLogger(__name__)
_LAST_FLUSH_S = 2.0
_SYNC_S = 1.0


class Delivery:
    """What a sidecar sees of it. Without an endpoint nothing is kept and nothing is sent."""

    def __init__(self, outbox: Outbox | None, pusher: Pusher | None) -> None:
        self._outbox, self._pusher = outbox, pusher

    def put(self, export: Export) -> None:
        """From any thread; whatever the disk does is counted and said, not raised."""
        if self._outbox is not None:
            self._outbox.put(export)

    def memo(self, owner: Labels) -> bytes | None:
        """What the last process asked to have remembered, in step with the exports it put."""
        return self._outbox.memo(owner) if self._outbox is not None else None

    def waiting(self, owner: Labels) -> Waiting:
        return self._outbox.waiting(owner) if self._outbox is not None else Waiting()

    def owners(self) -> list[Labels]:
        """Whoever has anything waiting, or has lost something."""
        return sorted(self._outbox.owners()) if self._outbox is not None else []

    def lost(self) -> Losses:
        """Exports that were dropped since this process began, by owner and reason."""
        return self._outbox.lost() if self._outbox is not None else Counter()

    def held_bytes(self) -> tuple[int, int]:
        """All that waits: bytes on disk, bytes in memory."""
        return self._outbox.held_bytes() if self._outbox is not None else (0, 0)

    async def run(self) -> None:
        """Push until cancelled."""
        if self._outbox is None or self._pusher is None:
            await asyncio.Event().wait()
            return
        await asyncio.gather(self._pusher.run(), _sync(self._outbox))

    async def flush(self) -> None:
        """The last seconds, before the end."""
        if self._pusher is not None and (left := await self._pusher.flush(_LAST_FLUSH_S)):
            _LOG.warning("%d exports are not sent; what is on disk waits for the next start", left)

    def metrics(self) -> Iterator[Metric]:
        """For the sidecar's own page."""
        from exporters.delivery.families import families  # noqa: PLC0415 - only such a page pays

        if self._outbox is not None:
            yield from families(self._outbox)


def open_delivery(
    settings: DeliverySettings, *, kind: str
) -> AbstractAsyncContextManager[Delivery]:
    """The way to the collector of one kind of exporter; at the end it tries for a while to be empty."""
    return open_way(settings.way(), kind=kind)


@asynccontextmanager
async def open_way(way: Way, *, kind: str) -> AsyncIterator[Delivery]:
    """The same for a process that knows the plain values only."""
    if way.endpoint is None:
        yield Delivery(None, None)
        return
    outbox = Outbox(
        way.spool_dir / kind if way.spool_dir is not None else None,
        max_bytes=way.spool_bytes,
        max_age_s=way.spool_age_s,
    )
    try:
        async with _client(way) as client:
            pusher = _pusher(way, way.endpoint, outbox, client)
            delivery = Delivery(outbox, pusher)
            try:
                yield delivery
                await delivery.flush()
            finally:
                await pusher.close()
    finally:
        outbox.close()


def _pusher(way: Way, endpoint: str, outbox: Outbox, client: httpx.AsyncClient) -> Pusher:
    url = endpoint.rstrip("/").removesuffix("/v1/metrics") + "/v1/metrics"
    return Pusher(outbox, client, url, timeout_s=way.push_timeout_s, token=way.token)


def _client(way: Way) -> httpx.AsyncClient:
    """Without redirects and proxies; its deadlines are set per request."""
    return httpx.AsyncClient(
        follow_redirects=False,
        trust_env=False,
        timeout=None,  # noqa: S113 - see above
        verify=_trusted(way),
    )


def _trusted(way: Way) -> ssl.SSLContext:
    """Whose certificates are believed; without TLS nobody's, which saves their memory."""
    if way.endpoint is not None and way.endpoint.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if way.ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=way.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"no certificates can be read there: {error}",
            where=f"ca_file {way.ca_file}",
            remedy="Name a file of certificates in PEM.",
        ) from error


async def _sync(outbox: Outbox) -> None:
    """What a power cut can take is what was put since the last round."""
    while True:
        await asyncio.sleep(_SYNC_S)
        await asyncio.to_thread(outbox.sync)
