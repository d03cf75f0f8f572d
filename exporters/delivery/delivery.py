"""The door: exports go in here, and come out at the collector or are counted."""

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
from prometheus_client.metrics_core import Metric

from domain.errors import ConfigError
from domain.labels import Labels
from domain.metric import METRICS
from exporters.delivery.export import Export, Waiting
from exporters.delivery.outbox import Outbox
from exporters.delivery.pusher import Pusher
from exporters.delivery.settings import DeliverySettings

__all__ = ["Delivery", "open_delivery"]

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
        if self._outbox is not None:
            yield from _metrics(self._outbox)


@asynccontextmanager
async def open_delivery(settings: DeliverySettings, *, kind: str) -> AsyncIterator[Delivery]:
    """The way to the collector of one kind of exporter; at the end it tries for a while to be empty."""
    if settings.endpoint is None:
        yield Delivery(None, None)
        return
    outbox = Outbox(
        settings.spool_dir / kind if settings.spool_dir is not None else None,
        max_bytes=settings.spool_bytes,
        max_age_s=settings.spool_age_s,
    )
    try:
        async with _client(settings) as client:
            delivery = Delivery(outbox, _pusher(settings, settings.endpoint, outbox, client))
            yield delivery
            await delivery.flush()
    finally:
        outbox.close()


def _pusher(
    settings: DeliverySettings, endpoint: str, outbox: Outbox, client: httpx.AsyncClient
) -> Pusher:
    url = endpoint.rstrip("/").removesuffix("/v1/metrics") + "/v1/metrics"
    token = settings.token.get_secret_value() if settings.token is not None else None
    return Pusher(outbox, client, url, timeout_s=settings.push_timeout_s, token=token)


def _client(settings: DeliverySettings) -> httpx.AsyncClient:
    """Without redirects and proxies; its deadlines are set per request."""
    return httpx.AsyncClient(
        follow_redirects=False,
        trust_env=False,
        timeout=None,  # noqa: S113 - see above
        verify=_trusted(settings),
    )


def _trusted(settings: DeliverySettings) -> ssl.SSLContext:
    """Whose certificates are believed."""
    if settings.ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=settings.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"no certificates can be read there: {error}",
            where=f"ca_file {settings.ca_file}",
            remedy="Name a file of certificates in PEM.",
        ) from error


async def _sync(outbox: Outbox) -> None:
    """What a power cut can take is what was put since the last round."""
    while True:
        await asyncio.sleep(_SYNC_S)
        await asyncio.to_thread(outbox.sync)


def _metrics(outbox: Outbox) -> Iterator[Metric]:
    waiting_bytes, oldest_age = (
        Metric(METRICS[name].full_name, METRICS[name].help, "gauge")
        for name in ("spooled_bytes", "spooled_age")
    )
    for owner in sorted(outbox.owners()):
        waiting = outbox.waiting(owner)
        waiting_bytes.add_sample(waiting_bytes.name, dict(owner), waiting.size_bytes)
        oldest_age.add_sample(oldest_age.name, dict(owner), waiting.oldest_age_s)
    yield from (waiting_bytes, oldest_age, _dropped(outbox), _held(outbox), _outcomes(outbox))


def _dropped(outbox: Outbox) -> Metric:
    known = METRICS["exports_dropped"]
    family = Metric(known.full_name.removesuffix("_total"), known.help, "counter")
    for (owner, reason), n in sorted(outbox.lost().items()):
        family.add_sample(known.full_name, {**dict(owner), "reason": reason}, n)
    return family


def _held(outbox: Outbox) -> Metric:
    family = Metric("stagewatch_exporter_spool_bytes", "Exports that wait, by where.", "gauge")
    for where, size in zip(("disk", "memory"), outbox.held_bytes(), strict=True):
        family.add_sample(family.name, {"where": where}, size)
    return family


def _outcomes(outbox: Outbox) -> Metric:
    family = Metric(
        "stagewatch_exporter_exports",
        "Exports sent, tried again, refused, points that the collector rejected, disk failures.",
        "counter",
    )
    for outcome, count in sorted(outbox.counts.items()):
        family.add_sample(f"{family.name}_total", {"outcome": outcome}, count)
    return family
