"""The network's floor: repeated handshakes, spaced, and how long the quickest and the usual take."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from statistics import median

from exporters.probe.connection import Connection, Resolve, libc
from exporters.probe.failure import ProbeError
from exporters.probe.secret import secrets_of, without
from exporters.probe.settings import ProbeTarget

__all__ = ["Floor", "floor"]

_TIMEOUT_S = 15.0
_MOST_FAILURES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Floor:
    """Handshakes one after the other, each of a connection of its own."""

    url: str
    address: str = ""
    dns_s: tuple[float, ...] = ()
    connect_s: tuple[float, ...] = ()
    tls_s: tuple[float, ...] = ()
    trouble: str = ""

    @property
    def connect_min_s(self) -> float | None:
        return min(self.connect_s, default=None)

    @property
    def connect_median_s(self) -> float | None:
        return median(self.connect_s) if self.connect_s else None

    @property
    def tls_min_s(self) -> float | None:
        return min(self.tls_s, default=None)

    @property
    def tls_median_s(self) -> float | None:
        return median(self.tls_s) if self.tls_s else None


async def floor(target: ProbeTarget, *, spacing_s: float, resolve: Resolve = libc) -> Floor:
    """As many handshakes as the target asks for; fewer where three fail."""
    connection = Connection(target, resolve=resolve)
    names: list[float] = []
    connects: list[float] = []
    secured: list[float] = []
    trouble, address, failures = "", "", 0
    for number in range(target.handshakes):
        if number:
            await asyncio.sleep(spacing_s)
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                handshake = await connection.open()
        except (ProbeError, TimeoutError) as error:
            trouble, failures = str(error) or "no handshake in time", failures + 1
            if failures >= _MOST_FAILURES:
                break
            continue
        address = handshake.address
        connects.append(handshake.connect_s)
        names += [handshake.dns_s] if handshake.dns_s is not None else []
        secured += [handshake.tls_s] if handshake.tls_s is not None else []
        await connection.close()
    await connection.close()
    secrets = secrets_of(target, connection.url, {})
    return Floor(
        url=without(secrets, connection.url),
        address=address,
        dns_s=tuple(names),
        connect_s=tuple(connects),
        tls_s=tuple(secured),
        trouble=without(secrets, trouble),
    )
