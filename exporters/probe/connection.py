"""One HTTP/1.1 connection whose bytes carry the instant they arrived.

Addresses are tried in the order in which the resolver gives them, one after the other: a probe
measures what is there, it does not race around it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import h11

from domain.errors import ConfigError
from exporters.probe.failure import ProbeError, no_connection
from exporters.probe.settings import ProbeTarget

__all__ = ["Connection", "Handshake", "Resolve", "libc", "shake"]

Address = tuple[socket.AddressFamily, tuple[Any, ...]]
Resolve = Callable[[str, int], Sequence[Address]]

_CONNECT_S = 10.0  # one address may take this long
_HELD_BYTES = 4 * 1024 * 1024
_MOST_ADDRESSES = 8
_SECOND_NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Handshake:
    """What it took to get a connection; None for what was not needed."""

    address: str
    dns_s: float | None
    connect_s: float
    tls_s: float | None
    notes: tuple[str, ...] = ()


def libc(host: str, port: int) -> list[Address]:
    """The addresses of a name in libc's order; blocks."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(family, address) for family, _, _, _, address in found]


class _Wire(asyncio.Protocol):
    """Bytes and when they came; nothing is understood here, so that nothing is late."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()
        self._arrived: deque[tuple[int, bytes]] = deque()
        self._held = 0
        self._wake = asyncio.Event()
        self._transport: asyncio.Transport | None = None

    @property
    def lost(self) -> bool:
        return self.closed.is_set()

    @property
    def transport(self) -> asyncio.Transport:
        if self._transport is None:
            raise AssertionError("a wire is used after its connection was made")
        return self._transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("a stream connection has a two-way transport")
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._arrived.append((time.perf_counter_ns(), data))
        self._held += len(data)
        if self._held > _HELD_BYTES:
            self.transport.pause_reading()
        self._wake.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # how it ended does not matter: an answer that is not whole is cut off
        self._arrived.append((time.perf_counter_ns(), b""))
        self.closed.set()
        self._wake.set()

    async def read(self) -> tuple[int, bytes]:
        """The next bytes and when they came; empty bytes when there will be no more."""
        while not self._arrived:
            self._wake.clear()
            await self._wake.wait()
        at_ns, data = self._arrived[0]
        if data:  # why: the end stays the end, however often one asks
            self._arrived.popleft()
            self._held -= len(data)
            if self._held == 0:
                self._resume()
        return at_ns, data

    def _resume(self) -> None:
        if not self.transport.is_closing():
            self.transport.resume_reading()


class Connection:
    """A place for one connection to a target: made when first needed, kept while both sides do."""

    def __init__(
        self, target: ProbeTarget, url: str | None = None, *, resolve: Resolve = libc
    ) -> None:
        self.target = target
        self.url = url if url is not None else target.address
        self.usage: str = target.usage
        self._resolve = resolve
        self._context: ssl.SSLContext | None = None
        self._wire: _Wire | None = None
        self._speech = h11.Connection(h11.CLIENT)
        self._at_ns = 0
        self._ended = False
        self.first_byte_at_ns: int | None = None
        self.last_byte_at_ns: int | None = None

    @property
    def alive(self) -> bool:
        """True where the next request can go out on what is there."""
        return (
            self._wire is not None
            and not self._wire.lost
            and not self._wire.transport.is_closing()
            and self._speech.our_state is h11.IDLE
        )

    @property
    def speaks(self) -> bool:
        """True while the other side is in the middle of its answer."""
        return self._wire is not None and self._speech.their_state is h11.SEND_BODY

    async def open(self) -> Handshake:
        """A new connection; raises ProbeError where there is none."""
        await self.close()
        if self._context is None and self.url.startswith("https:"):
            self._context = await asyncio.to_thread(_context, self.target)
        handshake, wire = await shake(self.url, self._context, self._resolve)
        self._wire, self._speech = wire, h11.Connection(h11.CLIENT)
        return handshake

    def send(self, headers: Sequence[tuple[str, str]], body: bytes) -> int:
        """Send a POST; the instant at which it went."""
        parts = urlsplit(self.url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        request = h11.Request(method="POST", target=target or "/", headers=list(headers))
        data = b"".join(
            part or b""
            for part in (
                self._speech.send(request),
                self._speech.send(h11.Data(data=body)),
                self._speech.send(h11.EndOfMessage()),
            )
        )
        self.first_byte_at_ns = self.last_byte_at_ns = None
        at_ns = time.perf_counter_ns()
        self._open_wire.transport.write(data)
        return at_ns

    async def receive(self) -> tuple[int, h11.Event]:
        """The next event of the answer and when its last byte came; ConnectionClosed at the end."""
        while True:
            try:
                event = self._speech.next_event()
            except h11.RemoteProtocolError as error:
                raise self._broken(error) from error
            if isinstance(event, h11.Event):
                return self._at_ns, event
            if event is h11.PAUSED:
                raise ProbeError("garbage", "it speaks before it is asked", where=self.url)
            self._at_ns, data = await self._open_wire.read()
            if data and self.first_byte_at_ns is None:
                self.first_byte_at_ns = self._at_ns
            if data:
                self.last_byte_at_ns = self._at_ns
            self._ended = not data
            self._speech.receive_data(data)

    def finish(self) -> None:
        """Ready for the next request, or closed where the other side does not want another."""
        if self._speech.our_state is h11.DONE and self._speech.their_state is h11.DONE:
            self._speech.start_next_cycle()
        else:
            self.abort()

    def abort(self) -> None:
        """Let go of the connection at once."""
        if self._wire is not None:
            self._wire.transport.abort()
            self._wire = None

    async def close(self) -> None:
        """End the connection, if there is one."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.transport.abort()
            await wire.closed.wait()  # why wait: a socket that lingers is somebody's leak

    def _broken(self, error: h11.RemoteProtocolError) -> ProbeError:
        if not self._ended:  # why not whether the wire is lost: garbage may end at once, too
            return ProbeError("garbage", f"no HTTP any more: {error}", where=self.url)
        begun = "the answer broke off" if self.first_byte_at_ns else "it hung up without an answer"
        way_out = "Look at what stands between, and whether the engine lives."
        return ProbeError("cut_off", begun, where=self.url, remedy=way_out)

    @property
    def _open_wire(self) -> _Wire:
        if self._wire is None:
            raise AssertionError("open() comes before this")
        return self._wire


