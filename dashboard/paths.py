"""Which paths are pages, and an honest 404 for those that nobody answers.

Dash would answer any path with a page and a 200, and forgets its own scripts when the first request
of its life is for another page than its front one (measured, 4.4.1). So every page is served as the
front page, whose script reads the address, and everything unknown is refused before Dash sees it.
"""

from collections.abc import Iterator, MutableMapping
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Send

__all__ = ["PagePaths", "refuse_unknown_paths"]

Scope = MutableMapping[str, Any]
_EVERYTHING = "{path:path}"
"""Dash's own last route, which it adds when the server starts."""


class PagePaths:
    """Middleware that serves `prefix/<page>/…` as `prefix`."""

    def __init__(
        self, app: ASGIApp, prefix: str, pages: frozenset[str], *, alone: frozenset[str]
    ) -> None:
        self.app = app
        self.prefix = prefix
        self.pages = pages
        self.alone = alone  # these have nothing behind their name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD") and self._is_page(scope):
            scope = {**scope, "path": self.prefix, "raw_path": self.prefix.encode()}
        await self.app(scope, receive, send)

    def _is_page(self, scope: Scope) -> bool:
        path = str(scope["path"])
        first, _, rest = path.removeprefix(self.prefix).partition("/")
        return (
            path.startswith(self.prefix)
            and first in self.pages
            and bool(rest) != (first in self.alone)
        )


def refuse_unknown_paths(server: FastAPI) -> None:
    """Answer 404 where no other route does, also none that is added later."""
    server.router.routes.append(_Unknown(server))


class _Unknown(Route):
    def __init__(self, server: FastAPI) -> None:
        super().__init__("/{rest:path}", _not_found, include_in_schema=False)
        self.methods = set()  # every method
        self.server = server

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http" or self._is_known(scope):
            return Match.NONE, {}
        return super().matches(scope)

    def _is_known(self, scope: Scope) -> bool:
        # why partial ones too: a known path with a wrong method must stay 405, not turn into 404
        return any(route.matches(scope)[0] is not Match.NONE for route in self._others())

    def _others(self) -> Iterator[BaseRoute]:
        for route in self.server.router.routes:
            path = getattr(route, "path", "")
            if route is not self and not path.endswith(_EVERYTHING):
                yield route


async def _not_found(request: Request) -> JSONResponse:
    return JSONResponse({"detail": f"no such path: {request.url.path}"}, status_code=404)
