"""A real HTTP server on loopback that stands for a service: remembers what came, answers as told."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

__all__ = ["Listening"]


class Listening:
    """`answers` are used up one per post, as (status, headers, text); then `usual` is said."""

    def __init__(self, *answers, usual=(200, {}, "ok")):
        self.answers, self.usual = list(answers), usual
        self.posts = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    def said(self, place=-1):
        """The JSON of one post."""
        return self.posts[place]["json"]

    def _handler(self):
        listening = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                text = self.rfile.read(int(self.headers["Content-Length"])).decode()
                listening.posts.append(
                    {"path": self.path, "headers": dict(self.headers), "json": json.loads(text)}
                )
                usual = listening.usual
                answer = listening.answers.pop(0) if listening.answers else usual
                status, headers, body = answer(text) if callable(answer) else answer
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                return

        return Handler
