"""One page over HTTP, within a deadline and a size, whatever the other side does."""

import asyncio
import errno
import ssl
import zlib
from collections.abc import Iterator

import httpx

from exporters.engine.failure import ScrapeError

__all__ = ["fetch", "http_client"]

_CHUNK_BYTES = 64 * 1024
_ACCEPT = {"accept": "text/plain;version=0.0.4;q=1,*/*;q=0.1", "accept-encoding": "gzip"}


def http_client(*, for_https: bool = True) -> httpx.AsyncClient:
    """A client without redirects and proxies. Deadlines are for whole requests, set by callers.

    Where no address is `https://` the world's certificates need not be in memory.
    """
    return httpx.AsyncClient(
        verify=True if for_https else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),  # trusts nobody
        follow_redirects=False,
        trust_env=False,
        timeout=None,  # noqa: S113 - see above
        limits=httpx.Limits(max_connections=None, keepalive_expiry=30),
    )


async def fetch(client: httpx.AsyncClient, url: str, *, timeout_s: float, max_bytes: int) -> str:
    """The page's text, or ScrapeError. The deadline is for all of it: a trickle is cut off."""
    try:
        async with asyncio.timeout(timeout_s):
            body = await _body(client, url, max_bytes)
    except (TimeoutError, httpx.TimeoutException) as error:
        raise _failed(
            "timeout",
            f"no whole page within {timeout_s:g} s",
            url,
            "Is the engine overloaded, or `timeout_s` too short?",
        ) from error
    except httpx.HTTPError as error:
        raise _no_connection(error, url) from error
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise _failed("binary", "the body is not text", url) from error


async def _body(client: httpx.AsyncClient, url: str, max_bytes: int) -> bytes:
    async with client.stream("GET", url, headers=_ACCEPT) as response:
        _check_status(response, url)
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "gzip", ""):
            raise _failed("encoding", f"the body is encoded as {encoding[:32]!r}", url)
        unzip = zlib.decompressobj(wbits=31) if encoding == "gzip" else None
        parts = bytearray()
        async for chunk in response.aiter_raw(_CHUNK_BYTES):
            for part in _plain(unzip, chunk, url):
                parts += part
                if len(parts) > max_bytes:
                    raise _failed(
                        "too_large",
                        f"the page is longer than {max_bytes} bytes",
                        url,
                        "Raise `max_page_bytes` if it has to be that long.",
                    )
        if unzip is not None and not unzip.eof:
            raise _failed("cut_off", "the compressed body ends too early", url)
        return bytes(parts)


def _plain(unzip: "zlib._Decompress | None", chunk: bytes, url: str) -> Iterator[bytes]:
    """The chunk unpacked in bites: a bomb is noticed before it has gone off."""
    if unzip is None:
        yield chunk
        return
    try:
        while chunk and not unzip.eof:
            yield unzip.decompress(chunk, _CHUNK_BYTES)
            chunk = unzip.unconsumed_tail
    except zlib.error as error:
        raise _failed("encoding", "the body says gzip and is none", url) from error


def _check_status(response: httpx.Response, url: str) -> None:
    status = response.status_code
    if 300 <= status < 400:
        to = response.headers.get("location", "nowhere")[:200]
        raise _failed("redirect", f"it redirects to {to}", url, "Give the final address.")
    if status != httpx.codes.OK:
        raise _failed(f"http_{status}", f"it answers {status}", url)


def _no_connection(error: httpx.HTTPError, url: str) -> ScrapeError:
    """Which of the ways a connection can fail this was."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    detail = str(error) or type(error).__name__
    if any(isinstance(each, ssl.SSLError) for each in causes):
        return _failed("tls", f"no secure connection: {detail}", url)
    numbers = {each.errno for each in causes if isinstance(each, OSError)}
    if errno.ECONNREFUSED in numbers or "refused" in detail or "attempts failed" in detail:
        return _failed("refused", "the connection is refused", url, "Is the engine running there?")
    if isinstance(error, httpx.ConnectError):
        remedy = "Is the host's name right, and is there a way to it from here?"
        return _failed("unreachable", f"no connection: {detail}", url, remedy)
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        return _failed("cut_off", f"the answer broke off: {detail}", url)
    return _failed("broken", f"the request failed: {detail}", url)


def _failed(
    reason: str, problem: str, url: str, remedy: str = "Is this the engine's metrics page?"
) -> ScrapeError:
    return ScrapeError(reason, problem, where=url, remedy=remedy)
