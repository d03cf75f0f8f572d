"""How long this thread stood in line for a processor: what of a measured time may be our own."""

import contextlib
from pathlib import Path

__all__ = ["stood_in_line_s"]

_SCHEDSTAT = Path("/proc/thread-self/schedstat")  # nanoseconds: run, waited to run; times run


def stood_in_line_s() -> float | None:
    """Since the thread began; None where the system does not say."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(_SCHEDSTAT.read_text().split()[1]) / 1e9
    return None
