"""The outbox, emptied: one thread per receiver, so that a dead one delays nobody else.

Notifications of one alert go out in order. What was not answered is sent again with the same key;
a receiver that keeps the key sees each notification once. One that fails again and again is left
in peace for a while, and the others are told of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import Engine

from alerts.breaker import Breaker
from alerts.courier import Courier
from alerts.receivers.opening import opened
from alerts.receivers.settings import ReceiverSettings

__all__ = ["Delivery"]

_LOG = logging.getLogger(__name__)
_IDLE_S = 1.0


class Delivery:
    """A thread for each receiver; `wake` after something was put into the outbox."""

    def __init__(
        self,
        state: Engine,
        receivers: Sequence[ReceiverSettings],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._state = state
        self._receivers = receivers
        self._clock = clock
        self._stopped = False
        self._doing: dict[str, Breaker] = {}
        self._wakes = [threading.Event() for _ in receivers]
        self._threads = [
            threading.Thread(
                target=self._carry,
                args=(settings, wake),
                name=f"receiver {settings.name}",
                daemon=True,
            )
            for settings, wake in zip(receivers, self._wakes, strict=True)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def wake(self) -> None:
        """Something new lies in the outbox."""
        for wake in self._wakes:
            wake.set()

    def counts(self) -> Mapping[str, float]:
        """For our own metrics: how many receivers there are, and how many cannot be told now."""
        failing = sum(each.open for each in list(self._doing.values()))
        return {
            "stagewatch_alerts_receivers": len(self._threads),
            "stagewatch_alerts_receivers_failing": failing,
        }

    def warning(self) -> str | None:
        """Who cannot be told, since when and why, or None."""
        failing = [(name, each) for name, each in sorted(self._doing.items()) if each.open]
        return "; ".join(_cannot(name, each) for name, each in failing) or None

    def close(self, timeout_s: float = 2.0) -> None:
        """Stops; a request under way is not waited for: its notification is sent again."""
        self._stopped = True
        self.wake()
        until_s = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(until_s - time.monotonic(), 0.0))

    def _carry(self, settings: ReceiverSettings, wake: threading.Event) -> None:
        others = [each for each in self._receivers if each is not settings]
        receiver = opened(settings)
        courier = Courier(self._state, receiver, others)
        while not self._stopped:
            wake.clear()
            try:
                wait_s = courier.deliver(self._clock)
            except Exception:  # noqa: BLE001 - why all: a receiver whose thread ended hears of nothing more
                _LOG.exception("receiver %s: a delivery failed; it is tried again", settings.name)
                wait_s = _IDLE_S
            self._doing[settings.name] = courier.breaker
            if not self._stopped:
                wake.wait(wait_s)
        receiver.close()


def _cannot(name: str, breaker: Breaker) -> str:
    since = datetime.fromtimestamp(breaker.since_s or 0.0, UTC)
    return f"receiver {name} cannot be told since {since:%H:%M} UTC ({breaker.detail})"
