"""Listening sockets, opened before anything is promised about them."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from domain.errors import ConfigError

__all__ = ["is_free", "listen"]


@contextmanager
def listen(host: str, port: int, *, setting: str) -> Iterator[socket.socket]:
    """A socket that listens; 0 takes a free port. A port in use is one clear error."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(128)
        except (OSError, OverflowError) as error:
            raise ConfigError(
                f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}",
                where=setting,
                remedy="Stop what uses that port, or choose another (0 takes a free one): "
                f"STAGEWATCH_{setting.upper().replace('.', '__')}, or --port for the pages.",
            ) from error
        yield listener


def is_free(host: str, port: int) -> bool:
    """Whether somebody could listen there now."""
    try:
        with listen(host, port, setting="probe"):
            return True
    except ConfigError:
        return False
