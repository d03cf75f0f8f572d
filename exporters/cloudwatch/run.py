"""The sidecar: every account on a thread of its own, its points pushed, its health shown."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any

from domain.own_work import Kind, own_work
from exporters.cloudwatch.aws import AwsSource
from exporters.cloudwatch.call import Caller
from exporters.cloudwatch.otlp import exports
from exporters.cloudwatch.own_page import OwnPage
from exporters.cloudwatch.poller import Poll, Poller
from exporters.cloudwatch.promql import PrometheusPoller, PrometheusSource
from exporters.cloudwatch.self_report import owner_of, self_report
from exporters.cloudwatch.settings import CloudWatchSettings, ScopeSettings
from exporters.cloudwatch.spending import Spending
from exporters.delivery.delivery import open_delivery
from exporters.sidecar import serve_page, until_stopped

__all__ = ["poll_once", "run"]

_LOG = logging.getLogger(__name__)
_TICK_S = 60.0
_BEHIND_S = 7.0  # seconds into the minute: on the edge everybody asks


@dataclass(slots=True)
class _Watch:
    """One scope: what is polled, and through which clients."""

    scope: ScopeSettings
    poller: Poller
    source: AwsSource
    promql: PrometheusPoller | None

    def poll(self, now_s: float) -> Poll:
        """One round; a fault of ours is said, and the next round is tried."""
        done = Poll()
        place = {"cloud.account.id": self.scope.account, "cloud.region": self.scope.region}
        with own_work("poll CloudWatch", place, Kind.CLIENT) as piece:
            self._poll(now_s, done)
            piece.tell("stagewatch.points", len(done.points))
            if done.failures:
                piece.tell("error.type", "failed_calls")
        return done

    def _poll(self, now_s: float, done: Poll) -> None:
        try:
            self.poller.poll(now_s, done)
            if self.promql is not None:
                points, notes, failures = self.promql.poll(now_s)
                done.points += points
                done.notes += notes
                done.failures += failures
        except Exception as error:  # noqa: BLE001 - one account must not end the others
            _LOG.exception("a fault of ours while reading %s", self.scope.account)
            done.failures.append(f"a fault of ours: {error!r}")

    def close(self) -> None:
        self.source.close()
        if self.promql is not None:
            self.promql.close()


def run(
    settings: CloudWatchSettings,
    stop: Event,
    *,
    started: Callable[[int | None], None] | None = None,
) -> None:
    """Poll, push and show until `stop` is set; `started` is told the port of our own page."""
    asyncio.run(_run(settings, stop, started))


def poll_once(settings: CloudWatchSettings) -> tuple[tuple[ScopeSettings, Poll], ...]:
    """One round of every scope, as far back as an ordinary call reads."""
    done = []
    short = settings.model_copy(update={"backfill_s": settings.reread_s})
    for scope in settings.scopes:
        watch = _watch(short, scope, time.sleep, once=True)
        try:
            done.append((scope, watch.poll(time.time())))
        finally:
            watch.close()
    return tuple(done)


async def _run(
    settings: CloudWatchSettings, stop: Event, started: Callable[[int | None], None] | None
) -> None:
    watches = [_watch(settings, scope, stop.wait, once=False) for scope in settings.scopes]
    pollers = [watch.poller for watch in watches]
    async with AsyncExitStack() as stack:
        delivery = await stack.enter_async_context(open_delivery(settings, kind="cloudwatch"))
        page = OwnPage(delivery)
        port = serve_page(page, settings.listen_host, settings.listen_port, stack)

        def emit(watch: _Watch, done: Poll) -> None:
            page.update(pollers, watch.poller, done, time.time())
            for export in exports(done.points, at_ns=time.time_ns()):
                delivery.put(export)
            owner = owner_of(watch.scope.account, watch.scope.region)
            budget = watch.poller.budget
            delivery.put(self_report(owner, budget, delivery, now_s=time.time()))

        tasks = [asyncio.create_task(_in_thread(_loop, watch, emit, stop)) for watch in watches]
        tasks.append(asyncio.create_task(delivery.run()))
        if started is not None:
            started(port)
        await until_stopped(stop, tasks)


def _watch(
    settings: CloudWatchSettings,
    scope: ScopeSettings,
    sleep: Callable[[float], object],
    *,
    once: bool,
) -> _Watch:
    source = AwsSource(scope)
    caller = Caller(settings.calls_per_s, sleep=sleep)
    promql = None
    if scope.promql:
        promql = PrometheusPoller(
            scope,
            PrometheusSource(scope, source.session),
            caller,
            reread_s=settings.reread_s,
            lag_s=settings.settle_lag_s,
        )
    # why: without a budget one reading leaves nothing behind
    remembers = not once or scope.budget_usd_per_day is not None
    spending = Spending(_spending_file(settings, scope) if remembers else None)
    poller = Poller(settings, scope, source, caller, spending, logs=not once)
    return _Watch(scope, poller, source, promql)


def _spending_file(settings: CloudWatchSettings, scope: ScopeSettings) -> Path | None:
    """Beside the spool; without one nothing is remembered."""
    if settings.spool_dir is None:
        return None
    return settings.spool_dir / "cloudwatch-spending" / f"{scope.account}-{scope.region}.json"


def _loop(watch: _Watch, emit: Callable[[_Watch, Poll], None], stop: Event) -> None:
    """A round a minute, a little behind the edge; a round that takes longer is not made up for."""
    try:
        while not stop.is_set():
            emit(watch, watch.poll(time.time()))
            now_s = time.time()
            next_s = (now_s - _BEHIND_S) // _TICK_S * _TICK_S + _TICK_S + _BEHIND_S
            stop.wait(next_s - now_s)
    finally:
        watch.close()


async def _in_thread(work: Callable[..., None], *arguments: Any) -> None:
    """On a thread that nobody waits for at the end: a call to AWS may hang for half a minute."""
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[None] = loop.create_future()

    def end(error: BaseException | None) -> None:
        if ended.done():
            return
        if error is None:
            ended.set_result(None)
        else:
            ended.set_exception(error)

    def body() -> None:
        error: BaseException | None = None
        try:
            work(*arguments)
        except BaseException as raised:  # noqa: BLE001 - it is raised again where it is awaited
            error = raised
        if not loop.is_closed():
            loop.call_soon_threadsafe(end, error)

    Thread(target=body, name="cloudwatch", daemon=True).start()
    await ended
