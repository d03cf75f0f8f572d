"""Questions to the pages and the API as pieces of our own work."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.own_work import Kind, own_work

__all__ = ["QuestionsTold"]

_FAULT = 500
_ELSEWHERE = ("/v1/", "/api/v1/write")
"""What senders export is told of where it is taken."""
_UNTRACED = b"-00"


class QuestionsTold:
    """In front of an application, where somebody is told."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_ELSEWHERE):
            await self._app(scope, receive, send)
            return
        quiet = dict(scope["headers"]).get(b"traceparent", b"").endswith(_UNTRACED)
        method, path = scope["method"], scope["path"]
        about = {"http.request.method": method, "url.path": path, "url.scheme": scope["scheme"]}
        with own_work(method, about, Kind.SERVER, quiet=quiet) as piece:

            async def told(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status = int(message["status"])
                    piece.tell("http.response.status_code", status)
                    if status >= _FAULT:
                        piece.tell("error.type", str(status))
                await send(message)

            await self._app(scope, receive, told)
