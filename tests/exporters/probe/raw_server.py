"""A server that sends the very bytes that a test gives, whatever they are, and then hangs up."""

import contextlib
import socket
import threading
import time

__all__ = ["RawServer", "streamed"]


class RawServer:
    """`pieces` are sent one after the other once a whole request has come; floats are pauses."""

    def __init__(self, *pieces, family=socket.AF_INET, host="127.0.0.1"):
        self.pieces, self.requests = pieces, []
        self._family, self._host = family, host
        self._closing = threading.Event()

    def __enter__(self):
        self._listener = socket.socket(self._family)
        self._listener.bind((self._host, 0))
        self._listener.listen(16)
        self._listener.settimeout(0.05)
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._closing.set()
        self._thread.join()
        self._listener.close()

    @property
    def url(self):
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    def _accept(self):
        while not self._closing.is_set():
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                with client:
                    self._serve(client)

    def _serve(self, client):
        client.settimeout(2)
        self.requests.append(_request(client))
        for piece in self.pieces:
            if isinstance(piece, float):
                time.sleep(piece)
            else:
                client.sendall(piece)


def streamed(*events, content_type="text/event-stream", status="200 OK"):
    """An answer to the end of the connection."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n"
    return (head.encode(), *events)


def _request(client):
    data = b""
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    while len(body) < int(headers.get("content-length", 0)):
        body += client.recv(65536)
    return lines[0], headers, body
