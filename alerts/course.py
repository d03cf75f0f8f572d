"""One objective on its way through time: minute after minute in, verdicts and changes out.

Live evaluation, scenarios and replay all walk this one path. Nothing here reads a clock or a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from alerts.definition import Definition
from alerts.evaluate import Verdict, judge
from alerts.history import History, Spending
from alerts.incident import NO_DATA, Change, Incident, Tier, decisive, incidents_after
from alerts.state import QUIET, Alert, Timers, after, after_silence
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

    `trouble`: why the minutes after it could not be judged.
    """

    stretches: Sequence[Stretch]
    history: History
    evaluated_until_s: int
    filled_from_s: int
    spending: Spending = field(default_factory=Spending)
    observed_at_s: int | None = None
    counted_since_s: int | None = None
    alerts: dict[str, Alert] = field(default_factory=dict)
    incidents: dict[Tier, Incident] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()
    saved_alerts: dict[str, Alert] = field(default_factory=dict)
    trouble: str = ""

    @property
    def definition(self) -> Definition:
        return self.stretches[-1].definition

    @property
    def series_id(self) -> int:
        return self.stretches[-1].series_id

    @property
    def period_begin_s(self) -> int:
        return self.evaluated_until_s - self.definition.objective.period_s

    @property
    def last_hour(self) -> Tally:
        return self.history.tally(_HOUR_S, self.evaluated_until_s)

    def verdict_of(self, tier: Tier) -> Verdict | None:
        """What an incident of that tier rests on now."""
        return decisive(self.verdicts, self.alerts, tier)

    def stretch_at(self, minute_at_s: int) -> Stretch:
        """What was in force in that minute."""
        return next(
            (each for each in reversed(self.stretches) if each.since_s <= minute_at_s),
            self.stretches[0],
        )

    def advance(self, each: Slice, leaving: Sequence[Slice], *, live: bool) -> list[Change]:
        """The next minute: counted, judged, and what it changes. `leaving`: too old for the period."""
        self.history.extend(each)
        self._spend(each)
        for old in leaving:
            self._spend(old, sign=-1)
        self.evaluated_until_s = each.minute_at_s + MINUTE_S
        if each.observed:
            self.observed_at_s = self.evaluated_until_s
        self._judge(observed=each.observed)
        self._watch_silence(observed=each.observed, live=live)
        self.incidents, changes = incidents_after(
            self.definition, self.incidents, self.alerts, self.verdicts, at_s=self.evaluated_until_s
        )
        return changes

    def amend(self, late: Sequence[Slice]) -> list[Slice]:
        """Late or older minutes: those that differ from what is known, now counted as they are.

        They change sums and budget; what was judged stays judged.
        """
        differing = [each for each in late if each.observed and self._differs(each)]
        for each in differing:
            if each.minute_at_s >= self.period_begin_s and self._in_force(each):
                if each.minute_at_s >= self.history.begin_s:
                    self._spend(self.history.at(each.minute_at_s), sign=-1)
                self._spend(each)
            ends_s = each.minute_at_s + MINUTE_S
            self.observed_at_s = max(self.observed_at_s or ends_s, ends_s)
        self.history.amend(differing)
        return differing

    def _in_force(self, each: Slice) -> bool:
        """Not a minute that an earlier query has counted already."""
        return self.stretch_at(each.minute_at_s).series_id == self.series_id

    def _differs(self, each: Slice) -> bool:
        if each.minute_at_s < self.history.begin_s:
            return True
        known = self.history.at(each.minute_at_s)
        return (known.good_low, known.good_high, known.total, known.observed) != (
            each.good_low,
            each.good_high,
            each.total,
            each.observed,
        )

    def _spend(self, each: Slice, *, sign: int = 1) -> None:
        if each.observed and (
            self.counted_since_s is None or each.minute_at_s < self.counted_since_s
        ):
            self.counted_since_s = each.minute_at_s
        stretch = self.stretch_at(each.minute_at_s)
        self.spending.add(each, stretch.definition.objective.budget, sign=sign)

    def _judge(self, *, observed: bool) -> None:
        at_s, objective = self.evaluated_until_s, self.definition.objective
        self.verdicts = tuple(
            judge(
                objective,
                rule,
                long=self.history.tally(rule.long_s, at_s),
                short=self.history.tally(rule.short_s, at_s),
                observed=observed,
            )
            for rule in self.definition.rules
        )
        for verdict in self.verdicts:
            before = self.alerts.get(verdict.rule.name, QUIET)
            self.alerts[verdict.rule.name] = after(
                before, verdict, self.definition.timers, at_s=at_s
            )

    def _watch_silence(self, *, observed: bool, live: bool) -> None:
        if self.definition.no_data is None:
            self.alerts.pop(NO_DATA, None)
            return
        # why one minute less: the first minute of silence has passed when it is judged
        waits_s = max(self.definition.no_data_after_s - MINUTE_S, 0)
        self.alerts[NO_DATA] = after_silence(
            self.alerts.get(NO_DATA, QUIET),
            Timers(for_s=waits_s),
            observed=observed,
            known=self.observed_at_s is not None,
            live=live,
            at_s=self.evaluated_until_s,
        )


def history_minutes(definition: Definition) -> int:
    """How many minutes the rules of a definition look back."""
    return max((_HOUR_S, *(rule.long_s for rule in definition.rules))) // MINUTE_S
