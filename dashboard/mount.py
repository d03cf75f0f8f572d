"""Where the pages lie for whoever asks: the prefix told at start, or the one a trusted proxy tells.

A proxy may cut the prefix off or pass it on: both work. Every address that goes out carries it.
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from dataclasses import dataclass

from fastapi import HTTPException
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from alerts.access import Access, Person, Role

__all__ = ["PLACEHOLDER", "Asked", "IndexAddresses", "Mount", "asked", "clean_prefix"]

PLACEHOLDER = "/-mount-/"
"""Stands in Dash's front page for the prefix, which may be another for each request."""

_STARTS = re.compile(r'<script id="_dash-renderer"[^>]*>[^<]*</script>')
_PREFIX = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]{0,63}){0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is known of a request: under which prefix, and by whom."""

    prefix: str = ""
    person: Person | None = None

    @property
    def may_act(self) -> bool:
        return self.person is None or self.person.role >= Role.RESPONDER


_NOBODY = Asked()
_asked: ContextVar[Asked] = ContextVar("stagewatch_asked", default=_NOBODY)


def asked() -> Asked:
    """Of the request that is being answered."""
    return _asked.get()


def clean_prefix(text: str) -> str | None:
    """As in "/watch", empty for the root; None where it is no prefix that we would write down."""
    found = text.strip().rstrip("/")
    return found if _PREFIX.fullmatch(found) else None


class Mount:
    """Middleware, the outermost: takes the prefix off the path, and knows who asks."""

    def __init__(self, app: ASGIApp, prefix: str, access: Access) -> None:
        self._app = app
        self._prefix = prefix.rstrip("/")
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        prefix = self._prefix_of(request)
        path = _without(str(scope["path"]), prefix)
        token = _asked.set(Asked(prefix=prefix, person=self._person(request)))
        inner = {
            **scope,
            "path": path,
            "raw_path": _without(scope.get("raw_path", b"").decode("latin-1"), prefix).encode(
                "latin-1"
            ),
            "stagewatch.prefix": prefix,
            "stagewatch.path": path,
        }
        try:
            await self._app(inner, receive, send)
        finally:
            _asked.reset(token)

    def _prefix_of(self, request: Request) -> str:
        told = request.headers.get("x-forwarded-prefix")
        if told is None or not self._access.from_proxy(request):
            return self._prefix
        found = clean_prefix(told)
        return self._prefix if found is None else found

    def _person(self, request: Request) -> Person:
        try:
            return self._access.person(request)
        except HTTPException:  # why: a token that is none; whoever needs a person refuses it
            return Person(name="anonymous", role=Role.NOBODY, vouched=False)


class IndexAddresses:
    """Middleware, the innermost: writes the prefix into Dash's front page, and no script inline."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        held: list[Message] = []
        body = bytearray()

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start" and _is_page(message):
                held.append(message)
            elif held and message["type"] == "http.response.body":
                body.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    await _send_page(held.pop(), bytes(body), send)
            else:
                await send(message)

        await self._app(scope, receive, sent)


async def _send_page(start: Message, body: bytes, send: Send) -> None:
    prefix = asked().prefix
    # why twice: in its configuration Dash writes a slash as an escape of JSON
    page = body.decode().replace(PLACEHOLDER, f"{prefix}/")
    page = page.replace(PLACEHOLDER.replace("/", "\\u002f"), f"{prefix}/")
    page = _STARTS.sub(
        f'<script id="_dash-renderer" src="{prefix}/assets/start.js"></script>', page
    )
    encoded = page.encode()
    MutableHeaders(scope=start)["content-length"] = str(len(encoded))
    await send(start)
    await send({"type": "http.response.body", "body": encoded})


def _is_page(start: Message) -> bool:
    headers = MutableHeaders(scope=start)
    return (
        headers.get("content-type", "").startswith("text/html")
        and "content-encoding" not in headers
    )


def _without(path: str, prefix: str) -> str:
    if prefix and (path == prefix or path.startswith(f"{prefix}/")):
        return path.removeprefix(prefix) or "/"
    return path
