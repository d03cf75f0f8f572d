"""One POST to an address that was checked, and what its answer means.

Redirects are not followed. Unless private targets are allowed, the host is resolved once, each
address must be a public one, and the connection goes to that very address.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import httpx

from alerts.receivers.attempt import Attempt, Fate
from domain.retry_after import asked_s

__all__ = ["Answer", "Door", "Resolver", "private", "resolve"]

Resolver = Callable[[str, int], Sequence[str]]

_RETRIED = frozenset({401, 403, 404, 408, 425, 429})
# why the first three: an ingress says so for a while during a rollout, and a page must outlive it
_MAX_RETRY_AFTER_S = 3600.0
_MAX_ANSWER_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an answer means, and as much of its text as anybody needs."""

    attempt: Attempt
    text: str = ""


class Door:
    """The way out to HTTP receivers. Not shared between threads."""

    def __init__(
        self,
        *,
        timeout_s: float,
        allow_private: bool,
        resolver: Resolver | None = None,
        most_bytes: int = _MAX_ANSWER_BYTES,
    ) -> None:
        self._timeout_s, self._most_bytes = timeout_s, most_bytes
        self._allow_private = allow_private
        self._resolve = resolver or resolve
        self._client = httpx.Client(timeout=timeout_s, follow_redirects=False, trust_env=False)

    def close(self) -> None:
        self._client.close()

    def post(
        self, target: str, content: str, headers: Mapping[str, str], *, now_s: float
    ) -> Answer:
        """The answer to one POST of this text. Nothing of the target is in its words."""
        return self._asked("POST", target, content, headers, now_s=now_s)

    def get(self, target: str, headers: Mapping[str, str], *, now_s: float) -> Answer:
        """The answer to one GET, under the same rules."""
        return self._asked("GET", target, "", headers, now_s=now_s)

    def _asked(
        self, method: str, target: str, content: str, headers: Mapping[str, str], *, now_s: float
    ) -> Answer:
        url, sent, extensions = httpx.URL(target), dict(headers), {}
        if not self._allow_private:
            pinned = self._public_address(url)
            if isinstance(pinned, Attempt):
                return Answer(attempt=pinned)
            sent["Host"] = url.netloc.decode("ascii")
            extensions["sni_hostname"] = url.host
            url = url.copy_with(host=pinned)
        try:
            with self._client.stream(
                method, url, content=content.encode(), headers=sent, extensions=extensions
            ) as response:
                until_s = time.monotonic() + self._timeout_s
                text = _beginning(response, until_s, self._most_bytes)
                return Answer(attempt=_judged(response, now_s), text=text)
        except httpx.HTTPError as error:
            detail = f"no answer: {type(error).__name__}"
            return Answer(attempt=Attempt(fate=Fate.RETRY, detail=detail))

    def _public_address(self, url: httpx.URL) -> str | Attempt:
        port = url.port or (443 if url.scheme == "https" else 80)
        return private(url.host, port, self._resolve)


def private(host: str, port: int, resolver: Resolver | None = None) -> str | Attempt:
    """The first address of a host whose addresses are all public; else what is to be said."""
    try:
        addresses = (resolver or resolve)(host, port)
    except OSError as error:
        return Attempt(fate=Fate.RETRY, detail=f"{host} has no address: {error.strerror or error}")
    if not addresses or not all(_is_public(each) for each in addresses):
        return Attempt(
            fate=Fate.REFUSED,
            detail=f"{host} is on a private network; set allow_private if it shall be",
        )
    return addresses[0]


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _judged(response: httpx.Response, now_s: float) -> Attempt:
    status = response.status_code
    answered = Attempt(fate=Fate.DELIVERED, detail=f"HTTP {status}")
    if 200 <= status < 300:
        return answered
    if status >= 500 or status in _RETRIED:
        header = response.headers.get("Retry-After")
        wait_s = asked_s(header, now_s=now_s, most_s=_MAX_RETRY_AFTER_S)
        return replace(answered, fate=Fate.RETRY, retry_after_s=wait_s)
    hint = " (redirects are not followed)" if 300 <= status < 400 else ""
    return replace(answered, fate=Fate.REFUSED, detail=f"HTTP {status}{hint}")


def _beginning(response: httpx.Response, until_s: float, most_bytes: int) -> str:
    """The first bytes as they came. An answer that is long, slow or cut has answered all the same."""
    kept = b""
    try:
        for chunk in response.iter_raw():
            kept += chunk
            if len(kept) > most_bytes or time.monotonic() > until_s:
                break
    except httpx.HTTPError:
        return ""
    return kept[:most_bytes].decode("utf-8", "replace")


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_global) and not ip.is_multicast
