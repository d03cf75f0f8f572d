"""One target over time: when it may be asked, how often, and what it did before."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

from domain.request import Outcome
from exporters.probe.budget import Booking, BooksError, Budget
from exporters.probe.client import exchange
from exporters.probe.connection import Connection, Resolve, libc
from exporters.probe.exchange import Exchange
from exporters.probe.finding import Finding, cold_by_time, late, lumps
from exporters.probe.prompt import Prompt
from exporters.probe.round import Round
from exporters.probe.secret import secrets_of, without
from exporters.probe.settings import ProbeTarget

__all__ = ["Asking"]

_LOG = logging.getLogger(__name__)
_REMEMBERED = 20
_QUICK_S = 1.0  # a first token within a second is no cold start
_LONGEST_PAUSE_S = 3600.0
_DOUBLINGS = 6


class Asking:
    """Asks one target in rounds, within its caps, and not before it said."""

    def __init__(
        self,
        target: ProbeTarget,
        budget: Budget,
        *,
        interval_s: float,
        clock: Callable[[], datetime],
        resolve: Resolve = libc,
    ) -> None:
        self.target = target
        self._budget, self._clock, self._resolve = budget, clock, resolve
        self._interval_s = interval_s
        self._usual: deque[float] = deque(maxlen=_REMEMBERED)
        self._not_before: datetime | None = None
        self._turned_away = 0
        self._usage = target.usage
        self._shown = without(secrets_of(target, target.address, {}), target.address)

    async def round(self, *, every_hop: bool = False) -> Round:
        """Ask the users' address; those behind it where it shows lumps, or where told to."""
        if refused := self._refused():
            return self._told(Round(refused_as=refused[0], refusal=refused[1]))
        asked = [await self._ask(self.target.address)]
        cold = await self._cold(asked)
        self._remember(asked, cold)
        held = lumps(asked[-1]).held
        inner = [
            await self._ask(url)
            for url in self.target.hops[:-1]
            if (held or every_hop) and not self._budget.refusal(self.target, self._clock())
        ]
        return self._told(Round(asked=tuple(asked), inner=tuple(inner), cold=cold))

    def _refused(self) -> tuple[str, str] | None:
        now = self._clock()
        if self._not_before is not None and now < self._not_before:
            wait_s = (self._not_before - now).total_seconds()
            return (
                "waiting",
                f"{self._shown} asked to be left alone for {wait_s:.0f} s more",
            )
        refusal = self._budget.refusal(self.target, now)
        return ("capped", f"{self._shown}: {refusal}") if refusal else None

    async def _ask(self, url: str) -> Exchange:
        target = self.target
        prompt = Prompt.of_words(target.prompt_words, max_tokens=target.max_tokens)
        booking = await asyncio.to_thread(self._budget.book, target, self._clock())
        connection = Connection(target, url, resolve=self._resolve)
        connection.usage = self._usage
        try:
            done = await exchange(target, prompt, connection=connection, timeout_s=target.timeout_s)
        finally:
            self._usage = connection.usage
            await connection.close()
        await asyncio.to_thread(self._settle, booking, done)
        return done

    def _settle(self, booking: Booking, done: Exchange) -> None:
        """What was measured is kept whatever becomes of the books: these have counted the most."""
        try:
            self._budget.settle(booking, done)
        except BooksError as error:
            _LOG.warning("%s", error)

    async def _cold(self, asked: list[Exchange]) -> Finding | None:
        """Ask once more where the first token was late, to tell cold from slow."""
        (first,) = asked
        usual_s = median(self._usual) if self._usual else None
        slow = first.ttft_s is not None and first.ttft_s > _QUICK_S
        if usual_s is not None and first.ttft_s is not None:
            slow = late(first.ttft_s, usual_s)
        may = self.target.cold_start_probe and not self._budget.refusal(self.target, self._clock())
        if not slow or not may or not first.ok:
            return None
        asked.append(await self._ask(self.target.address))
        return cold_by_time(first, asked[1], usual_s)

    def _remember(self, asked: list[Exchange], cold: Finding | None) -> None:
        warm = asked if cold is None else asked[1:]
        self._usual.extend(each.ttft_s for each in warm if each.ok and each.ttft_s is not None)
        last = asked[-1]
        self._turned_away = self._turned_away + 1 if last.status == 429 else 0
        wait_s = last.retry_after_s if last.outcome is Outcome.FAILED else None
        if last.status == 429 and wait_s is None:
            doubled_s = self._interval_s * 2 ** min(self._turned_away, _DOUBLINGS)
            wait_s = min(doubled_s, max(self._interval_s, _LONGEST_PAUSE_S))
        self._not_before = None if wait_s is None else self._clock() + timedelta(seconds=wait_s)

    def _told(self, done: Round) -> Round:
        """The round, with what the month has cost."""
        spent = self._budget.spent(self.target, self._clock())
        return replace(done, month_usd=spent.usd(self.target), month_tokens=spent.tokens)
