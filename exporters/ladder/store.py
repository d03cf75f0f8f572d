"""Every exchange of a ladder as metrics of `source=probe`, sent between the runs."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from exporters.delivery.delivery import open_delivery
from exporters.delivery.export import Export
from exporters.delivery.settings import DeliverySettings
from exporters.engine.otlp import export_request
from exporters.probe.exchange import Exchange
from exporters.probe.report import Reporter
from exporters.probe.round import Round
from exporters.probe.settings import ProbeTarget

__all__ = ["USE_CASE", "sending"]

USE_CASE = "load-test"
"""The `use_case` label of all that a ladder sends: nobody's users."""

Keep = Callable[[list[Exchange]], Awaitable[None]]


@asynccontextmanager
async def sending(target: ProbeTarget, settings: DeliverySettings) -> AsyncIterator[Keep]:
    """A place to put exchanges; at the end it tries for a while to have sent them all."""
    labelled = target.model_copy(update={"labels": {"use_case": USE_CASE, **target.labels}})
    async with open_delivery(settings, kind="ladder") as delivery:
        reporter = Reporter(labelled, time.time_ns())

        async def keep(exchanges: list[Exchange]) -> None:
            if settings.endpoint is None or not exchanges:
                return
            reading = reporter.reading(Round(asked=tuple(exchanges)), time.time_ns())
            body = export_request(reading).SerializeToString()
            delivery.put(Export(owner=reading.target, at_ns=reading.at_ns, body=body))
            await delivery.flush()

        yield keep
