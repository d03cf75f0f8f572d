"""The pages on real sockets: one port per replica, one event loop for all, HTTP/1.1 by hand."""

import asyncio
from collections.abc import Callable, Sequence

from stagewatch.demo.engine_page import CONTENT_TYPE

__all__ = ["PageServer", "open_pages"]

_LARGEST_HEAD = 16_384
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
}


class PageServer:
    """The open ports, in the order of the pages."""

    def __init__(self, servers: Sequence[asyncio.Server]) -> None:
        self._servers = servers

    @property
    def ports(self) -> list[int]:
        return [server.sockets[0].getsockname()[1] for server in self._servers]

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for server in self._servers:
            await server.wait_closed()


async def open_pages(
    pages: Sequence[Callable[[], str]], *, host: str, base_port: int
) -> PageServer:
    """Listen for every page: on ports that follow `base_port`, or on free ones when it is 0."""
    loop = asyncio.get_running_loop()
    servers: list[asyncio.Server] = []
    try:
        for index, page in enumerate(pages):
            port = base_port + index if base_port else 0
            servers.append(await loop.create_server(_factory(page), host, port))
    except OSError:
        await PageServer(servers).close()
        raise
    return PageServer(servers)


def _factory(page: Callable[[], str]) -> Callable[[], asyncio.Protocol]:
    return lambda: _Connection(page)


class _Connection(asyncio.Protocol):
    """One scraper. Requests with a body are not expected and not read."""

    def __init__(self, page: Callable[[], str]) -> None:
        self._page = page
        self._received = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if isinstance(transport, asyncio.Transport):
            self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, self._received = self._received.split(b"\r\n\r\n", 1)
            self._answer(head.decode("latin-1"))
        if len(self._received) > _LARGEST_HEAD:
            self._write(431, "", close=True)

    def _answer(self, head: str) -> None:
        line, *fields = head.split("\r\n")
        close = any(field.lower().replace(" ", "") == "connection:close" for field in fields)
        parts = line.split(" ")
        if len(parts) != 3:
            self._write(400, "", close=True)
            return
        method, target, version = parts
        close = close or version == "HTTP/1.0"
        path = target.partition("?")[0]
        if path not in ("/metrics", "/health"):
            self._write(404, '{"detail":"Not Found"}', close=close)
        elif method not in ("GET", "HEAD"):
            self._write(405, "", close=True)
        else:
            body = self._page() if path == "/metrics" else ""
            self._write(200, body, close=close, bodiless=method == "HEAD")

    def _write(self, status: int, text: str, *, close: bool, bodiless: bool = False) -> None:
        if self._transport is None:
            return
        body = text.encode()
        head = (
            f"HTTP/1.1 {status} {_REASONS[status]}\r\nserver: uvicorn\r\n"
            f"content-length: {len(body)}\r\ncontent-type: {CONTENT_TYPE}\r\n"
            f"{'connection: close' + chr(13) + chr(10) if close else ''}\r\n"
        )
        self._transport.write(head.encode("latin-1") + (b"" if bodiless else body))
        if close:
            self._transport.close()
