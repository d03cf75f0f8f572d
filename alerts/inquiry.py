"""Asks the query door which stage is at fault: the burning window against the hour before it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from alerts.blame import PER_TOKEN, Blame, blame, per_token, stage_metric, worst_region
from alerts.change import Change
from alerts.course import Course
from alerts.diagnosis.diagnosis import Diagnosis
from alerts.diagnosis.inquest import diagnose_window
from alerts.diagnosis.promises import Promised, promised_by
from alerts.diagnosis.rule import Confidence
from alerts.diagnosis.telling import lines
from alerts.diagnosis.windows import Looked, around
from alerts.diagnosis.wording import plain
from alerts.evaluate import Verdict
from alerts.incident import Event, Incident, Tier
from alerts.notice import Notice
from alerts.promise import Definition
from alerts.told_changes import ToldChanges
from collector.query import Reader, Selection, Series, Stages, Window
from domain.condition import Condition, ConditionKind, sentence
from domain.distribution import add_all
from domain.errors import StagewatchError
from domain.indicator import ConditionIndicator
from domain.labels import Labels, value_of
from domain.request import Stage
from domain.slice import MINUTE_S

__all__ = ["Inquiry"]

_LOG = logging.getLogger(__name__)
_HOUR_S = 3600
_WEEK_S = 7 * 24 * _HOUR_S
_QUARTER_S = 900
_MOST_STALLS = 2
_LONGEST = 200
_REFRESH_S = 300
_EXPLAINED = (Tier.PAGE, Tier.TICKET)
_DIAGNOSIS_S = 1.0
"""What all diagnoses of one tick may take; whoever pages later in it is told without."""
_PLACES = ("pool", "replica", "role", "service")


class Inquiry:
    """The questions of one tick; what two objectives want to know is asked once."""

    def __init__(
        self,
        reader: Reader,
        promises: Sequence[Definition] = (),
        events: ToldChanges | None = None,
    ) -> None:
        """Without `promises` nothing is diagnosed, as where the past is judged again."""
        self._reader = reader
        self._promises = promises
        self._events = events
        self._left_s = _DIAGNOSIS_S
        self._told: dict[tuple[str, Window, Sequence[Promised]], Diagnosis] = {}
        self._fired: dict[str, Diagnosis] = {}
        self._worst: dict[tuple[Labels, Window], str] = {}
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
            found = blame(metric, next(iter(here), None), next(iter(earlier), None), replicas)
            if found.stage is Stage.NETWORK:
                found = replace(found, place=worst_region(self._network_s(now, where)))
            behind = self._stalls(where, at_s)
        except StagewatchError:
            _LOG.exception("the guilty stage of %s is not known", course.definition.name)
            return None
        return replace(found, behind=behind)

    def again(self, course: Course, incident: Incident) -> Blame | None:
        """The blame of an open alert, asked for anew now and then; None: the one that is known stays."""
        verdict = course.verdict_of(incident.tier)
        if verdict is None or incident.stale or not _due(course, incident):
            return None
        return self.blame(course, verdict, at_s=course.evaluated_until_s)

    def diagnoses(self, course: Course, known: set[str]) -> Iterator[tuple[str, Diagnosis]]:
        """What was told of those that fire; of each open alert as soon as there is time, then anew.

        `known` are the alerts that have one, and are added to.
        """
        known.update(name for name, found in self._fired.items() if _sure(found))
        yield from self._fired.items()
        self._fired.clear()
        for incident in course.incidents.values():
            verdict = course.verdict_of(incident.tier)
            if verdict is None or incident.tier not in _EXPLAINED or incident.stale:
                continue
            if incident.id in known and not _due(course, incident):
                continue
            found = self.diagnosis(course, verdict, at_s=course.evaluated_until_s)
            if found is not None:
                young = course.evaluated_until_s - incident.started_at_s < _QUARTER_S
                if _sure(found) or not young:  # why: a minute later there may be enough requests
                    known.add(incident.id)
                yield incident.id, found

    def explained(self, said: Notice, course: Course) -> Notice:
        """With the likeliest causes, where it says that something fires."""
        change = said.change
        if change.event is not Event.FIRING or change.verdict is None or not change.tell:
            return said
        found = self.diagnosis(course, change.verdict, at_s=change.at_s)
        if found is None:
            return said
        self._fired[change.incident.id] = found
        if not found.causes:
            return said
        step = found.causes[0].next_step
        # why: one next step, and of two the one with evidence
        detail = said.detail.replace(f"Next: {said.next_step}.", f"Next: {plain(step)}.", 1)
        return replace(said, diagnosis=lines(found), detail=detail, next_step=step)

    def diagnosis(self, course: Course, verdict: Verdict, *, at_s: int) -> Diagnosis | None:
        """Why; None where no service is meant, or this tick has no time left: a page waits for nothing."""
        indicator = course.definition.objective.indicator
        if not self._promises or isinstance(indicator, ConditionIndicator):
            return None
        now, before = _windows(course, verdict, at_s)
        service = self._service(indicator.where, now)
        if not service:
            return None
        broken = tuple(promised_by([course.definition], service))
        question = service, now, broken  # two promises of a service are broken by different stages
        if question not in self._told and self._left_s > 0:
            looked = partial(around, self._reader, service, now, before.until_s, broken)
            self._told[question] = self._looked(course, service, now, looked)
        return self._told.get(question)

    def _looked(
        self, course: Course, service: str, now: Window, looked: Callable[[], Looked]
    ) -> Diagnosis:
        """The answer, or what kept us from it."""
        began_s = time.monotonic()
        try:
            return self._diagnosed(service, now, looked())
        except Exception as error:  # noqa: BLE001 - why all: whatever is wrong with it, the page goes out
            _LOG.exception("%s could not be diagnosed", course.definition.name)
            return Diagnosis(
                at_s=now.until_s,
                service=service,
                since_s=now.since_s,
                until_s=now.until_s,
                slow=True,
                trouble=f"{type(error).__name__}: {str(error)[:_LONGEST]}",
            )
        finally:
            self._left_s -= time.monotonic() - began_s

    def _diagnosed(self, service: str, now: Window, looked: Looked) -> Diagnosis:
        return diagnose_window(
            self._reader,
            service,
            looked,
            promised_by(self._promises, service),
            at_s=now.until_s,
            events=self._reported(service, now),
            budget_s=self._left_s,
        )

    def _reported(self, service: str, now: Window) -> Sequence[Change] | None:
        if self._events is None:
            return None
        where = (("service", service),)
        return self._events.between(now.since_s - _HOUR_S, now.until_s, where=where)

    def _service(self, where: Labels, now: Window) -> str:
        """The one that is promised; of a promise on several the one that holds most requests longest."""
        if named := value_of(where, "service"):
            return named
        if (where, now) not in self._worst:
            asked = Selection(window=now, where=where, by=("service",))
            told = {value_of(each.labels, "service"): each for each in self._reader.stages(asked)}
            self._worst[where, now] = max(told, key=lambda name: _burden(told[name]), default="")
        return self._worst[where, now]

    def _stalls(self, where: Labels, at_s: int) -> tuple[str, ...]:
        """Engines of the service that stood still in the last quarter of an hour."""
        service = tuple((name, value) for name, value in where if name == "service")
        if service not in self._stood_still:
            self._stood_still[service] = self._reader.conditions(
                at_s, where=service, kinds=(ConditionKind.STALLED,), over_within_s=_QUARTER_S
            )
        told = self._stood_still[service][:_MOST_STALLS]
        return tuple(sentence(each, at_s=at_s) for each in told)

    def _network_s(self, window: Window, where: Labels) -> dict[str, float]:
        """How much longer users of each region wait, on average, than the servers say.

        why not the stages by region: those are the servers' regions.
        """
        server_s = self._mean_s(self._reader.latency("ttft", Selection(window=window, where=where)))
        own = (*where, ("source", "client"))
        asked = Selection(window=window, where=own, by=("region",))
        means_s = {
            value_of(each.labels, "region"): self._mean_s([each])
            for each in self._reader.latency("ttft", asked)
        }
        if server_s is None:
            return {}
        return {
            region: max(mean_s - server_s, 0.0)
            for region, mean_s in means_s.items()
            if mean_s is not None
        }

    @staticmethod
    def _mean_s(series: Sequence[Series]) -> float | None:
        return add_all(point.distribution for each in series for point in each.points).mean_s

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


def _sure(found: Diagnosis) -> bool:
    """Nothing more is to be expected of asking again soon."""
    return not found.hurried and any(
        each.confidence is Confidence.HIGH for each in found.causes[:1]
    )


def _due(course: Course, incident: Incident) -> bool:
    return (course.evaluated_until_s - incident.started_at_s) % _REFRESH_S == 0


def _burden(stages: Stages) -> tuple[int, float]:
    """Answers that failed, then the seconds that all waited for their first tokens."""
    return stages.flow.failed or 0, stages.ttft.sum_s or 0.0


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
