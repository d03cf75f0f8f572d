"""One attempt to tell a receiver something, and what every receiver can do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from alerts.receivers.settings import ReceiverSettings

__all__ = ["Attempt", "Fate", "Receiver"]


class Fate(StrEnum):
    """What became of an attempt."""

    DELIVERED = "delivered"
    RETRY = "retry"
    REFUSED = "refused"  # the same request would fail for ever


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The outcome, in words that hold no secret.

    `retry_after_s`: the receiver asked for it. `receipt`: what it calls the message, where it has
    to be named again for the same message to be changed.
    """

    fate: Fate
    detail: str
    retry_after_s: float | None = None
    receipt: str = ""


class Receiver(Protocol):
    """A place that is told. Belongs to one thread."""

    @property
    def settings(self) -> ReceiverSettings: ...

    def send(self, body: str, *, key: str, now_s: float, receipt: str = "") -> Attempt:
        """Tells one notification.

        `key` is the same for each attempt of it; `receipt` is the last that was given for its alert.
        """

    def close(self) -> None: ...
