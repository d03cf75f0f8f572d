"""Who somebody is who asks over HTTP, and what they may do.

By token, by the word of a trusted proxy, or, where no token may act, as somebody on this machine.
A browser must not be talked into acting by another site: what acts says so with a header that a
foreign page cannot send, and comes by a name of this machine.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address, ip_network
from urllib.parse import quote, urlsplit

from fastapi import HTTPException, Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from alerts.access_settings import AuthSettings
from alerts.session import COOKIE, issued, token_of

__all__ = [
    "ACTING",
    "SIGN_IN",
    "Access",
    "Gate",
    "Person",
    "Role",
    "admin",
    "refuse_foreign",
    "responder",
]

ACTING = "X-Stagewatch-Request"
"""The header of requests that act, with any value: a form or an image of another site has none."""

SIGN_IN = "/login"

_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
_OPEN = ("/healthz", "/readyz", "/metrics", "/v1/", "/api/v1/write", SIGN_IN, "/assets/")
_WHO = {"WWW-Authenticate": 'Bearer realm="stagewatch"'}


class Role(IntEnum):
    """What somebody may do; each may what those before may."""

    NOBODY = 0
    VIEWER = 1
    RESPONDER = 2
    ADMIN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """Who acts. `vouched`: the name is a token's or a proxy's, so that nobody can give another."""

    name: str
    role: Role
    vouched: bool

    def author(self, said: str | None) -> str:
        """The author of what this person does."""
        return self.name if self.vouched or not said or not said.strip() else said.strip()


class Access:
    """The rules of a configuration."""

    def __init__(
        self, settings: AuthSettings | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._settings = settings or AuthSettings()
        self._clock = clock
        roles = {"sender": Role.NOBODY} | {each.name.lower(): each for each in Role}
        self._tokens = [
            (_digest(each.token.get_secret_value().strip()), each.name, roles[each.role])
            for each in self._settings.named
        ]
        self._proxies = [ip_network(each, strict=False) for each in self._settings.proxies]
        self._proxy_role = roles[self._settings.proxy_role]
        self._anonymous = roles[self._settings.anonymous]

    def person(self, request: Request) -> Person:
        """Who it is who asks."""
        bearer = request.headers.get("authorization")
        if bearer is not None and bearer.partition(" ")[0].lower() == "bearer":
            return self._bearer(bearer.partition(" ")[2].strip())
        user = request.headers.get(self._settings.user_header, "").strip()
        if user and self.from_proxy(request):
            return Person(name=user[:128], role=self._proxy_role, vouched=True)
        if (signed_in := self._of_session(request)) is not None:
            return signed_in
        if not self._acts_by_token and _is_here(request):
            return Person(name="somebody here", role=Role.RESPONDER, vouched=False)
        return Person(name="anonymous", role=self._anonymous, vouched=False)

    @property
    def _acts_by_token(self) -> bool:
        return any(role >= Role.RESPONDER for _, _, role in self._tokens)

    def _bearer(self, token: str) -> Person:
        digest = _digest(token)
        # why all: how long it takes must not say how nearly right a token is
        found = [
            (name, role) for ours, name, role in self._tokens if hmac.compare_digest(ours, digest)
        ]
        if not found:
            raise HTTPException(
                401, "the bearer token is not one of `auth.tokens`; use another", headers=_WHO
            )
        name, role = found[0]
        return Person(name=name, role=max(role, self._anonymous), vouched=True)

    def _of_session(self, request: Request) -> Person | None:
        """Whom the cookie stands for, with what their token may do now."""
        cookie = request.cookies.get(COOKIE)
        if cookie is None:
            return None
        readers = {ours: (name, role) for ours, name, role in self._tokens if role > Role.NOBODY}
        digest = token_of(cookie, readers, now_s=self._clock())
        if digest is None:
            return None
        name, role = readers[digest]
        return Person(name=name, role=max(role, self._anonymous), vouched=True)

    @property
    def signs_in(self) -> bool:
        """Whether any token opens the pages."""
        return any(role > Role.NOBODY for _, _, role in self._tokens)

    def session(self, token: str) -> str | None:
        """A cookie for the bearer of a token that may at least read; None for anybody else."""
        digest = _digest(token.strip())
        found = [role for ours, _, role in self._tokens if hmac.compare_digest(ours, digest)]
        if not found or found[0] is Role.NOBODY:
            return None
        return issued(digest, now_s=self._clock())

    def host(self, request: Request) -> str:
        """By which name we were asked: a trusted proxy says so, of anybody else it is `Host`."""
        told = request.headers.get("x-forwarded-host", "") if self.from_proxy(request) else ""
        return told.partition(",")[0].strip() or request.headers.get("host", "")

    def is_encrypted(self, request: Request) -> bool:
        """Whether the browser speaks TLS, to us or to a trusted proxy."""
        told = request.headers.get("x-forwarded-proto", "") if self.from_proxy(request) else ""
        return (told.strip() or request.url.scheme) == "https"

    def from_proxy(self, request: Request) -> bool:
        """Whether a proxy of `auth.proxies` passed it on."""
        try:
            peer = ip_address(request.client.host) if request.client else None
        except ValueError:
            return False
        return peer is not None and any(peer in network for network in self._proxies)


class Gate:
    """Lets in who may read. Health, our own metrics and what senders send have rules of their own."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not str(scope["path"]).startswith(_OPEN):
            try:
                _require(self._access.person(Request(scope)), Role.VIEWER)
            except HTTPException as refused:
                await self._refusal(Request(scope), refused)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _refusal(self, request: Request, refused: HTTPException) -> Response:
        """A person with a browser is asked to sign in, and comes back to where they wanted."""
        wants_page = "text/html" in request.headers.get("accept", "")
        if wants_page and request.method == "GET" and self._access.signs_in:
            scope = request.scope
            prefix = scope.get("stagewatch.prefix", "")
            wanted = str(scope.get("stagewatch.path", scope["path"]))
            query = bytes(scope.get("query_string", b"")).decode("latin-1")
            back = quote(wanted + (f"?{query}" if query else ""), safe="")
            return RedirectResponse(f"{prefix}{SIGN_IN}?next={back}", 303)
        return JSONResponse(
            {"detail": refused.detail}, refused.status_code, headers=refused.headers
        )


