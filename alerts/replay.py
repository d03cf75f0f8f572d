"""The evaluation that runs live, over minutes that are past or that somebody wrote down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from alerts.definition import Definition
from alerts.evaluator import Evaluator
from alerts.ledger import Standing
from alerts.recorded import RecordedMinutes
from alerts.scenario import Expectation, Scenario
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from domain.objective import Severity
from domain.slice import MINUTE_S, Slice

__all__ = ["Checked", "check", "replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One expectation, and what came of it in words."""

    expectation: Expectation
    kept: bool
    line: str


def replay(definition: Definition, slices: Sequence[Slice]) -> Iterator[Standing]:
    """How the promise stood after each of the minutes, by the evaluation that runs live."""
    if not slices:
        return
    state = open_state("sqlite://")
    reader = RecordedMinutes(slices)
    evaluator = Evaluator(reader, [definition], state, backfill=False)
    ledger = SqlLedger(state)
    reader.now_s = slices[0].minute_at_s
    evaluator.tick(reader.now_s)
    for each in slices:
        reader.now_s = each.minute_at_s + MINUTE_S
        evaluator.tick(reader.now_s)
        yield from ledger.standings(spark_s=0)
    state.dispose()


def check(scenario: Scenario) -> list[Checked]:
    """Each expectation against what the evaluation says, in order of time."""
    asked: dict[int, list[Expectation]] = {}
    for each in scenario.expectations:
        asked.setdefault(each.at, []).append(each)
    checked = []
    for at, standing in enumerate(replay(scenario.definition, scenario.slices)):
        checked += [_checked(each, standing) for each in asked.get(at, ())]
    return checked


def _checked(each: Expectation, standing: Standing) -> Checked:
    open_rules = [rule for rule in standing.rules if rule.alert.open]
    pages = [r for r in open_rules if r.verdict.rule.severity is Severity.PAGE]
    tickets = [r for r in open_rules if r.verdict.rule.severity is Severity.TICKET]
    tiers = {r.verdict.rule.name.rpartition("-")[2] for r in (pages if each.page else open_rules)}
    is_so: dict[str, object] = {
        "page": bool(pages),
        "ticket": bool(tickets),
        "stale": any(rule.alert.stale for rule in open_rules),
        "no_data": any("-no-data-" in alert_id for alert_id in standing.alert_ids),
    }
    asked = {name: getattr(each, name) for name in is_so if getattr(each, name) is not None}
    wrong = [f"{name} is {is_so[name]}" for name, value in asked.items() if is_so[name] != value]
    if each.tier is not None and (each.tier in tiers) != (each.page is not False):
        wrong.append(f"tiers are {', '.join(sorted(tiers)) or 'none'}")
    claim = ", ".join(f"{name} {value}".lower() for name, value in asked.items())
    tier = f", tier {each.tier}" if each.tier else ""
    verdict = f"FAILED: {'; '.join(wrong)}".lower() if wrong else "ok"
    line = f"minute {each.at} ({_clock(standing.evaluated_at_s)}): {claim}{tier}: {verdict}"
    if wrong:
        line += f". {standing.message}"
    return Checked(expectation=each, kept=not wrong, line=line)


def _clock(at_s: int) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%H:%M} UTC"
