"""A real pager on loopback: remembers what was posted, and answers as it is told."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Pager"]


class Pager:
    """`answers` are used up one per post, as (status, headers); then everything is 200."""

    def __init__(self, answers=()):
        self.answers = list(answers)
        self.posts = []
        self.lock = threading.Lock()
        self.hang = threading.Event()
        self.hang.set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True
        )

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.hang.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}/hook?token=s3cret"

    @property
    def accepted(self):
        """What a pager that keeps idempotency keys has seen, in order."""
        with self.lock:
            kept = {}
            for post in self.posts:
                if post["status"] == 200:
                    kept.setdefault(post["key"], post["body"])
            return list(kept.values())

    def wait_for(self, count, timeout_s=20.0):
        """Until so many different notifications were accepted."""
        until_s = time.monotonic() + timeout_s
        while len(self.accepted) < count and time.monotonic() < until_s:
            threading.Event().wait(0.02)
        return self.accepted

    def _handler(self):
        pager = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                text = self.rfile.read(int(self.headers["Content-Length"]))
                pager.hang.wait(30)
                with pager.lock:
                    status, headers = pager.answers.pop(0) if pager.answers else (200, {})
                    pager.posts.append(
                        {
                            "at_s": time.monotonic(),
                            "status": status,
                            "key": self.headers["Idempotency-Key"],
                            "host": self.headers["Host"],
                            "headers": dict(self.headers),
                            "body": json.loads(text),
                        }
                    )
                self.send_response(status)
                for name, value in {**headers, "Content-Length": "0"}.items():
                    self.send_header(name, value)
                self.end_headers()

            def log_message(self, *_):
                return

        return Handler
