"""An engine's HTTP side that serves what a test wants: pages, nothing, half of it, or a trickle."""

import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Fake", "answering", "serving"]


class Fake(ThreadingHTTPServer):
    """A server on a free port of loopback. `closing` is set when its answers should end."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        self.closing = threading.Event()
        self.requests = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                answer(self)

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                fake.requests.append((self.path, dict(self.headers), body))
                answer(self)

            def log_message(self, *_):
                """Nothing: tests are quiet."""

        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, *_):
        """A client that went away is what some tests are about."""

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/metrics"

    @property
    def root(self):
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving(answer):
    fake = Fake(answer)
    thread = threading.Thread(target=fake.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield fake
    finally:
        fake.closing.set()
        fake.shutdown()
        thread.join()
        fake.server_close()


def answering(body, *, status=200, headers=()):
    """An answer of this body, or of what calling it gives."""

    def answer(request):
        sent = body() if callable(body) else body
        request.send_response(status)
        for name, value in headers:
            request.send_header(name, value)
        request.send_header("content-length", str(len(sent)))
        request.end_headers()
        request.wfile.write(sent)

    return answer
