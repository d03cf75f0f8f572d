"""The way of readings to the collector: one export after the other, over the disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from threading import Event

from domain.labels import Labels
from domain.metric import METRICS
from exporters.delivery.delivery import Delivery, open_way
from exporters.delivery.export import Export
from exporters.engine.otlp import export_request
from exporters.engine.reading import Level, Reading
from exporters.gpu.plan import Plan

__all__ = ["Sending"]

_DROPPED = METRICS["exports_dropped"].full_name


class Sending:
    """Makes an export every so often and has it delivered; what waits is on the page too."""

    def __init__(self, plan: Plan, next_reading: Callable[[], Reading]) -> None:
        self._plan, self._next_reading = plan, next_reading
        self._delivery: Delivery | None = None

    def run(self, stop: Event) -> None:
        """Until `stop`; then one last export."""
        asyncio.run(self._run(stop))

    def samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        """What waits and what was lost, for our own page."""
        delivery = self._delivery
        if delivery is None:
            return
        for owner in delivery.owners():
            for level in _waiting(delivery, owner):
                yield METRICS[level.metric].full_name, dict(owner), level.value
        for (owner, reason), count in delivery.lost().items():
            yield _DROPPED, {**dict(owner), "reason": reason}, float(count)
        for where, size in zip(("disk", "memory"), delivery.held_bytes(), strict=True):
            yield "stagewatch_exporter_spool_bytes", {"where": where}, float(size)

    async def _run(self, stop: Event) -> None:
        async with open_way(self._plan.way, kind="gpu") as delivery:
            self._delivery = delivery
            pushing = asyncio.create_task(delivery.run())
            try:
                while not await _stopped(stop, self._plan.push_interval_s):
                    await asyncio.to_thread(self._put, delivery)
                    if pushing.done():
                        pushing.result()  # why: it never ends but by failing
                await asyncio.to_thread(self._put, delivery)
            finally:
                pushing.cancel()
                await asyncio.gather(pushing, return_exceptions=True)

    def _put(self, delivery: Delivery) -> None:
        """The reading of now, with what waits already."""
        reading = self._next_reading()
        levels = (*reading.levels, *_waiting(delivery, reading.target))
        body = export_request(replace(reading, levels=levels)).SerializeToString()
        delivery.put(Export(owner=reading.target, at_ns=reading.at_ns, body=body))


def _waiting(delivery: Delivery, owner: Labels) -> tuple[Level, Level]:
    waiting = delivery.waiting(owner)
    return (
        Level(metric="spooled_bytes", labels=owner, value=float(waiting.size_bytes)),
        Level(metric="spooled_age", labels=owner, value=waiting.oldest_age_s),
    )


async def _stopped(stop: Event, within_s: float) -> bool:
    """Waits that long, or until told to stop; the event belongs to threads."""
    return await asyncio.to_thread(stop.wait, within_s)
