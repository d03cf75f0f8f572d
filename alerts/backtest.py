"""What an objective would have paged: its past minutes through the evaluation that runs live.

`plan` holds what is written in a file against what is in force, each over the same minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from alerts.definition import Definition
from alerts.evaluator import Evaluator
from alerts.ledger import AlertRecord, Standing
from alerts.recorded import RecordedMinutes
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from domain.indicator import Indicator
from domain.slice import MINUTE_S, Slice, Tally, tally

__all__ = ["Backtest", "Planned", "Verb", "backtest", "plan"]

_MOST_ALERTS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Backtest:
    """The alerts that minutes would have raised, in order, and what they added up to."""

    definition: Definition
    since_s: int
    until_s: int
    alerts: Sequence[AlertRecord]
    counted: Tally
    standing: Standing

    def count(self, kind: str) -> int:
        """How many alerts of a severity (or `no-data`) began in the window."""
        return sum(_kind(alert) == kind for alert in self.alerts)


class Verb(StrEnum):
    """What a file would do to a promise."""

    ADD = "add"
    CHANGE = "change"
    KEEP = "keep"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """One promise: as it is in force and as the file has it, and what each would have paged."""

    id: str
    verb: Verb
    before: Backtest | None
    after: Backtest | None


Minutes = Callable[[Indicator], Sequence[Slice]]
"""The minutes of an indicator, lead-in and window, gapless and in order."""


def backtest(definition: Definition, slices: Sequence[Slice], *, since_s: int) -> Backtest:
    """Alerts that began at `since_s` or later; minutes before it only fill the windows."""
    state = open_state("sqlite://")
    try:
        reader = RecordedMinutes(slices)
        reader.now_s = slices[0].minute_at_s
        evaluator = Evaluator(reader, [definition], state, replaying=True)
        evaluator.tick(reader.now_s)
        reader.now_s = slices[-1].minute_at_s + MINUTE_S
        evaluator.tick(reader.now_s)
        ledger = SqlLedger(state)
        begun = [a.id for a in ledger.alerts(limit=_MOST_ALERTS) if a.started_at_s >= since_s]
        found = [alert for alert in map(ledger.alert, begun) if alert is not None]
        return Backtest(
            definition=definition,
            since_s=since_s,
            until_s=reader.now_s,
            alerts=sorted(found, key=lambda alert: alert.started_at_s),
            counted=tally(each for each in slices if each.minute_at_s >= since_s),
            standing=ledger.standings(spark_s=0)[0],
        )
    finally:
        state.dispose()


def plan(
    wanted: Iterable[Definition],
    in_force: Mapping[str, Definition],
    minutes: Minutes,
    *,
    since_s: int,
) -> list[Planned]:
    """Every promise of the file, then those that it would end."""
    planned = []
    rest = dict(in_force)
    for definition in wanted:
        before = rest.pop(definition.id, None)
        verb = Verb.ADD if before is None else Verb.KEEP if before == definition else Verb.CHANGE
        after = _tested(definition, minutes, since_s)
        planned.append(
            Planned(
                id=definition.id,
                verb=verb,
                before=after if verb is Verb.KEEP else _tested(before, minutes, since_s),
                after=after,
            )
        )
    ended = [
        Planned(id=gone.id, verb=Verb.REMOVE, before=_tested(gone, minutes, since_s), after=None)
        for gone in rest.values()
    ]
    return [*planned, *ended]


def _tested(definition: Definition | None, minutes: Minutes, since_s: int) -> Backtest | None:
    if definition is None:
        return None
    return backtest(definition, minutes(definition.objective.indicator), since_s=since_s)


def _kind(alert: AlertRecord) -> str:
    return alert.kind if alert.kind == "no-data" else alert.severity.value
