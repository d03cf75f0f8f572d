"""A sidecar in a terminal: what it says when it begins, and how it is asked to end."""

import signal
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from exporters.delivery.settings import DeliverySettings

__all__ = ["asked_to_stop", "greeting", "many"]


def many(number: int, what: str) -> str:
    """As in "1 target", "3 targets"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def greeting(does: str, settings: "DeliverySettings") -> Callable[[int | None], None]:
    """Says what runs here, where it sends and where it shows itself; then only news is told."""

    def tell(port: int | None) -> None:
        sends = f"sends to {settings.endpoint}" if settings.endpoint else "sends nothing"
        host: Any = getattr(settings, "listen_host", "127.0.0.1")
        shown = f", own page http://{host}:{port}/metrics" if port else ""
        print(  # noqa: T201 - a command that goes on says that it does
            f"stagewatch: {does}, {sends}{shown}. Ctrl-C ends it.", flush=True
        )

    return tell


def asked_to_stop() -> Event:
    """Set by SIGINT and SIGTERM."""
    stop = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop
