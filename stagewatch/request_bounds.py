"""What a question to pages and API may bring, and what is said of one that is wrong."""

from __future__ import annotations

import json
from typing import Any, Final

from fastapi import HTTPException, Request
from fastapi.exceptions import RequestValidationError
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["MOST_BYTES", "BoundedBodies", "wrong_question"]

MOST_BYTES: Final = 1024 * 1024
_ELSEWHERE: Final = ("/v1/", "/api/v1/write")
"""What senders export has bounds of its own."""
_LONGEST: Final = 200


class BoundedBodies:
    """In front of an application: of a body that is too long no more than the bound is kept."""

    def __init__(self, app: ASGIApp, most_bytes: int = MOST_BYTES) -> None:
        self._app, self._most_bytes = app, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_ELSEWHERE):
            await self._app(scope, receive, send)
            return
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told[:20]) > self._most_bytes:
            await JSONResponse({"detail": self._words}, 413)(scope, receive, send)
            return
        taken = 0

        async def bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._most_bytes:
                raise HTTPException(413, self._words)
            return message

        await self._app(scope, bounded, send)

    @property
    def _words(self) -> str:
        return f"the body is longer than {self._most_bytes} bytes"


async def wrong_question(_: Request, error: Exception) -> Response:
    """422: what is wrong and where. What was sent is not repeated: it may be long, or no text at all."""
    wrong = error.errors() if isinstance(error, RequestValidationError) else []
    said: list[dict[str, Any]] = [
        {
            "type": each["type"],
            "loc": [part if isinstance(part, int) else part[:_LONGEST] for part in each["loc"]],
            "msg": each["msg"][:_LONGEST],
        }
        for each in wrong
    ]
    # why not JSONResponse: it would fail at half a surrogate
    return Response(json.dumps({"detail": said}), 422, media_type="application/json")
