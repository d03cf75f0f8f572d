"""What a browser may do with our pages: run our own scripts, talk to our own server, no more."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["POLICY", "SecurityHeaders"]


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'self'; "
    "frame-ancestors 'none'"
)
"""No script that stands in a page, none from elsewhere.

Styles may be inline because Plotly writes them; they can load nothing from elsewhere. `blob:` is
the picture of a chart, on its way to a file.
"""


class SecurityHeaders:
    """Middleware that adds the headers to every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.headers = {
            "Content-Security-Policy": POLICY,
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cross-Origin-Opener-Policy": "same-origin",
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self.headers.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, sent)
