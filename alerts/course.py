"""One objective on its way through time: minute after minute in, verdicts and changes out.

Live evaluation, scenarios and replay all walk this one path. Nothing here reads a clock or a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from alerts.budget import LEVELS, Budget, after_level
from alerts.counting import Exclusion, budget_at, counted, maintenance_at
from alerts.evaluate import Limit, Verdict, judge, limit_of
from alerts.history import History, Spending
from alerts.incident import NO_DATA, Change, Incident, Tier, decisive, incidents_after
from alerts.maintenance import Maintenance
from alerts.promise import Definition
from alerts.state import QUIET, Alert, Timers, after, after_condition, after_silence
from domain.slice import MINUTE_S, Slice, Tally

__all__ = ["Course", "Stretch", "history_minutes"]

_HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """From `since_s` on this definition was in force and its minutes were kept in `series_id`."""

    since_s: int
    series_id: int
    revision_id: int
    definition: Definition


@dataclass(slots=True, kw_only=True)
class Course:
    """What is known of one objective after the minute that ended at `evaluated_until_s`.

    `trouble`: why the minutes after it could not be judged. `reset_s`: when somebody said that the
    budget begins anew. `exclusions`: maintenance so far, by name and beginning.
    """

    stretches: Sequence[Stretch]
    history: History
    evaluated_until_s: int
    filled_from_s: int
    spending: Spending = field(default_factory=Spending)
    observed_at_s: int | None = None
    counted_since_s: int | None = None
    reset_s: int | None = None
    alerts: dict[str, Alert] = field(default_factory=dict)
    incidents: dict[Tier, Incident] = field(default_factory=dict)
    saved_alerts: dict[str, Alert] = field(default_factory=dict)
    exclusions: dict[tuple[str, int], Exclusion] = field(default_factory=dict)
    trouble: str = ""
    _seen: bool = True
    _verdicts: tuple[Verdict, ...] | None = None
    _noted: bool = True
    _begin_s: int = 0
    _looked: tuple[object, ...] = ()
    _granted: tuple[Definition, Fraction] | None = None
    _period: tuple[int, int] = (0, 0)
    _judged_by: tuple[tuple[Fraction, int], tuple[Limit, ...]] | None = None

    @property
    def definition(self) -> Definition:
        return self.stretches[-1].definition

    @property
    def series_id(self) -> int:
        return self.stretches[-1].series_id

    @property
    def period_begin_s(self) -> int:
        return self.definition.objective.period_begin_s(self.evaluated_until_s)

    @property
    def budget_begin_s(self) -> int:
        """Where the present budget began: by its period, its start, or a reset."""
        return self._budget_begin_s(self.evaluated_until_s)

    @property
    def budget(self) -> Budget:
        at_s, begin_s = self.evaluated_until_s, self.budget_begin_s
        objective = self.definition.objective
        return Budget(
            allowed=self.spending.allowed,
            spent_low=self.spending.spent_low,
            spent_high=self.spending.spent_high,
            total=self.spending.total,
            period_s=objective.period_length_s(at_s),
            counted_since_s=self.counted_since_s,
            begin_s=begin_s,
            at_s=at_s,
            end_s=objective.period_end_s(at_s),
            excluded_minutes=sum(
                each.minutes_within(begin_s, at_s) for each in self.exclusions.values()
            ),
        )

    @property
    def last_hour(self) -> Tally:
        return self.history.tally(_HOUR_S, self.evaluated_until_s)

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Every rule on the newest minute."""
        if self._verdicts is None:
            self._verdicts = tuple(self._verdict(limit) for limit in self._limits)
        return self._verdicts

    @property
    def leaving_s(self) -> range:
        """The minutes that the budget loses with the next one; a calendar loses all, or none."""
        if self.definition.objective.calendar is not None:
            return range(0)
        next_s = self.evaluated_until_s + MINUTE_S
        return range(self.budget_begin_s, self._budget_begin_s(next_s), MINUTE_S)

    def verdict_of(self, tier: Tier) -> Verdict | None:
        """What an incident of that tier rests on now."""
        return decisive(self.verdicts, self.alerts, tier)

    def stretch_at(self, minute_at_s: int) -> Stretch:
        """What was in force in that minute."""
        if self.stretches[-1].since_s <= minute_at_s:
            return self.stretches[-1]
        return next(
            (each for each in reversed(self.stretches) if each.since_s <= minute_at_s),
            self.stretches[0],
        )

    def count(self, each: Slice) -> Slice:
        """The minute as it counts: as promised then, in the unit that is promised now."""
        definition = self.stretch_at(each.minute_at_s).definition
        return counted(definition, each, self.definition.objective.slices)

    def advance(self, each: Slice, leaving: Sequence[Slice], *, live: bool) -> list[Change]:
        """The next minute: counted, judged, and what it changes. `leaving`: too old for the period."""
        whole = self.count(each)
        self.history.extend(whole)
        self._move(whole, leaving)
        if each.observed:
            self.observed_at_s = self.evaluated_until_s
        self._seen, self._verdicts = whole.observed, None
        maintenance = maintenance_at(self.definition, each.minute_at_s)
        if maintenance is not None:
            self._set_aside(maintenance, each.minute_at_s)
            return []  # why: maintenance neither raises nor ends anything
        self._judge()
        self._watch_silence(observed=each.observed, live=live)
        self._watch_budget()
        return self._changes()

    def amend(self, late: Sequence[Slice]) -> list[Slice]:
        """Late or older minutes: those that differ from what is known, now counted as they are.

        They change sums and budget; what was judged stays judged.
        """
        differing = []
        for each in late:
            if not each.observed:
                continue
            whole = self.count(each)
            if self._differs(whole):
                differing.append((each, whole))
                self._amend(whole)
            elif self.definition.objective.slices is not None:
                # why: a minute may be as good as it was although its requests are not
                differing.append((each, whole))
        self.history.amend([whole for _, whole in differing])
        if differing:
            self._verdicts = None
        return [each for each, _ in differing]

    def _amend(self, whole: Slice) -> None:
        at_s = whole.minute_at_s
        if at_s >= self.budget_begin_s and self._in_force(whole):
            if at_s >= self.history.begin_s:
                self._spend(self.history.at(at_s), sign=-1)
            self._spend(whole)
        maintenance = maintenance_at(self.stretch_at(at_s).definition, at_s)
        if maintenance is not None:
            self._set_aside(maintenance, at_s)
        self.observed_at_s = max(self.observed_at_s or 0, at_s + MINUTE_S)

    def _in_force(self, each: Slice) -> bool:
        """Not a minute that an earlier query has counted already."""
        return self.stretch_at(each.minute_at_s).series_id == self.series_id

    def _differs(self, whole: Slice) -> bool:
        if whole.minute_at_s < self.history.begin_s:
            return True
        return self.history.row(whole.minute_at_s) != (
            whole.good_low,
            whole.good_high,
            whole.total,
            int(whole.observed),
        )

    def _move(self, whole: Slice, leaving: Sequence[Slice]) -> None:
        """One minute on: into the budget with the new one, out of it with what is too old."""
        begun_s = self.budget_begin_s
        self.evaluated_until_s = whole.minute_at_s + MINUTE_S
        begin_s = self._begin_s = self.budget_begin_s
        if begin_s > begun_s and self.definition.objective.calendar is not None:
            self.spending = Spending()
        for old in leaving:
            self._spend(self.count(old), sign=-1)
        if whole.minute_at_s >= begin_s:
            self._spend(whole)

    def _spend(self, whole: Slice, *, sign: int = 1) -> None:
        at_s = whole.minute_at_s
        if whole.observed and (self.counted_since_s is None or at_s < self.counted_since_s):
            self.counted_since_s = at_s
        if whole.total:
            self.spending.add(whole, self._budget_at(at_s), sign=sign)

    def _budget_at(self, minute_at_s: int) -> Fraction:
        definition = self.stretch_at(minute_at_s).definition
        if definition.changes:
            return budget_at(definition, minute_at_s)
        if self._granted is None or self._granted[0] is not definition:
            self._granted = definition, definition.objective.budget
        return self._granted[1]

    def _set_aside(self, maintenance: Maintenance, minute_at_s: int) -> None:
        begin_s = (maintenance.next(minute_at_s) or (minute_at_s,))[0]
        key = maintenance.name, begin_s
        until_s = minute_at_s + MINUTE_S
        known = self.exclusions.get(key)
        self.exclusions[key] = Exclusion(
            name=maintenance.name,
            since_s=begin_s,
            until_s=until_s if known is None else max(known.until_s, until_s),
            reason=maintenance.reason,
        )

    def _budget_begin_s(self, at_s: int) -> int:
        first_s = max(self.definition.since_s or 0, self.reset_s or 0)
        return max(first_s, self._period_begin_s(at_s))

    def _period_begin_s(self, at_s: int) -> int:
        """Of a calendar found once per period: zones are slow."""
        objective = self.definition.objective
        if objective.calendar is None:
            return at_s - objective.period_s
        if not self._period[0] <= at_s < self._period[1]:
            self._period = (objective.calendar.begin_s(at_s), objective.calendar.end_s(at_s))
        return self._period[0]

    @property
    def now(self) -> Definition:
        """With the target that is in force in the newest minute."""
        definition = self.definition
        if not definition.changes:
            return definition
        return definition.in_force(self.evaluated_until_s - MINUTE_S)

    @property
    def _limits(self) -> tuple[Limit, ...]:
        """Of every rule, by the target in force; made anew only where that has changed."""
        now = self.now
        key = (now.objective.target, now.objective.period_s)
        if self._judged_by is None or self._judged_by[0] != key:
            limits = tuple(limit_of(now.objective, rule, now.clear) for rule in now.rules)
            self._judged_by = key, limits
        return self._judged_by[1]

    def _verdict(self, limit: Limit) -> Verdict:
        at_s = self.evaluated_until_s
        return judge(
            limit,
            long=self.history.tally(limit.rule.long_s, at_s),
            short=self.history.tally(limit.rule.short_s, at_s),
            observed=self._seen,
        )

    def _judge(self) -> None:
        for limit in self._limits:
            name = limit.rule.name
            before = self.alerts.get(name, QUIET)
            # why: a settled alert changes only by a burn, and that is one comparison
            if before.settled and not (self._seen and self._burning(limit)):
                continue
            timers, at_s = self.definition.timers, self.evaluated_until_s
            if before.open:
                held = self._held(limit) if self._seen else None
                self.alerts[name] = after_condition(before, timers, holds=held, at_s=at_s)
            else:
                self.alerts[name] = after(before, self._verdict(limit), timers, at_s=at_s)

    def _burning(self, limit: Limit) -> bool:
        rule, newest = limit.rule, self.history.newest
        return limit.exceeded(
            *newest(rule.short_s // MINUTE_S, surely=limit.surely)
        ) and limit.exceeded(*newest(rule.long_s // MINUTE_S, surely=limit.surely))

    def _held(self, limit: Limit) -> bool:
        """Whether an alert that is open goes on."""
        rule, newest = limit.rule, self.history.newest
        return limit.held(*newest(rule.short_s // MINUTE_S, surely=limit.surely)) and limit.held(
            *newest(rule.long_s // MINUTE_S, surely=limit.surely)
        )

    def _watch_silence(self, *, observed: bool, live: bool) -> None:
        if self.definition.no_data is None:
            self.alerts.pop(NO_DATA, None)
            return
        before = self.alerts.get(NO_DATA, QUIET)
        if observed and before.settled:
            return
        # why one minute less: the first minute of silence has passed when it is judged
        waits_s = max(self.definition.no_data_after_s - MINUTE_S, 0)
        self.alerts[NO_DATA] = after_silence(
            before,
            Timers(for_s=waits_s),
            observed=observed,
            known=self.observed_at_s is not None,
            live=live,
            at_s=self.evaluated_until_s,
        )

    def _watch_budget(self) -> None:
        if not self.definition.notes:
            for level in LEVELS:
                self.alerts.pop(level.name, None)
            return
        at_s, begin_s = self.evaluated_until_s, self._begin_s
        counted_s = at_s - max(begin_s, self.counted_since_s or begin_s)
        left, whole = self.spending.left(counted_s, self.definition.objective.period_length_s(at_s))
        if not whole or counted_s <= 0 or (2 * left > whole and not self._noted):
            return
        for level in LEVELS:
            before = self.alerts.get(level.name, QUIET)
            now = after_level(before, level, left, whole, at_s=at_s)
            if now is not before:
                self.alerts[level.name] = now
        self._noted = any(self.alerts.get(level.name, QUIET).open for level in LEVELS)

    def _changes(self) -> list[Change]:
        if not self.incidents and not any(each.open for each in self.alerts.values()):
            return []
        if self._as_looked():
            return []
        self.incidents, changes = incidents_after(
            self.now, self.incidents, self.alerts, self.verdict_of, at_s=self.evaluated_until_s
        )
        self._looked = self._look
        return changes

    @property
    def _look(self) -> tuple[object, ...]:
        """All that incidents come from."""
        seen = [(name, each.open, each.stale) for name, each in self.alerts.items()]
        return self.incidents, self._limits, seen

    def _as_looked(self) -> bool:
        """Whether nothing has changed since: by far the most minutes of a long outage."""
        if not self._looked:
            return False
        incidents, limits, seen = self._look
        return (
            incidents is self._looked[0] and limits is self._looked[1] and seen == self._looked[2]
        )


def history_minutes(definition: Definition) -> int:
    """How many minutes the rules of a definition look back."""
    regimes = [definition, *(definition.in_force(each.since_s) for each in definition.changes)]
    return max((_HOUR_S, *(r.long_s for each in regimes for r in each.rules))) // MINUTE_S
