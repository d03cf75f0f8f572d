"""The tick: every minute that has closed is judged once, in order, and what changes is written down.

A minute is closed when every live source has passed it (the reader's watermark), or `grace_s`
after its end; of a source that settles late, when it has settled. Missed ticks are made up for,
minute by minute. A step is one transaction; if it does not commit, memory is thrown away and read
again, so that a crash at any point loses nothing.
An objective whose minutes cannot be read holds up no other; its standing says so.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from alerts.blame import NOT_ASKED, Blame
from alerts.budget_records import newer_resets, spending
from alerts.course import Course
from alerts.diagnosed import keep_diagnoses
from alerts.diagnosis.diagnosis import Diagnosis
from alerts.evidence import Evidence, evidence, keep
from alerts.incident import Change, Event, Incident, worth_telling
from alerts.inquiry import Inquiry
from alerts.loop import Loop
from alerts.minute_source import MinuteSource, Told
from alerts.notice import Notice, notice, record, refresh, retire
from alerts.promise import Composite, Definition
from alerts.records import (
    deactivate,
    forget,
    leaving,
    load_course,
    save_composites,
    save_courses,
    save_minutes,
    turn_back,
)
from alerts.settings import AlertsSettings
from alerts.tables import writing
from alerts.told_changes import ToldChanges
from collector.query import Reader, Window
from domain.errors import StoreError
from domain.own_work import own_work
from domain.slice import MINUTE_S, Slice

__all__ = ["Evaluator"]

_LOG = logging.getLogger(__name__)
_HOUR_S = 3600
_STEP_S = 12 * _HOUR_S
_FIRST_FILL_S = 6 * _HOUR_S
_FIRST_STEP_S = _HOUR_S
_FILL_S = 24 * _HOUR_S
_FILL_LEAST_S = 600
_LIVE_S = 180
_AHEAD_S = 120


@dataclass(slots=True)
class _Step:
    """What one step has found, to be written down at once."""

    fresh: list[tuple[Course, list[Slice]]] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    accused: list[tuple[Course, Incident, Blame | None]] = field(default_factory=list)
    diagnosed: list[tuple[str, Diagnosis]] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)


class Evaluator:
    """Walks all objectives through time. One thread calls `tick`; readers use the ledger.

    `replaying`: the minutes are past, so none was slept through and none is asked for from before.
    `fill_s`: how long a tick may spend on the past of a promise that is new.
    """

    def __init__(
        self,
        reader: Reader,
        objectives: Sequence[Definition],
        state: Engine,
        *,
        settings: AlertsSettings | None = None,
        wake: Callable[[], None] = lambda: None,
        replaying: bool = False,
        composites: Sequence[Composite] = (),
        fill_s: float = 0.2,
    ) -> None:
        self._fill_s = fill_s
        self._reader = reader
        self._definitions = objectives
        self._state = state
        self._settings = settings or AlertsSettings()
        self._wake = wake
        self._source = MinuteSource(reader, grace_s=self._settings.grace_s)
        self._replaying = replaying
        self._composites = composites
        self._courses: list[Course] = []
        self._loaded = False
        self._leaving: dict[str, tuple[int, dict[int, Slice]]] = {}
        self._closed: dict[str, int] = {}
        self._reset_id = 0
        self._forgotten_s = 0.0
        self._pastless: set[str] = set()
        self._diagnosed: set[str] = set()
        self._loop = Loop("evaluator", self.tick)

    @property
    def courses(self) -> Sequence[Course]:
        """Where each objective stands; for tests and replay."""
        return self._courses

    def run(
        self,
        stop: threading.Event,
        *,
        clock: Callable[[], float] = time.time,
        cadence_s: float = 1.0,
    ) -> None:
        """Ticks until told to stop. A tick that fails is logged and tried again."""
        self._loop.run(stop, clock=clock, cadence_s=cadence_s)

    def problem(self) -> str | None:
        """Why nothing is judged now, or None."""
        return self._loop.problem()

    def tick(self, now_s: float) -> list[Change]:
        """Judges every minute that has closed by now; the changes, in order."""
        until_s = self._source.closed_s(now_s)
        self._closed = {
            each.id: self._source.closed_for_s(each.objective.indicator, now_s, until_s)
            for each in self._definitions
        }
        changes: list[Change] = []
        try:
            if not self._loaded:
                self._load(until_s, now_s)
            if any(each.evaluated_until_s > now_s + _AHEAD_S for each in self._courses):
                self._turn_back(until_s, now_s)
            self._heed_resets()
            failed: dict[str, Exception] = {}
            while due := self._due(failed):
                with own_work("evaluate", {"stagewatch.objectives": len(due)}):
                    changes += self._step(due, now_s, failed)
            self._check(failed)
            self._fill()
            self._forget(now_s)
        except BaseException:
            self._loaded = False  # why: memory may be ahead of the tables
            raise
        return changes

    def _due(self, failed: Mapping[str, Exception]) -> list[Course]:
        return [
            course
            for course in self._courses
            if course.evaluated_until_s < self._closed[course.definition.id]
            and course.definition.id not in failed
        ]

    def _heed_resets(self) -> None:
        """Budgets that somebody has begun anew since the last look."""
        with Session(self._state) as session:
            found, newest = newer_resets(session, self._reset_id)
        self._reset_id = newest
        concerned = [each for each in self._courses if each.definition.id in found]
        if not concerned:
            return
        with writing(self._state) as session, session.begin():
            for course in concerned:
                course.reset_s = found[course.definition.id]
                course.spending = spending(session, course)
            save_courses(session, concerned)

    def _check(self, failed: Mapping[str, Exception]) -> None:
        """Where all fail, it is the tick that does."""
        if failed and len(failed) == len(self._courses):
            raise next(iter(failed.values()))

    def _load(self, until_s: int, now_s: float) -> None:
        with writing(self._state) as session, session.begin():
            gone = deactivate(session, [each.id for each in self._definitions])
            for row in gone:
                retire(session, row, self._settings.receivers, at_s=until_s, now_s=now_s)
            self._courses = [
                load_course(session, each, until_s=self._closed[each.id] - MINUTE_S)
                for each in self._definitions
            ]
            _, self._reset_id = newer_resets(session, 0)
            save_courses(session, self._courses)
            save_composites(session, self._composites)
        self._leaving = {}
        self._diagnosed.clear()  # why: what was known of a step that failed was never written
        self._loaded = True
        self._fill_first()

    def _fill_first(self) -> None:
        """The last hours of what is new, so that no window is judged by its newest minutes alone."""
        new = [each for each in self._courses if each.filled_from_s == each.evaluated_until_s]
        for _ in range(_FIRST_FILL_S // _FIRST_STEP_S):
            self._fill_all([each for each in new if self._wants_past(each)], _FIRST_STEP_S)

    def _turn_back(self, until_s: int, now_s: float) -> None:
        """The clock was wrong and is set back: minutes judged before they were are judged again.

        Without it nothing is judged, and nobody paged, until the clock gets there once more.
        """
        _LOG.warning("the clock went back: what lies after %s is judged again", until_s)
        with writing(self._state) as session, session.begin():
            for course in self._courses:
                turn_back(session, course, until_s=until_s)
        self._load(until_s, now_s)

    def _step(
        self, due: Sequence[Course], now_s: float, failed: dict[str, Exception]
    ) -> list[Change]:
        """At most half a day of minutes of every objective, in one transaction."""
        promises = () if self._replaying else self._definitions
        inquiry = Inquiry(self._reader, promises, ToldChanges(self._state))
        step = _Step()
        windows = [self._window(course) for course in due]
        indicators = [course.definition.objective.indicator for course in due]
        told = self._source.minutes_of(zip(indicators, windows, strict=True))
        for course, slices in zip(due, told, strict=True):
            try:
                changes = self._advance(course, slices, step, now_s)
            except StoreError:
                raise  # why: it is everybody's
            except Exception as error:  # noqa: BLE001 - why all: it is this objective's alone
                failed[course.definition.id] = error
                continue
            course.trouble = ""
            newest_s = min(now_s, self._closed[course.definition.id])
            step.notices += [
                inquiry.explained(
                    notice(course, change, self._blame(inquiry, course, change)), course
                )
                for change in worth_telling(changes, newest_s)
            ]
            step.accused += [
                (course, incident, self._blamed(inquiry, course, incident, step.notices))
                for incident in course.incidents.values()
            ]
            step.diagnosed += inquiry.diagnoses(course, self._diagnosed)
        with writing(self._state) as session, session.begin():
            save_minutes(session, step.fresh)
            save_courses(session, [course for course, _ in step.fresh])
            self._write(session, step, now_s)
            self._set_aside(session, failed)
        if step.notices:
            self._wake()
        return [each.change for each in step.notices]

    def _set_aside(self, session: Session, failed: Mapping[str, Exception]) -> None:
        """What failed stands where it stood, and says why."""
        for place, course in enumerate(self._courses):
            error = failed.get(course.definition.id)
            if error is None:
                continue
            said = str(error) or type(error).__name__
            if course.trouble != said:
                _LOG.error("%s cannot be judged", course.definition.name, exc_info=error)
            # why anew: what failed half-way may have changed what is in memory
            self._courses[place] = load_course(
                session, course.definition, until_s=course.evaluated_until_s
            )
            self._courses[place].trouble = said
        save_courses(session, [each for each in self._courses if each.definition.id in failed])

    def _write(self, session: Session, step: _Step, now_s: float) -> None:
        link = self._settings.public_url.rstrip("/")
        for said in step.notices:
            record(
                session,
                said,
                self._settings.receivers,
                link=link,
                now_s=now_s,
                escalation=self._settings.escalation,
            )
        for course, incident, blame in step.accused:
            refresh(session, course, incident, blame)
        keep(session, step.evidence)
        keep_diagnoses(session, step.diagnosed)

    def _window(self, course: Course) -> Window:
        """The minutes to be judged, and those before them that may have changed."""
        since_s = course.evaluated_until_s
        until_s = min(self._closed[course.definition.id], since_s + _STEP_S)
        again_s = max(since_s - self._settings.lateness_s, course.history.begin_s)
        again_s = min(max(again_s, course.filled_from_s), since_s) // MINUTE_S * MINUTE_S
        return Window(since_s=again_s, until_s=until_s)

    def _advance(self, course: Course, slices: Told, step: _Step, now_s: float) -> list[Change]:
        """What the minutes that are new or late change."""
        if isinstance(slices, Exception):
            raise slices
        since_s = course.evaluated_until_s
        closed_s = self._closed[course.definition.id]
        live_s = min(now_s - self._settings.grace_s, closed_s) - _LIVE_S
        fresh = course.amend([each for each in slices if each.minute_at_s < since_s])
        changes: list[Change] = []
        for each in slices:
            if each.minute_at_s >= since_s:
                live = self._replaying or each.minute_at_s >= live_s
                found = course.advance(each, self._leaves(course), live=live)
                fresh.append(each)
                if found:
                    changes += found
                    seen = (evidence(course, change) for change in found)
                    step.evidence += [each for each in seen if each is not None]
        step.fresh.append((course, fresh))
        return changes

    def _leaves(self, course: Course) -> list[Slice]:
        """The minutes that the budget loses with the next one; read an hour at a time."""
        gone = course.leaving_s
        first_s = course.counted_since_s
        if not gone or first_s is None or gone[-1] < first_s:
            return []
        until_s, known = self._leaving.get(course.definition.id, (0, {}))
        if gone[-1] >= until_s:
            until_s = gone[0] + _HOUR_S
            with Session(self._state) as session:
                found = leaving(session, course, gone[0], until_s)
            known = {each.minute_at_s: each for each in found}
            self._leaving[course.definition.id] = until_s, known
        return [known[at_s] for at_s in gone if at_s in known]

    def _wants_past(self, course: Course) -> bool:
        if self._replaying or course.definition.id in self._pastless:
            return False
        wanted_s = min(course.period_begin_s, course.history.begin_s)
        return course.filled_from_s > max(wanted_s, course.definition.since_s or 0)

    def _fill(self) -> None:
        """Asks the reader for minutes from before an objective was promised, a little per tick."""
        began_s = time.monotonic()
        while wanting := [each for each in self._courses if self._wants_past(each)]:
            newest_s = max(each.filled_from_s for each in wanting)
            some = [each for each in wanting if each.filled_from_s == newest_s]
            length_s = max(_FILL_S // len(some), _FILL_LEAST_S) // MINUTE_S * MINUTE_S
            self._fill_all(some, length_s)
            if time.monotonic() - began_s >= self._fill_s:
                return

    def _fill_all(self, courses: Sequence[Course], length_s: int) -> None:
        """So many more seconds of the past of each; what many of them share is read once."""
        windows = [
            Window(since_s=each.filled_from_s - length_s, until_s=each.filled_from_s)
            for each in courses
        ]
        wanted = zip(
            (each.definition.objective.indicator for each in courses), windows, strict=True
        )
        told = self._source.minutes_of(wanted)
        found = []
        for course, window, slices in zip(courses, windows, told, strict=True):
            if isinstance(slices, Exception):
                _LOG.error("the past of %s cannot be read", course.definition.name, exc_info=slices)
                self._pastless.add(course.definition.id)
                continue
            found.append((course, course.amend(slices)))
            course.filled_from_s = window.since_s
        if found:
            with writing(self._state) as session, session.begin():
                save_minutes(session, found)
                save_courses(session, [course for course, _ in found])

    def _forget(self, now_s: float) -> None:
        if now_s - self._forgotten_s < _HOUR_S:
            return
        before_s = int(now_s) - self._settings.slices_retention_days * 24 * _HOUR_S
        with writing(self._state) as session, session.begin():
            forget(session, self._courses, before_s=before_s)
        self._forgotten_s = now_s

    def _blame(self, inquiry: Inquiry, course: Course, change: Change) -> Blame | None:
        """The guilty stage; nobody is asked of minutes that are replayed, so nobody is accused."""
        if self._replaying:
            return NOT_ASKED
        if change.event is Event.RESOLVED or change.verdict is None:
            return None
        return inquiry.blame(course, change.verdict, at_s=change.at_s)

    def _blamed(
        self, inquiry: Inquiry, course: Course, incident: Incident, notices: Sequence[Notice]
    ) -> Blame | None:
        """The blame just found, or asked for anew; None: the one that is known stays."""
        for said in notices:
            if said.change.incident.id == incident.id:
                return said.blame
        return None if self._replaying else inquiry.again(course, incident)
