"""A collector for these tests: a real socket that takes exports, or refuses them as told."""

import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

__all__ = ["Sink"]


class Sink:
    """`answers` are statuses (and headers) for the next exports; afterwards 200 for all."""

    def __init__(self, *answers):
        self.answers = deque(answers)
        self.requests = []
        self.headers = []
        self.paths = []
        self._news = threading.Condition()
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                status, extra = sink.take(self.path, dict(self.headers), body)
                self.send_response(status)
                for name, value in extra.items():
                    self.send_header(name, value)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *arguments):
                del arguments

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def spans(self):
        return [
            (group.resource, span)
            for request in self.requests
            for group in request.resource_spans
            for scope in group.scope_spans
            for span in scope.spans
        ]

    def take(self, path, headers, body):
        with self._news:
            self.paths.append(path)
            self.headers.append(headers)
            answer = self.answers.popleft() if self.answers else (200, {})
            if answer[0] == 200:
                request = ExportTraceServiceRequest()
                request.ParseFromString(body)
                self.requests.append(request)
            self._news.notify_all()
        return answer

    def wait_for(self, enough, timeout_s=30.0):
        """Until `enough(sink)`; an assertion error when it never comes."""
        with self._news:
            assert self._news.wait_for(lambda: enough(self), timeout_s)

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
