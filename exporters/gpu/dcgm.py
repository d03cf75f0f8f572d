"""Whether NVIDIA's DCGM reads the same counters on this node: two readers may disturb each other."""

import socket
from pathlib import Path

__all__ = ["dcgm_present"]

_HOST_ENGINE = "nv-hostengine"
_PATIENCE_S = 0.2


def dcgm_present(port: int) -> bool:
    """A dcgm-exporter that listens, or a host engine that runs."""
    return _listens(port) or _runs(_HOST_ENGINE)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S):
            return True
    except OSError:
        return False


def _runs(name: str) -> bool:
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == name:
                return True
        except OSError:  # it ended while we looked
            continue
    return False
