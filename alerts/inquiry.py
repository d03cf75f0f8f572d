"""Asks the query door which stage is at fault: the burning window against the hour before it."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace

from alerts.blame import PER_TOKEN, Blame, blame, per_token, stage_metric
from alerts.course import Course
from alerts.diagnosis.inquest import diagnose_window
from alerts.diagnosis.promises import promised_by
from alerts.diagnosis.telling import lines
from alerts.diagnosis.windows import around
from alerts.evaluate import Verdict
from alerts.incident import Event
from alerts.notice import Notice
from alerts.promise import Definition
from collector.query import Reader, Selection, Stages, Window
from domain.condition import Condition, ConditionKind, sentence
from domain.errors import StagewatchError
from domain.labels import Labels, value_of
from domain.slice import MINUTE_S

__all__ = ["Inquiry"]

_LOG = logging.getLogger(__name__)
_HOUR_S = 3600
_WEEK_S = 7 * 24 * _HOUR_S
_QUARTER_S = 900
_MOST_STALLS = 2
_DIAGNOSIS_S = 1.0
"""What all diagnoses of one tick may take; whoever pages later in it is told without."""
_PLACES = ("pool", "replica", "role", "service")


class Inquiry:
    """The questions of one tick; what two objectives want to know is asked once."""

    def __init__(self, reader: Reader, promises: Sequence[Definition] = ()) -> None:
        """Without `promises` nothing is diagnosed, as where the past is judged again."""
        self._reader = reader
        self._promises = promises
        self._left_s = _DIAGNOSIS_S
        self._told: dict[tuple[str, Window], tuple[str, ...]] = {}
        self._stood_still: dict[Labels, Sequence[Condition]] = {}
        self._answers: dict[tuple[str, Window, Labels, tuple[str, ...]], Sequence[Stages]] = {}

    def blame(self, course: Course, verdict: Verdict, *, at_s: int) -> Blame | None:
        """The guilty stage; None where there is none, or none could be asked: the page goes out."""
        indicator = course.definition.objective.indicator
        now, before = _windows(course, verdict, at_s)
        # why without the source: users' waits are explained by what the servers saw
        where = tuple((name, value) for name, value in indicator.where if name != "source")
        week_ago = Window(since_s=now.since_s - _WEEK_S, until_s=now.until_s - _WEEK_S)
        metric = stage_metric(indicator)
        if metric is None:
            return None
        try:
            here = self._stages(metric, now, where)
            earlier = self._stages(metric, before, where)
            if not any(each.stages for each in earlier):
                earlier = self._stages(metric, week_ago, where)
            replicas = self._stages(metric, now, where, _PLACES)
            behind = self._stalls(where, at_s)
        except StagewatchError:
            _LOG.exception("the guilty stage of %s is not known", course.definition.name)
            return None
        found = blame(metric, next(iter(here), None), next(iter(earlier), None), replicas)
        return replace(found, behind=behind)

    def explained(self, said: Notice, course: Course) -> Notice:
        """With the likeliest causes, where it says that something fires."""
        change = said.change
        if change.event is not Event.FIRING or change.verdict is None or not change.tell:
            return said
        return replace(said, diagnosis=self.diagnosis(course, change.verdict, at_s=change.at_s))

    def diagnosis(self, course: Course, verdict: Verdict, *, at_s: int) -> tuple[str, ...]:
        """At most three lines; none where it fails or the time of this tick is spent: a page waits for nothing."""
        indicator = course.definition.objective.indicator
        service = value_of(getattr(indicator, "where", ()), "service")
        if not self._promises or not service or self._left_s <= 0:
            return ()
        now, before = _windows(course, verdict, at_s)
        if (service, now) not in self._told:
            began_s = time.monotonic()
            try:
                self._told[service, now] = self._diagnosed(course, service, now, before.until_s)
            except Exception:  # noqa: BLE001 - why all: whatever is wrong with it, the page goes out
                _LOG.exception("%s could not be diagnosed", course.definition.name)
                self._told[service, now] = ()
            self._left_s -= time.monotonic() - began_s
        return self._told[service, now]

    def _diagnosed(
        self, course: Course, service: str, now: Window, calm_until_s: int
    ) -> tuple[str, ...]:
        broken = promised_by([course.definition], service)
        looked = around(self._reader, service, now, calm_until_s, broken)
        promised = promised_by(self._promises, service)
        found = diagnose_window(
            self._reader, service, looked, promised, at_s=now.until_s, budget_s=self._left_s
        )
        return lines(found)

    def _stalls(self, where: Labels, at_s: int) -> tuple[str, ...]:
        """Engines of the service that stood still in the last quarter of an hour."""
        service = tuple((name, value) for name, value in where if name == "service")
        if service not in self._stood_still:
            self._stood_still[service] = self._reader.conditions(
                at_s, where=service, kinds=(ConditionKind.STALLED,), over_within_s=_QUARTER_S
            )
        told = self._stood_still[service][:_MOST_STALLS]
        return tuple(sentence(each, at_s=at_s) for each in told)

    def _stages(
        self, metric: str, window: Window, where: Labels, by: tuple[str, ...] = ()
    ) -> Sequence[Stages]:
        """Where the time went; of promises on tokens, how long decoding took for each."""
        token = PER_TOKEN.get(metric, "")
        question = (token, window, where, by)
        if question not in self._answers:
            asked = Selection(window=window, where=where, by=by)
            self._answers[question] = (
                per_token(self._reader.latency(token, asked), window)
                if token
                else self._reader.stages(asked)
            )
        return self._answers[question]


def _windows(course: Course, verdict: Verdict, at_s: int) -> tuple[Window, Window]:
    """The minutes that burn, and the hour before the first of them."""
    limit = verdict.rule.factor * course.definition.objective.budget
    begin_s = at_s
    least_s = max(at_s - verdict.rule.long_s, course.history.begin_s)
    while begin_s > least_s:
        minute = course.history.at(begin_s - MINUTE_S)
        if minute.observed and not minute.total - minute.good_low > limit * minute.total:
            break
        begin_s -= MINUTE_S
    if begin_s == at_s:  # burning only in the sum: nothing to set apart
        begin_s = at_s - verdict.rule.short_s
    since_s = max(begin_s, at_s - verdict.rule.short_s)
    return (
        Window(since_s=since_s, until_s=at_s),
        Window(since_s=begin_s - _HOUR_S, until_s=begin_s),
    )
