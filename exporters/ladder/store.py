"""Every exchange of a ladder as metrics of `source=probe`, sent between the runs."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from exporters.delivery.delivery import Delivery, open_delivery
from exporters.delivery.export import Export
from exporters.delivery.settings import DeliverySettings
from exporters.engine.otlp import export_request
from exporters.engine.reading import Level, Reading
from exporters.ladder.knee import Beyond
from exporters.ladder.measurement import Measurement
from exporters.probe.exchange import Exchange
from exporters.probe.report import Reporter
from exporters.probe.round import Round
from exporters.probe.settings import ProbeTarget

__all__ = ["USE_CASE", "Store", "sending"]

USE_CASE = "load-test"
"""The `use_case` label of all that a ladder sends: nobody's users."""

_NOWHERE = (Beyond.UNKNOWN, Beyond.RISES)


class Store:
    """Takes exchanges between the runs, and where the ladder bent at its end."""

    def __init__(self, target: ProbeTarget, delivery: Delivery, *, sends: bool) -> None:
        self._reporter = Reporter(target, time.time_ns())
        self._delivery = delivery
        self._sends = sends

    async def keep(self, exchanges: list[Exchange]) -> None:
        if self._sends and exchanges:
            round_ = Round(asked=tuple(exchanges))
            await self._send(self._reporter.reading(round_, time.time_ns()))

    async def conclude(self, measured: Measurement) -> None:
        """The knee, for whoever asks later why requests wait there (D10)."""
        knees = [each.knee for each in measured.climbs]
        found = [
            each.from_concurrency
            for each in knees
            if each.beyond not in _NOWHERE and each.from_concurrency is not None
        ]
        if self._sends and found:
            labels = self._reporter.labels
            level = Level(metric="concurrency_knee", labels=labels, value=float(min(found)))
            await self._send(Reading(target=labels, at_ns=time.time_ns(), up=True, levels=(level,)))

    async def _send(self, reading: Reading) -> None:
        body = export_request(reading).SerializeToString()
        self._delivery.put(Export(owner=reading.target, at_ns=reading.at_ns, body=body))
        await self._delivery.flush()


@asynccontextmanager
async def sending(target: ProbeTarget, settings: DeliverySettings) -> AsyncIterator[Store]:
    """A place to put exchanges; at the end it tries for a while to have sent them all."""
    labelled = target.model_copy(update={"labels": {"use_case": USE_CASE, **target.labels}})
    async with open_delivery(settings, kind="ladder") as delivery:
        yield Store(labelled, delivery, sends=settings.endpoint is not None)
