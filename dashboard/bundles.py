"""The scripts and styles of the pages: packed once, kept in memory, and kept by browsers.

Plotly comes as its basic bundle (`dashboard/plotly`): bars and lines are all that we draw, in a
quarter of the bytes. It is the one that the installed Plotly carries, version for version.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["PLOTLY", "Bundles"]

PLOTLY = "/_dash-component-suites/plotly/package_data/plotly.min.js"
"""Where Dash looks for it."""

_FOLDERS = ("/_dash-component-suites/", "/assets/")
_MOST = 64
_VERSIONED = re.compile(r"\.v\d+[\d_]*m\d+\.")
_FOREVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"  # why: an address without a version; what has not changed is not sent again


@dataclass(frozen=True, slots=True)
class _Bundle:
    """One file, packed."""

    packed: bytes
    media_type: str
    tag: str

    @classmethod
    def of(cls, packed: bytes, media_type: str) -> _Bundle:
        tag = blake2b(packed, digest_size=12).hexdigest()
        return cls(packed, media_type, f'"{tag}"')


class Bundles:
    """Middleware, around whoever packs answers anew each time: static files are the same each time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        (plotly,) = (Path(__file__).parent / "plotly").glob("*.js.gz")
        self._known = {PLOTLY: _Bundle.of(plotly.read_bytes(), "text/javascript; charset=utf-8")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = str(scope.get("path", ""))
        if scope["type"] != "http" or scope["method"] != "GET" or not path.startswith(_FOLDERS):
            await self._app(scope, receive, send)
            return
        bundle = self._known.get(path)
        if bundle is None:
            await self._app(_plain(scope), receive, _Keeping(self._known, path, scope, send))
        else:
            await _send(bundle, scope, send)


class _Keeping:
    """Takes an answer as it comes, and sends it packed; what is no file is sent as it is."""

    def __init__(self, known: dict[str, _Bundle], path: str, scope: Scope, send: Send) -> None:
        self._known, self._path, self._scope, self._send = known, path, scope, send
        self._start: Message = {}
        self._body = bytearray()

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._start = message
            if message["status"] != 200:
                await self._send(message)
            return
        if self._start["status"] != 200:
            await self._send(message)
            return
        self._body.extend(message.get("body", b""))
        if message.get("more_body", False):
            return
        media_type = MutableHeaders(scope=self._start).get("content-type", "")
        bundle = _Bundle.of(gzip.compress(bytes(self._body), mtime=0), media_type)
        if len(self._known) < _MOST:
            self._known[self._path] = bundle
        await _send(bundle, self._scope, self._send)


def _plain(scope: Scope) -> Scope:
    """The same question from somebody who takes whole files only, unpacked."""
    asked = [
        (name, value)
        for name, value in scope["headers"]
        if name not in (b"accept-encoding", b"if-none-match", b"if-modified-since", b"range")
    ]
    return {**scope, "headers": asked}


async def _send(bundle: _Bundle, scope: Scope, send: Send) -> None:
    asked = Headers(scope=scope)
    versioned = b"m=" in scope["query_string"] or _VERSIONED.search(scope["path"])
    headers = {
        "content-type": bundle.media_type,
        "cache-control": _FOREVER if versioned else _ASK_AGAIN,
        "etag": bundle.tag,
        "vary": "Accept-Encoding",
    }
    if asked.get("if-none-match") == bundle.tag:
        await _answer(send, 304, headers, b"")
        return
    if "gzip" in asked.get("accept-encoding", ""):
        await _answer(send, 200, headers | {"content-encoding": "gzip"}, bundle.packed)
        return
    await _answer(send, 200, headers, gzip.decompress(bundle.packed))


async def _answer(send: Send, status: int, headers: dict[str, str], body: bytes) -> None:
    if status == 200:
        headers = headers | {"content-length": str(len(body))}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})
