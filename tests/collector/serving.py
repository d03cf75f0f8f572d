"""A real server on loopback, and an intake that only records."""

import socket
import threading
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from collector.http import otlp_router
from collector.intake import Outcome
from collector.own_metrics import OwnMetrics, health_router
from collector.settings import CollectorSettings

__all__ = ["RecordingIntake", "app_of", "http_server", "reading"]


class RecordingIntake:
    """Keeps what it is given in memory. `answer` is said to all; `error` is raised if set."""

    def __init__(self, answer=None, error=None):
        self.answer = answer or Outcome()
        self.error = error
        self.requests = []

    def traces(self, request):
        if self.error:
            raise self.error
        self.requests.append(request)
        return self.answer

    metrics = traces

    @property
    def spans(self):
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


def app_of(intake, metrics, *, problem=lambda: None, log=None, **settings):
    app = FastAPI(docs_url=None, redoc_url=None)
    app.include_router(otlp_router(intake, CollectorSettings(**settings), metrics, log=log))
    app.include_router(health_router(metrics, problem))
    return app


class _Server(uvicorn.Server):
    def __init__(self, config):
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets=None):
        await super().startup(sockets=sockets)
        self.up.set()


@contextmanager
def http_server(app, *, http="auto"):
    """The base URL of a uvicorn that serves `app` until the end of the block."""
    config = uvicorn.Config(app, http=http, ws="none", log_config=None, timeout_graceful_shutdown=2)
    server = _Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            assert server.up.wait(20), "uvicorn did not start"
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def reading(metrics: OwnMetrics, name, **labels):
    """A value on `/metrics`, 0.0 while nothing has counted."""
    return metrics.registry.get_sample_value(f"stagewatch_collector_{name}", labels) or 0.0
