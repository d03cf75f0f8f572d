"""Who somebody is who asks over HTTP, and what they may do.

By token, by the word of a trusted proxy, or, where no token may act, as somebody on this machine.
A browser must not be talked into acting by another site: what acts says so with a header that a
foreign page cannot send, and comes by a name of this machine.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from enum import IntEnum
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from fastapi import HTTPException, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from alerts.access_settings import AuthSettings

__all__ = ["ACTING", "Access", "Gate", "Person", "Role", "admin", "responder"]

ACTING = "X-Stagewatch-Request"
"""The header of requests that act, with any value: a form or an image of another site has none."""

_HERE = frozenset({"localhost", "127.0.0.1", "::1"})
_FORWARDED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")
_OPEN = ("/healthz", "/readyz", "/metrics", "/v1/", "/api/v1/write")
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

    def __init__(self, settings: AuthSettings | None = None) -> None:
        self._settings = settings or AuthSettings()
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
        if user and self._from_proxy(request):
            return Person(name=user[:128], role=self._proxy_role, vouched=True)
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

    def _from_proxy(self, request: Request) -> bool:
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
                answer = JSONResponse(
                    {"detail": refused.detail}, refused.status_code, headers=refused.headers
                )
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)


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
        _refuse_foreign(request)
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


def _refuse_foreign(request: Request) -> None:
    """A browser sends a name's cookies, and reaches this machine, for any page it has open."""
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host", ""):
        raise HTTPException(403, "another site asked for this; use the pages of Stagewatch itself")
    if ACTING.lower() not in request.headers:
        raise HTTPException(403, f"what acts carries the header `{ACTING}: 1`; add it")
    body = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if request.method != "DELETE" and body != "application/json":
        raise HTTPException(415, "the body is JSON; send `Content-Type: application/json`")


def _is_here(request: Request) -> bool:
    """From this machine, by a name of this machine, and not passed on by a proxy on it."""
    if request.client is None or any(name in request.headers for name in _FORWARDED):
        return False
    host = urlsplit(f"//{request.headers.get('host', '')}").hostname
    try:
        return ip_address(request.client.host).is_loopback and host in _HERE
    except ValueError:
        return False


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="replace")).digest()
