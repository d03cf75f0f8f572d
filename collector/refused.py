"""A refusal as an answer over HTTP; what is left of the body is read away behind it."""

import math
from collections.abc import Mapping
from typing import Final

from fastapi import Response
from starlette.types import Receive, Scope, Send

from collector.body import Body
from collector.otlp_status import Refusal

__all__ = ["WHO_ARE_YOU", "Refused"]

WHO_ARE_YOU: Final = {"www-authenticate": 'Bearer realm="stagewatch"'}
"""The header that goes with 401."""


class Refused(Response):
    """Says at once that an export is not taken, and when to try again."""

    def __init__(
        self,
        refusal: Refusal,
        body: Body,
        *,
        content: bytes,
        status: int,
        media_type: str,
        headers: Mapping[str, str],
    ) -> None:
        told = dict(headers)
        if refusal.retry_after_s is not None:
            told["retry-after"] = str(max(1, math.ceil(refusal.retry_after_s)))
        if not body.complete:
            told["connection"] = "close"
        super().__init__(content, status_code=status, headers=told, media_type=media_type)
        self._unread = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer at once, then let the sender finish, or it would see a reset and no answer."""
        if self._unread.complete or scope["method"] == "HEAD":
            await super().__call__(scope, receive, send)
            return
        await send(
            {
                "type": "http.response.start",
                "status": self.status_code,
                "headers": self.raw_headers,
            }
        )
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        await self._unread.drain()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
