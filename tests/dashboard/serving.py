"""The pages on a free port, over a world that a test may change."""

import socket
import threading
import time
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from alerts.access import Gate
from dashboard.app import attach
from tests.dashboard.memory import MemoryLedger, MemoryReader
from tests.dashboard.worlds import WORLDS


class Served:
    """A running server: its address, its reader, and a clock that a test may set."""

    def __init__(self, url, reader):
        self.url = url
        self.reader = reader

    def show(self, name):
        self.reader.world = WORLDS[name](int(time.time()))
        self.reader.broken = False


def server(reader, *, gated=False, **options):
    """The same FastAPI that a real process has, with one route of the API."""
    # why: FastAPI's own /docs page loads its scripts from a CDN
    api = FastAPI(title="Stagewatch", docs_url=None, redoc_url=None)

    @api.get("/healthz")
    def healthz():
        return "ok"

    if gated:
        api.add_middleware(Gate, access=options["access"])
    attach(api, reader, MemoryLedger(reader), **options)
    return api


@contextmanager
def serving(name, **options):
    reader = MemoryReader(WORLDS[name](int(time.time())))
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(server(reader, **options), log_level="warning", lifespan="on")
    http = uvicorn.Server(config)
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}", reader)
    finally:
        http.should_exit = True
        thread.join(timeout=10)
        listener.close()
