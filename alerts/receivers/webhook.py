"""The webhook: one POST of the notification as it is, JSON of version 1."""

from __future__ import annotations

from alerts.receivers.attempt import Attempt
from alerts.receivers.post import Door, Resolver
from alerts.receivers.settings import WebhookSettings

__all__ = ["Webhook"]


class Webhook:
    """One receiver. Not shared between threads."""

    def __init__(self, settings: WebhookSettings, resolver: Resolver | None = None) -> None:
        self.settings = settings
        self._door = Door(
            timeout_s=settings.timeout_s, allow_private=settings.allow_private, resolver=resolver
        )

    def close(self) -> None:
        self._door.close()

    def send(self, body: str, *, key: str, now_s: float, receipt: str = "") -> Attempt:
        """Posts the body. `key` is the same for each attempt of one notification."""
        del receipt
        headers = {name: value.get_secret_value() for name, value in self.settings.headers.items()}
        headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
        return self._door.post(
            self.settings.url.get_secret_value(), body, headers, now_s=now_s
        ).attempt