async def shake(
    url: str, context: ssl.SSLContext | None, resolve: Resolve
) -> tuple[Handshake, _Wire]:
    """Resolve, connect and, with a context, secure; each step timed."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    addresses, dns_s = await _addresses(host, port, url, resolve)
    sock, connect_s, notes = await _connect(addresses, url)
    begun_ns = time.perf_counter_ns()
    try:
        _, wire = await asyncio.get_running_loop().create_connection(
            _Wire, sock=sock, ssl=context, server_hostname=host if context else None
        )
    except (OSError, ssl.SSLError) as error:
        sock.close()
        raise _not_secured(error, url) from error
    except BaseException:
        sock.close()
        raise
    handshake = Handshake(
        address=str(wire.transport.get_extra_info("peername", ("",))[0]),
        dns_s=dns_s,
        connect_s=connect_s,
        tls_s=_since_s(begun_ns) if context else None,
        notes=notes,
    )
    return handshake, wire


def _not_secured(error: OSError, url: str) -> ProbeError:
    if isinstance(error, ssl.SSLError):
        return no_connection(error, url)
    return ProbeError("tls", f"it hung up during the TLS handshake: {error}", where=url)


async def _addresses(
    host: str, port: int, url: str, resolve: Resolve
) -> tuple[Sequence[Address], float | None]:
    """Where the host is, and what finding out took; an address needs no resolver."""
    with contextlib.suppress(ValueError):
        version = ipaddress.ip_address(host).version
        family = socket.AF_INET if version == 4 else socket.AF_INET6
        return [(family, (host, port))], None

    def timed() -> tuple[Sequence[Address], float]:
        begun_ns = time.perf_counter_ns()  # why here: the thread's start is not the resolver's
        return resolve(host, port), _since_s(begun_ns)

    try:
        found, dns_s = await asyncio.to_thread(timed)
    except (OSError, UnicodeError) as error:
        failed = error if isinstance(error, OSError) else socket.gaierror(str(error))
        raise no_connection(failed, url) from error
    return found[:_MOST_ADDRESSES], dns_s


async def _connect(
    addresses: Sequence[Address], url: str
) -> tuple[socket.socket, float, tuple[str, ...]]:
    """The first address that answers, how long that one took, and which did not."""
    notes: list[str] = []
    failure = ProbeError("dns", "its name has no address", where=url)
    for family, address in addresses:
        sock = socket.socket(family, socket.SOCK_STREAM)
        sock.settimeout(0)
        # why: Nagle would hold the request until the TLS Finished is acknowledged, a round trip
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begun_ns = time.perf_counter_ns()
        try:
            async with asyncio.timeout(_CONNECT_S):
                await asyncio.get_running_loop().sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = no_connection(error, url)
            notes.append(
                f"{address[0]} did not take the connection ({failure.reason}) after "
                f"{_since_s(begun_ns):.3g} s"
            )
        except BaseException:
            sock.close()
            raise
        else:
            return sock, _since_s(begun_ns), tuple(notes)
    raise failure


def _context(target: ProbeTarget) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=target.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(
            f"no certificates can be read: {error}",
            where=f"ca_file {target.ca_file}",
            remedy="Give a file of PEM certificates.",
        ) from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def _since_s(begun_ns: int) -> float:
    return (time.perf_counter_ns() - begun_ns) / _SECOND_NS
