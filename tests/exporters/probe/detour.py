"""A relay in front of a server that plants delays where no server can: in the handshakes.

TCP: its listen queue is full when the probe's SYN comes, so the kernel drops that SYN and the
probe's kernel sends it again after one second (RFC 6298). TLS: the server's first bytes, which are
its flight of the TLS handshake, are held back.
"""

import contextlib
import socket
import threading
import time

__all__ = ["SYN_AGAIN_S", "Detour"]

SYN_AGAIN_S = 1.0


class Detour:
    """Relays connections to `port`; everything in threads, so that no loop of ours is held up."""

    def __init__(self, port, *, first_flight_s=0.0, queue_full_s=0.0):
        self._to, self._first_flight_s, self._queue_full_s = port, first_flight_s, queue_full_s
        self.held_s = []  # how long first bytes were really held
        self._closing = threading.Event()
        self._threads = []

    def __enter__(self):
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self._listener.settimeout(0.05)
        self.port = self._listener.getsockname()[1]
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self._closing.set()
        self._listener.close()
        for thread in self._threads:
            thread.join()

    def fill(self):
        """Fill the queue now, and drain it after `queue_full_s`."""
        self._until_s = time.monotonic() + self._queue_full_s
        time.sleep(0.1)  # until nobody accepts any more
        self._fillers = []
        for _ in range(3):
            filler = socket.socket()
            filler.settimeout(0)
            filler.connect_ex(("127.0.0.1", self.port))
            self._fillers.append(filler)
        time.sleep(0.05)

    _until_s = 0.0
    _fillers = ()

    def _accept(self):
        while not self._closing.is_set():
            if time.monotonic() < self._until_s:
                time.sleep(0.01)
                continue
            for filler in self._fillers:
                filler.close()
            self._fillers = ()
            with contextlib.suppress(OSError):
                client, _ = self._listener.accept()
                client.settimeout(0.05)
                self._start(self._relay, client)

    def _relay(self, client):
        with client, socket.create_connection(("127.0.0.1", self._to)) as server:
            server.settimeout(0.05)
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            up = threading.Thread(target=self._copy, args=(client, server, 0.0))
            up.start()
            self._copy(server, client, self._first_flight_s)
            up.join()

    def _copy(self, source, sink, hold_s):
        with contextlib.suppress(OSError):
            while not self._closing.is_set():
                try:
                    data = source.recv(65536)
                except TimeoutError:
                    continue
                if hold_s:
                    begun_ns = time.perf_counter_ns()
                    time.sleep(hold_s)
                    self.held_s.append((time.perf_counter_ns() - begun_ns) / 1e9)
                    hold_s = 0.0
                if not data:
                    break
                sink.sendall(data)
            with contextlib.suppress(OSError):
                sink.shutdown(socket.SHUT_WR)

    def _start(self, target, *arguments):
        thread = threading.Thread(target=target, args=arguments)
        thread.start()
        self._threads.append(thread)
