"""A ladder in the foreground: from an order to the measurement, whatever ends it."""

import asyncio
import signal
import threading

from exporters.delivery.settings import DeliverySettings
from exporters.ladder.climb import Order, climb
from exporters.ladder.measurement import Measurement
from exporters.ladder.progress import Progress
from exporters.ladder.store import sending

__all__ = ["run"]


def run(order: Order, delivery: DeliverySettings) -> Measurement:
    """Ctrl-C ends the run that is under way and gives what was measured until then; twice ends all."""
    return asyncio.run(_run(order, delivery))


async def _run(order: Order, delivery: DeliverySettings) -> Measurement:
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        interrupted.set()
        loop.remove_signal_handler(number)  # the next one is not for us

    if threading.current_thread() is threading.main_thread():  # no other may listen to signals
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)
    progress = Progress(order.plan)
    async with sending(order.target, delivery) as store:
        measured = await climb(order, progress, interrupted, store.keep)
        await store.conclude(measured)
        return measured
