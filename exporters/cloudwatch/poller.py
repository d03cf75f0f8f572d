"""One account and region: what is due is asked for, answers become points, nothing is lost or doubled."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from domain.endpoint import EndpointPoint
from domain.endpoint_metric import Meaning
from exporters.cloudwatch.accelerators import counted
from exporters.cloudwatch.answer import merge, of_series
from exporters.cloudwatch.asked import PERIOD_S, Asked
from exporters.cloudwatch.call import Caller
from exporters.cloudwatch.discovery import Discovered, namespaces, wanted
from exporters.cloudwatch.failure import CallError
from exporters.cloudwatch.ledger import Ledger
from exporters.cloudwatch.plan import Budget
from exporters.cloudwatch.query import Batch, batches, queries
from exporters.cloudwatch.schedule import Schedule
from exporters.cloudwatch.settings import CloudWatchSettings, ScopeSettings
from exporters.cloudwatch.settling import SettleLag
from exporters.cloudwatch.source import Listed, MetricSource
from exporters.cloudwatch.spending import Spending
from exporters.cloudwatch.window import ReadWindow, read_window

__all__ = ["Poll", "Poller"]

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")
_MOST_PAGES = 1000
_MOST_DATA_PAGES = 100  # of 500 queries at most; each holds 100 000 points


@dataclass(slots=True)
class Poll:
    """What one round gave. `calls` are those of GetMetricData that were due, pages not counted."""

    points: list[EndpointPoint] = field(default_factory=list)
    calls: int = 0
    pages: int = 0
    failures: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Poller:
    """Polls one scope. Call `poll` about once a minute; times are arguments."""

    def __init__(
        self,
        settings: CloudWatchSettings,
        scope: ScopeSettings,
        source: MetricSource,
        caller: Caller,
        spending: Spending | None = None,
        *,
        logs: bool = True,
    ) -> None:
        self.scope = scope
        self.caller = caller
        self.budget = Budget(scope.budget_usd_per_day, spending)
        self.ledger = Ledger(SettleLag(settings.settle_lag_s))
        self.counts: Counter[str] = Counter()
        self.statuses: dict[str, int] = {}
        self._settings = settings
        self._logs = logs
        self._source = source
        self._schedule = Schedule()
        self._found = Discovered()
        self._discovered_at_s: float | None = None
        self._noted: set[str] = set()
        self._said: frozenset[str] = frozenset()
        self.asked: Sequence[Asked] = wanted(scope, settings.thresholds_s, self._found)

    def poll(self, now_s: float, into: Poll | None = None) -> Poll:
        """Ask for what is due. What fails is covered by the window of the next round.

        `into` has what was had also where a fault of ours ends the round: it is told only once.
        """
        done = Poll() if into is None else into
        if self._discovered_at_s is None:
            self._discover(now_s, done)
        due = self._schedule.due(self.asked, now_s, self._idle(now_s))
        allowed, stopped = self.budget.admitted(due, self.asked, now_s)
        for tier in stopped:
            self._say(done, f"the budget of {self.scope.budget_usd_per_day:g} $ a day stops {tier}")
        self.counts["skipped_series"] += len(due) - len(allowed)
        self._schedule.done(due, now_s)
        statuses: Counter[str] = Counter()
        for batch in batches(allowed):
            self._ask(batch, now_s, done, statuses)
        self.statuses = dict(statuses)
        self._discover(now_s, done)  # why last: data are more urgent than new names
        if self._said and not done.failures:
            _LOG.warning("%s %s answers again", self.scope.account, self.scope.region)
        self._said = (self._said | {*done.failures}) if done.failures else frozenset()
        return done

    def _ask(self, batch: Batch, now_s: float, done: Poll, statuses: Counter[str]) -> None:
        window = self._window(batch, now_s)
        pages: list[Mapping[str, Any]] = []
        units = sum(each.billed_units for each in batch)
        done.calls += 1
        self.budget.spend(units, now_s)
        try:
            for page in self._pages(batch, window):
                pages.append(page)  # noqa: PERF402 - what came before a failure is kept
        except CallError as failure:
            self.counts["failed_calls"] += 1
            self._say(done, f"GetMetricData: {failure.problem}", failed=True)
        if not pages:
            self.budget.spend(-units, now_s)
        else:
            self.counts["billed_metrics"] += units
            done.pages += len(pages)
        results, said = merge(pages)
        for message in said:
            self._say(done, message)
        for at, asked in enumerate(batch):
            answer = of_series(results, at, asked)
            statuses[answer.status] += 1
            for reason, number in answer.refused.items():
                self.counts[f"refused_{reason}"] += number
            done.points += self.ledger.observe(asked, window, answer, now_s)

    def _pages(self, batch: Batch, window: ReadWindow) -> Iterator[Mapping[str, Any]]:
        wire = queries(batch)

        def page(token: str | None) -> tuple[Mapping[str, Any], str | None]:
            told = self._source.metric_data(wire, window.since_s, window.until_s, token)
            return told, told.get("NextToken")

        return self._paged("GetMetricData", page, _MOST_DATA_PAGES)

    def _paged(
        self, api: str, page: Callable[[str | None], tuple[_T, str | None]], most: int
    ) -> Iterator[_T]:
        """Page after page; one that only leads back to itself ends it."""
        token: str | None = None
        seen: set[str] = set()
        for _ in range(most):
            told, token = self.caller.call(api, partial(page, token))
            yield told
            if not token:
                return
            if token in seen:
                raise CallError("endless", "its pages go round in a circle")
            seen.add(token)
        raise CallError("endless", f"more than {most} pages")

    def _window(self, batch: Batch, now_s: float) -> ReadWindow:
        """The widest that a series of the batch needs: points cost nothing, calls do."""
        windows = [
            read_window(
                now_s,
                self.ledger.read_until_s(each.key),
                period_s=PERIOD_S,
                reread_s=self._settings.reread_s,
                backfill_s=self._settings.backfill_s,
            )
            for each in batch
        ]
        return min(windows)

    def _idle(self, now_s: float) -> frozenset[object]:
        """Endpoints that answered nothing for a while. Not read yet is not idle."""
        newest: dict[object, int] = {}
        for each in self.asked:
            # why not levels: an instance has a GPU, whether anybody asks for it or not
            if each.metric.meaning is not Meaning.LEVEL:
                seen = self.ledger.active_at_s(each.key)
                if seen is not None or self.ledger.read_until_s(each.key) is not None:
                    newest[each.endpoint] = max(newest.get(each.endpoint, 0), seen or 0)
        after_s = self._settings.idle_after_s
        return frozenset(each for each, at_s in newest.items() if now_s - at_s > after_s)

    def _discover(self, now_s: float, done: Poll) -> None:
        """Look at the lists when it is time; without them go on with what is known."""
        interval_s = self._settings.discover_interval_s
        last_s = self._discovered_at_s
        if last_s is not None and now_s // interval_s == last_s // interval_s:
            return
        self._discovered_at_s = now_s
        found = Discovered()
        for namespace in namespaces(self.scope):
            self._list(
                done, "ListMetrics", self._source.metrics, self._take_listed(found), namespace
            )
        for kind, api, page in (
            ("sagemaker", "ListEndpoints", self._source.endpoints),
            ("sagemaker_component", "ListInferenceComponents", self._source.components),
        ):
            # why not of linked accounts: these lists are of the account whose credentials they are
            if kind in self.scope.discover and not self.scope.linked:
                self._list(done, api, page, lambda every, kind=kind: found.named(kind, every))  # type: ignore[misc]
        self._found = self._found.with_(found) if done.failures else found
        self.asked = wanted(self.scope, self._settings.thresholds_s, self._found)
        notes = list(found.unusable.values())
        types_of = None if self.scope.linked else self._instance_types
        points, missing = counted(self.asked, types_of, now_s)
        done.points += points
        for note in (*notes, *missing):
            if note not in self._noted:
                self._noted.add(note)
                self._say(done, note)

    def _instance_types(self, endpoint: str) -> dict[str, str]:
        return self.caller.call("DescribeEndpoint", lambda: self._source.instance_types(endpoint))

    def _take_listed(self, found: Discovered) -> Callable[[list[Listed]], None]:
        return lambda every: found.listed(every, self.scope.account)

    def _list(
        self, done: Poll, api: str, page: Any, take: Callable[[list[Any]], None], *more: str
    ) -> None:
        try:
            pages = self._paged(api, partial(page, *more), _MOST_PAGES)
            take([each for every in pages for each in every])
        except CallError as failure:
            self.counts["failed_lists"] += 1
            self._say(done, f"{api}: {failure.problem}", failed=True)

    def _say(self, done: Poll, text: str, *, failed: bool = False) -> None:
        told = done.failures if failed else done.notes
        if (
            self._logs and text not in self._said and text not in told
        ):  # why: what stays wrong is logged once
            _LOG.warning("%s %s: %s", self.scope.account, self.scope.region, text)
        told.append(text)
