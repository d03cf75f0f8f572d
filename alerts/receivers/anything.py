"""Anything else, by Apprise: a title and a text. It says yes or no; a no is tried again."""

from __future__ import annotations

from typing import Any

from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.body import read
from alerts.receivers.post import Resolver, private
from alerts.receivers.settings import AppriseSettings
from alerts.receivers.words import words
from domain.errors import ConfigError

__all__ = ["Anything"]

_KINDS = {"page": "failure", "ticket": "warning"}


class Anything:
    """The targets of one receiver. What one of several did not take is sent to all again."""

    def __init__(self, settings: AppriseSettings, resolver: Resolver | None = None) -> None:
        self.settings = settings
        self._resolver = resolver
        self._targets: list[Any] = []

    def close(self) -> None:
        """Nothing stays open."""

    def send(self, body: str, *, key: str, now_s: float, receipt: str = "") -> Attempt:
        del key, now_s, receipt
        told = read(body)
        said = words(told, self.settings)
        kind = "success" if told.over else _KINDS.get(told.severity, "info")
        if not self._targets:
            urls = self.settings.urls
            self._targets = [_target(url.get_secret_value(), self.settings) for url in urls]
        failed = 0
        for target in self._targets:
            if (barred := self._barred(target)) is not None:
                return barred
            failed += not target.notify(
                title=said.title, body="\n".join(said.lines()), notify_type=kind
            )
        if failed:
            return Attempt(
                fate=Fate.RETRY, detail=f"{failed} of {len(self._targets)} did not take it"
            )
        return Attempt(fate=Fate.DELIVERED, detail="taken")

    def _barred(self, target: Any) -> Attempt | None:
        """Apprise connects by itself, so the address is looked at but cannot be held on to."""
        host = getattr(target, "host", None)
        if self.settings.allow_private or not host:
            return None
        found = private(str(host), int(getattr(target, "port", None) or 443), self._resolver)
        return found if isinstance(found, Attempt) else None


def _target(url: str, settings: AppriseSettings) -> Any:
    from apprise import Apprise  # noqa: PLC0415 - an extra

    target = Apprise.instantiate(url, suppress_exceptions=True)
    if target is None:
        raise ConfigError(
            f"Apprise does not know the URL that begins with {url.partition(':')[0][:20]!r}",
            where=f"receiver {settings.name}",
            remedy="See Apprise's list of services for its form.",
        )
    target.socket_connect_timeout = target.socket_read_timeout = settings.timeout_s
    return target
