"""The sidecar: reading processes watched, their readings shown and pushed."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Final

from exporters.engine.clock import Clock
from exporters.engine.reading import Reading
from exporters.gpu.describe import WAY_OUT
from exporters.gpu.export import Exports
from exporters.gpu.fleet import Fleet
from exporters.gpu.kernel_log import KernelLog
from exporters.gpu.neighbours import Neighbours
from exporters.gpu.orders import Orders
from exporters.gpu.page import Page
from exporters.gpu.plan import Plan
from exporters.gpu.supervision import Supervisor
from exporters.gpu.web import serving

if TYPE_CHECKING:
    from exporters.gpu.sending import Sending

__all__ = ["Sidecar", "read_once", "run"]

_LOG = logging.getLogger(__name__)
_LOOK_S: Final = 0.2
_ONCE_INTERVAL_S: Final = 0.25
_SECOND_READING_S: Final = 0.6


@dataclass(slots=True)
class Sidecar:
    """The parts of one exporter, wired; `port` is None without a page."""

    plan: Plan
    fleet: Fleet
    page: Page
    supervisor: Supervisor
    neighbours: Neighbours
    exports: Exports
    port: int | None = None
    sending: Sending | None = None
    clock: Clock = field(default_factory=Clock)
    works: tuple[Future[None], ...] = ()

    @property
    def fault(self) -> BaseException | None:
        """Why one of the works ended, if it failed."""
        return next((f for each in self.works if each.done() and (f := each.exception())), None)

    def metrics(self) -> str:
        """The page of now."""
        return self.page.text(self.fleet, time.monotonic())

    def beside(self) -> Iterator[tuple[str, Mapping[str, str], float]]:
        """What is on the page and belongs to no GPU."""
        yield from self.neighbours.samples()
        working, abandoned = len(self.supervisor.pids), len(self.supervisor.abandoned)
        for state, count in (("working", working), ("abandoned", abandoned)):
            yield "stagewatch_gpu_readers", {"state": state}, float(count)
        if self.sending is not None:
            yield from self.sending.samples()

    def problem(self) -> str:
        """What an orchestrator should restart us for; empty while all is well."""
        fleet, now_s = self.fleet, time.monotonic()
        since_s = fleet.driver_since_s
        if fleet.driver_down in ("", "released") or since_s is None:
            return ""
        if now_s - since_s <= self.plan.unhealthy_after_s:
            return ""
        return f"no driver for {now_s - since_s:.0f} s: {fleet.driver_down}"

    def reading(self) -> Reading:
        """What is to be pushed now."""
        at_ns, set_by_ns = self.clock.look()
        return self.exports.reading(
            self.fleet,
            now_s=time.monotonic(),
            at_ns=at_ns,
            set_by_ns=set_by_ns,
            beside=tuple(self.neighbours.levels()),
        )


def run(plan: Plan, stop: Event, *, started: Callable[[Sidecar], None] | None = None) -> None:
    """Read, show and push until `stop` is set."""
    with ExitStack() as stack:
        sidecar = stack.enter_context(_working(plan))
        if plan.listen_port is not None:
            host, port = plan.listen_host, plan.listen_port
            sidecar.port = stack.enter_context(
                serving(host, port, sidecar.metrics, sidecar.problem)
            )
        if started is not None:
            started(sidecar)
        pool = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="gpu sender"))
        sending = pool.submit(_send, sidecar, stop)
        _log_until(
            sidecar, lambda: stop.wait(_LOOK_S) or sending.done() or sidecar.fault is not None
        )
        fault = sidecar.fault
        stop.set()
        if fault is not None:  # why: better no exporter than one that is blind and says nothing
            raise fault
        sending.result()


def _send(sidecar: Sidecar, stop: Event) -> None:
    """Until `stop`; without an address it is only waited for."""
    if sidecar.plan.way.endpoint is None:
        stop.wait()
        return
    from exporters.gpu.sending import Sending  # noqa: PLC0415 - its memory is for who sends

    sidecar.sending = Sending(sidecar.plan, sidecar.reading)
    sidecar.sending.run(stop)


@contextmanager
def _working(plan: Plan, interval_s: float | None = None) -> Iterator[Sidecar]:
    """The reading processes and what watches them, until the end of the block."""
    page, stop = Page(), Event()
    fleet = Fleet(deadline_s=plan.deadline_s, changed=page.update)
    fleet.driver_since_s = time.monotonic()
    orders = Orders(
        interval_s=interval_s or plan.interval_s,
        deadline_s=plan.deadline_s,
        activity=plan.activity,
        dcgm_port=plan.dcgm_port,
    )
    supervisor = Supervisor(fleet, orders, replace_after_s=plan.replace_after_s)
    neighbours = Neighbours(plan, fleet)
    kernel_log = KernelLog(fleet, plan.kernel_log)
    exports = Exports(plan.node or socket.gethostname(), time.time_ns())
    sidecar = Sidecar(plan, fleet, page, supervisor, neighbours, exports)
    page.beside = sidecar.beside
    works = (supervisor.run, neighbours.run, kernel_log.run)
    with ThreadPoolExecutor(len(works), thread_name_prefix="gpu watch") as pool:
        sidecar.works = tuple(pool.submit(work, stop) for work in works)
        try:
            yield sidecar
        finally:
            stop.set()


def _log_until(sidecar: Sidecar, ended: Callable[[], bool]) -> None:
    """A line when the state of the driver or of a GPU changes, none while it stays."""
    told: dict[str, str] = {}
    fleet = sidecar.fleet
    while not ended():
        now_s = time.monotonic()
        with fleet.lock:
            states = {gpu.id: fleet.state(gpu, now_s) for gpu in fleet.gpus.values()}
        if fleet.driver_down:
            states = {"the driver": fleet.driver_down}
        else:
            states["the driver"] = ""
        for name, reason in states.items():
            if reason not in ("starting", told.get(name, "")):
                _LOG.warning("%s", _sentence(name, reason))
            if reason != "starting":
                told[name] = reason


def _sentence(name: str, reason: str) -> str:
    if not reason:
        return f"{name} answers again"
    return f"{name} is not observed ({reason}). {WAY_OUT.get(reason, '')}".rstrip()


def read_once(plan: Plan) -> Fleet:
    """One reading of every GPU, or of as many as answer before the deadline."""
    with _working(plan, _ONCE_INTERVAL_S) as sidecar:
        fleet = sidecar.fleet
        end_s = time.monotonic() + plan.deadline_s
        while time.monotonic() < end_s and not _all_told(fleet):
            time.sleep(0.02)
        if not fleet.driver_down:  # why: activity needs two samples
            time.sleep(min(_SECOND_READING_S, max(end_s - time.monotonic(), 0.0)))
        sidecar.neighbours.look()
        return fleet


def _all_told(fleet: Fleet) -> bool:
    """Every GPU said something, or the driver said that it cannot."""
    if fleet.driver_down:
        return fleet.driver_down != "starting"
    with fleet.lock:
        heard = [gpu for gpu in fleet.gpus.values() if gpu.heard_at_s is not None]
        return len(heard) >= fleet.promised
