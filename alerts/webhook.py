"""The webhook: one POST of JSON, and what became of it.

Redirects are not followed. Unless the receiver allows private targets, the host is resolved once,
each address must be a public one, and the connection goes to that very address.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import httpx

from alerts.settings import WebhookSettings
from domain.retry_after import asked_s

__all__ = ["Attempt", "Fate", "Webhook", "resolve"]

_RETRIED = frozenset({401, 403, 404, 408, 425, 429})
# why the first three: an ingress says so for a while during a rollout, and a page must outlive it
_MAX_RETRY_AFTER_S = 3600.0


class Fate(StrEnum):
    """What became of an attempt."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REFUSED = "refused"  # the same request would fail for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The outcome, in words that hold no secret. `retry_after_s`: the receiver asked for it."""

    fate: Fate
    detail: str
    retry_after_s: float | None = None


class Webhook:
    """One receiver. Not shared between threads."""

    def __init__(
        self, settings: WebhookSettings, resolver: Callable[[str, int], Sequence[str]] | None = None
    ) -> None:
        self.settings = settings
        self._resolve = resolver or resolve
        self._client = httpx.Client(
            timeout=settings.timeout_s, follow_redirects=False, trust_env=False
        )

    def close(self) -> None:
        self._client.close()

    def send(self, body: str, *, key: str, now_s: float) -> Attempt:
        """Posts the body. `key` is the same for each attempt of one notification."""
        url = httpx.URL(self.settings.url.get_secret_value())
        headers = {name: value.get_secret_value() for name, value in self.settings.headers.items()}
        headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
        extensions: dict[str, str] = {}
        if not self.settings.allow_private:
            pinned = self._public_address(url)
            if isinstance(pinned, Attempt):
                return pinned
            headers["Host"] = url.netloc.decode("ascii")
            extensions["sni_hostname"] = url.host
            url = url.copy_with(host=pinned)
        try:
            with self._client.stream(
                "POST", url, content=body.encode(), headers=headers, extensions=extensions
            ) as response:
                return _judged(response, now_s)
        except httpx.HTTPError as error:
            return Attempt(fate=Fate.RETRY, detail=f"no answer: {type(error).__name__}")

    def _public_address(self, url: httpx.URL) -> str | Attempt:
        port = url.port or (443 if url.scheme == "https" else 80)
        try:
            addresses = self._resolve(url.host, port)
        except OSError as error:
            return Attempt(
                fate=Fate.RETRY, detail=f"{url.host} has no address: {error.strerror or error}"
            )
        private = [each for each in addresses if not _is_public(each)]
        if private or not addresses:
            return Attempt(
                fate=Fate.REFUSED,
                detail=f"{url.host} is on a private network; set allow_private if it shall be",
            )
        return addresses[0]


def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _judged(response: httpx.Response, now_s: float) -> Attempt:
    status = response.status_code
    if 200 <= status < 300:
        return Attempt(fate=Fate.DELIVERED, detail=f"HTTP {status}")
    if status >= 500 or status in _RETRIED:
        header = response.headers.get("Retry-After")
        wait_s = asked_s(header, now_s=now_s, most_s=_MAX_RETRY_AFTER_S)
        return Attempt(fate=Fate.RETRY, detail=f"HTTP {status}", retry_after_s=wait_s)
    hint = " (redirects are not followed)" if 300 <= status < 400 else ""
    return Attempt(fate=Fate.REFUSED, detail=f"HTTP {status}{hint}")


def _is_public(address: str) -> bool:
    ip = ipaddress.ip_address(address.partition("%")[0])
    mapped = getattr(ip, "ipv4_mapped", None)
    return bool((mapped or ip).is_global) and not ip.is_multicast
