"""What every sidecar does beside reading: its own page on a port, and the wait for its end."""

import asyncio
from contextlib import AsyncExitStack
from threading import Event

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.registry import Collector

from domain.errors import ConfigError

__all__ = ["serve_page", "until_stopped"]

_LOOK_S = 0.1


def serve_page(page: Collector, host: str, port: int | None, stack: AsyncExitStack) -> int | None:
    """The exporter's own `/metrics` until the stack closes; the port where it really is."""
    if port is None:
        return None
    registry = CollectorRegistry()
    registry.register(page)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        raise ConfigError(
            f"the exporter's own page cannot listen there: {error.strerror}",
            where=f"listen_port {host}:{port}",
            remedy="Choose another port, 0 for a free one, or null for no page.",
        ) from error
    stack.callback(thread.join)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    return int(server.server_port)


async def until_stopped(stop: Event, tasks: list[asyncio.Task[None]]) -> None:
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
