"""The exporter's own port: `/metrics` for whoever scrapes, `/healthz` for whoever restarts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from domain.errors import ConfigError

__all__ = ["serving"]

_PATIENCE_S = 10.0


class _Server(ThreadingHTTPServer):
    """Answers from memory."""

    daemon_threads = True

    def __init__(
        self, address: tuple[str, int], metrics: Callable[[], str], problem: Callable[[], str]
    ) -> None:
        self.metrics, self.problem = metrics, problem
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _PATIENCE_S  # a client that says nothing must not hold a thread for ever
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/metrics":
            self._answer(200, self.server.metrics(), "text/plain; version=0.0.4; charset=utf-8")
        elif path == "/healthz":
            problem = self.server.problem()
            self._answer(503 if problem else 200, f"{problem or 'ok'}\n", "text/plain")
        else:
            self._answer(404, "see /metrics and /healthz\n", "text/plain")

    def _answer(self, status: int, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the name there
        """A scrape is no news."""


@contextmanager
def serving(
    host: str, port: int, metrics: Callable[[], str], problem: Callable[[], str]
) -> Iterator[int]:
    """The port it listens on, until the end of the block."""
    try:
        server = _Server((host, port), metrics, problem)
    except OSError as error:
        raise ConfigError(
            f"the exporter's own page cannot listen there: {error.strerror}",
            where=f"exporters.gpu.listen_port {host}:{port}",
            remedy="Choose another port, 0 for a free one, or null for no page.",
        ) from error
    thread = Thread(target=server.serve_forever, args=(0.1,), name="gpu page", daemon=True)
    thread.start()
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
