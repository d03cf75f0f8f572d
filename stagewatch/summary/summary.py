"""The summary: our answers, worked out again every few seconds while somebody asks for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from alerts.ledger import Ledger
from alerts.loop import Loop
from collector.query import Reader, Window
from domain.own_work import own_work
from stagewatch.summary.endpoints import endpoint_families
from stagewatch.summary.family import Family, Sample
from stagewatch.summary.latencies import busiest, latency_families, measure
from stagewatch.summary.promises import promise_families
from stagewatch.summary.requests import RequestCounts
from stagewatch.summary.settings import SummarySettings

__all__ = ["Summary", "Told"]

_STEP_S = 10
_QUIET_S = 300.0
_CADENCE_S = 0.25
_PATIENCE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What was worked out, and of which instant it is."""

    at_s: float
    families: Sequence[Family]


class Summary:
    """One thread works it out; whoever asks gets what is there, and never waits.

    Nobody has asked for five minutes: nothing is worked out any more. What is older than four
    refreshes is not told.
    """

    def __init__(
        self,
        reader: Reader,
        ledger: Ledger,
        settings: SummarySettings,
        *,
        begun_s: float,
        arrived: Callable[[Told], None] | None = None,
    ) -> None:
        self._reader, self._ledger, self._settings = reader, ledger, settings
        self._counts = RequestCounts(reader, settings.labels, since_s=_whole(begun_s))
        self._arrived = arrived
        self._asked_at_s: float | None = None
        self._tried_at_s: float | None = None
        self._told: Told | None = None
        self._loop = Loop("summary for Prometheus", self.tick)

    def told(self, now_s: float) -> Told | None:
        """The newest; None where there is none yet, or none that is new enough."""
        self._asked_at_s = now_s
        told = self._told
        if told is None or now_s - told.at_s > _PATIENCE * self._settings.refresh_s:
            return None
        return told

    def run(self, stop: threading.Event) -> None:
        """Until told to stop."""
        self._loop.run(stop, clock=time.time, cadence_s=_CADENCE_S)

    def problem(self) -> str | None:
        """Why it is not worked out, or None."""
        return self._loop.problem()

    def tick(self, now_s: float) -> None:
        """Works it out if it is time and anybody wants it."""
        if not self._is_wanted(now_s) or not self._is_time(now_s):
            return
        self._tried_at_s, begun_s = now_s, time.monotonic()
        with own_work("sum up for Prometheus"):
            families = list(self._families(_whole(now_s)))
        own = _own(now_s, time.monotonic() - begun_s)
        self._told = Told(at_s=now_s, families=[*families, *own])
        if self._arrived is not None:
            self._arrived(self._told)

    def _is_wanted(self, now_s: float) -> bool:
        asked_at_s = self._asked_at_s
        asked = asked_at_s is not None and now_s - asked_at_s <= _QUIET_S
        return asked or self._arrived is not None

    def _is_time(self, now_s: float) -> bool:
        tried_at_s = self._tried_at_s
        # why the second: a clock that was set back must not keep it from working for hours
        return tried_at_s is None or not 0 <= now_s - tried_at_s < self._settings.refresh_s

    def _families(self, until_s: int) -> Iterator[Family]:
        settings = self._settings
        window = Window(since_s=until_s - settings.window_s, until_s=until_s)
        measured, counted = measure(self._reader, settings, window), self._counts.count(until_s)
        further = {labels for each in counted.values() for labels in each}
        groups, left_out = busiest(measured, further, settings.max_groups)
        yield from latency_families(self._reader, settings, measured, groups, window)
        yield from self._counts.families(counted, groups, window)
        yield from promise_families(self._ledger, self._reader, until_s)
        yield from endpoint_families(self._reader, until_s, settings.max_groups)
        yield Family(
            name="stagewatch_answers_groups_left_out",
            help="Combinations of labels beyond `summary.max_groups`, which are not told.",
            samples=[Sample(labels=(), value=float(left_out))],
        )


def _own(now_s: float, took_s: float) -> Iterator[Family]:
    yield _single(
        "stagewatch_answers_timestamp_seconds", "When these answers were worked out.", now_s
    )
    yield _single("stagewatch_answers_duration_seconds", "How long that took.", took_s)


def _single(name: str, text: str, value: float) -> Family:
    return Family(name=name, help=text, samples=[Sample(labels=(), value=value)])


def _whole(at_s: float) -> int:
    return int(at_s) // _STEP_S * _STEP_S