def responder(request: Request) -> Person:
    """A dependency of routes that act: who acts, if they may."""
    return _acting(request, Role.RESPONDER)


def admin(request: Request) -> Person:
    """The same for what only an administrator may."""
    return _acting(request, Role.ADMIN)


def _acting(request: Request, role: Role) -> Person:
    access: Access = getattr(request.app.state, "access", None) or Access()
    person = access.person(request)
    _require(person, role)
    if "authorization" not in request.headers:
        refuse_foreign(request, access)
        _refuse_forms(request)
    return person


def _require(person: Person, role: Role) -> None:
    if person.role >= role:
        return
    way_out = (
        f"send `Authorization: Bearer TOKEN` with one of `auth.tokens` whose role is {role.name.lower()}"
        " or more"
    )
    if person.vouched:
        raise HTTPException(403, f"{person.name} may not do this; {way_out}")
    raise HTTPException(401, f"who are you? {way_out.capitalize()}", headers=_WHO)


def refuse_foreign(request: Request, access: Access) -> None:
    """A browser sends a name's cookies, and reaches this machine, for any page it has open."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != access.host(request):
        raise HTTPException(
            403,
            "another site asked for this; use the pages of Stagewatch itself. Behind a proxy let it "
            "pass on `Host`, or name it in `auth.proxies` and let it send `X-Forwarded-Host`",
        )


def _refuse_forms(request: Request) -> None:
    """What a foreign page could send without being asked twice."""
    if ACTING.lower() not in request.headers:
        raise HTTPException(403, f"what acts carries the header `{ACTING}: 1`; add it")
    body = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method != "DELETE" and body != "application/json":
        raise HTTPException(415, "the body is JSON; send `Content-Type: application/json`")


def _is_here(request: Request) -> bool:
    """From this machine, by a name of this machine, and not passed on by a proxy on it."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    # why: nginx, unless told otherwise, adds no header, calls us 127.0.0.1, and speaks HTTP/1.0
    if request.scope.get("http_version") == "1.0":
        return False
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    try:
        return ip_address(request.client.host).is_loopback and host in _HERE
    except ValueError:
        return False


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
