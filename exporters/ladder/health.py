"""How well we ourselves keep up: how late our event loop is, and what share of a core it takes."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from fractions import Fraction

import numpy as np

from exporters.ladder.figures import Client
from exporters.ladder.rank import ranked

__all__ = ["Pulse", "watched"]

_BEAT_S = 0.01


class Pulse:
    """Beats since the last look; each says how late it came."""

    def __init__(self) -> None:
        self._late_s: list[float] = []
        self._wall_s, self._busy_s = time.perf_counter(), time.process_time()

    async def beat(self) -> None:
        """Until cancelled."""
        while True:
            due_s = time.perf_counter() + _BEAT_S
            await asyncio.sleep(_BEAT_S)
            self._late_s.append(max(time.perf_counter() - due_s, 0.0))

    def take(self) -> Client:
        """What was seen since the last time, and begin anew."""
        late = ranked(np.array(self._late_s, np.float64), Fraction(95, 100))
        wall_s, busy_s = time.perf_counter(), time.process_time()
        cpu = (busy_s - self._busy_s) / max(wall_s - self._wall_s, 1e-9)
        self._late_s, self._wall_s, self._busy_s = [], wall_s, busy_s
        return Client(late_s=(late.value_s if late else None) or 0.0, cpu_ratio=cpu)


@asynccontextmanager
async def watched() -> AsyncIterator[Pulse]:
    """A pulse that beats as long as the block runs."""
    pulse = Pulse()
    beating = asyncio.create_task(pulse.beat())
    try:
        yield pulse
    finally:
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
