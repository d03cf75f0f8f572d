"""A TCP line that can be cut so that neither side hears of it: packets are lost, sockets stay open."""

import selectors
import socket
import threading

__all__ = ["Wire"]


class Wire:
    """Forwards to a port of loopback until it is cut; what comes while it is cut waits."""

    def __init__(self, port):
        self._port = port
        self._whole = threading.Event()
        self._whole.set()
        self._done = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._whole.set()
        self._listener.close()

    def cut(self):
        self._whole.clear()

    def mend(self):
        self._whole.set()

    def _accept(self):
        while not self._done.is_set():
            try:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                return
            threading.Thread(target=self._carry, args=(near, far), daemon=True).start()

    def _carry(self, near, far):
        with near, far, selectors.DefaultSelector() as ready:
            ready.register(near, selectors.EVENT_READ, far)
            ready.register(far, selectors.EVENT_READ, near)
            while not self._done.is_set():
                for key, _ in ready.select(0.2):
                    try:
                        data = key.fileobj.recv(65_536)
                        self._whole.wait()
                        key.data.sendall(data)
                    except OSError:
                        return
                    if not data:
                        return
