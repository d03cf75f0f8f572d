"""Signing in and out: a token becomes a cookie that no script reads and no other site posts with."""

from __future__ import annotations

from html import escape
from typing import Any
from urllib.parse import parse_qs

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from alerts.access import SIGN_IN, Access, refuse_foreign
from alerts.session import COOKIE, LASTS_S
from dashboard.mount import asked
from dashboard.still_page import still_page

__all__ = ["sign_in_routes"]

_MOST_BYTES = 4096
_BODY = """      <h1>Sign in to Stagewatch</h1>
      {trouble}
      <form method="post" action="{prefix}{sign_in}">
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="current-password" required
          maxlength="1000" autofocus>
        <input name="next" type="hidden" value="{next}">
        <button class="button" type="submit">Sign in</button>
      </form>
      <p class="quiet">One of <code>auth.tokens</code> whose role is viewer, responder or admin. It
        is kept as a cookie of this browser for {hours} h; scripts cannot read it.</p>"""


def sign_in_routes(access: Access) -> APIRouter:
    """`/login`, `/logout`, and `/api/v1/session`, which says who asks."""
    routes = APIRouter(tags=["session"])

    @routes.get(SIGN_IN, include_in_schema=False)
    def form(next: str = "/") -> Response:  # noqa: A002 - the name in the address
        return _page(_inside(next))

    @routes.post(SIGN_IN, include_in_schema=False)
    async def sign_in(request: Request) -> Response:
        refuse_foreign(request, access)
        fields = await _fields(request)
        cookie = access.session(fields.get("token", ""))
        wanted = _inside(fields.get("next", "/"))
        if cookie is None:
            return _page(wanted, "This is no token of a viewer, responder or admin.", status=401)
        answer = RedirectResponse(asked().prefix + wanted, 303)
        _set_cookie(answer, request, access, cookie)
        return answer

    @routes.post("/logout", include_in_schema=False)
    def sign_out(request: Request) -> Response:
        refuse_foreign(request, access)
        answer = JSONResponse({"signed_in": False})
        answer.delete_cookie(COOKIE, path=asked().prefix or "/", httponly=True, samesite="lax")
        return answer

    @routes.get("/api/v1/session")
    def session(request: Request) -> dict[str, Any]:
        """Who asks, and what they may do."""
        person = access.person(request)
        return {
            "name": person.name,
            "role": person.role.name.lower(),
            "vouched": person.vouched,
            "signed_in": COOKIE in request.cookies and person.vouched,
            "signs_in": access.signs_in,
        }

    return routes


def _set_cookie(answer: Response, request: Request, access: Access, cookie: str) -> None:
    # why lax: a link in a message opens the page at once; what acts is refused to other sites anyway
    answer.set_cookie(
        COOKIE,
        cookie,
        max_age=LASTS_S,
        path=asked().prefix or "/",
        secure=access.is_encrypted(request),
        httponly=True,
        samesite="lax",
    )


async def _fields(request: Request) -> dict[str, str]:
    """The form's fields; one that is too long is no form of ours."""
    body = bytearray()
    async for part in request.stream():
        body.extend(part)
        if len(body) > _MOST_BYTES:
            raise HTTPException(
                413, f"a form of more than {_MOST_BYTES} bytes; send the token only"
            )
    found = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
    return {name: values[0] for name, values in found.items()}


def _inside(path: str) -> str:
    """A path of ours; anything else, which could lead to another site, is the front page."""
    inside = path.startswith("/") and not path.startswith(("//", "/\\"))
    return path if inside and path.isprintable() and "\\" not in path else "/"


def _page(wanted: str, trouble: str = "", *, status: int = 200) -> Response:
    said = f'<p class="notice trouble" role="alert">{escape(trouble)}</p>' if trouble else ""
    body = _BODY.format(
        prefix=escape(asked().prefix),
        sign_in=SIGN_IN,
        next=escape(wanted),
        trouble=said,
        hours=LASTS_S // 3600,
    )
    page = still_page("Sign in", body, kind="sign-in")
    # why: with `no-referrer` a browser would send `Origin: null`, as it does for another site
    return HTMLResponse(page, status, headers={"Referrer-Policy": "same-origin"})
