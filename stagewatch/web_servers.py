"""The web servers of a process, all on one loop and thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from socket import socket

import uvicorn
from fastapi import FastAPI

__all__ = ["GRACE_S", "serve_web"]

GRACE_S = 1  # to each part in turn: all together end within 5 s


def serve_web(
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
                    timeout_graceful_shutdown=GRACE_S,
                    server_header=False,
                    proxy_headers=False,  # why: who asks is decided by `auth.proxies`
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
