"""The evaluation that runs live, over minutes that are past or that somebody wrote down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from alerts.definition import Definition
from alerts.evaluator import Evaluator
from alerts.ledger import Standing
from alerts.recorded import RecordedMinutes
from alerts.records import save_minutes
from alerts.scenario import Expectation, Scenario
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state, writing
from domain.objective import Severity
from domain.slice import MINUTE_S, Slice

__all__ = ["Checked", "check", "replay"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """One expectation, and what came of it in words."""

    expectation: Expectation
    kept: bool
    line: str


def replay(
    definition: Definition,
    slices: Sequence[Slice],
    *,
    at: Iterable[int],
    past: Sequence[Slice] = (),
) -> Iterator[tuple[int, Standing]]:
    """How the promise stood after these minutes (0 is the first), by the evaluation that runs live.

    Every minute is judged; those of the past only fill the windows. At those of `at` somebody looks.
    """
    state = open_state("sqlite://")
    reader = RecordedMinutes(slices)
    evaluator = Evaluator(reader, [definition], state, replaying=True)
    ledger = SqlLedger(state)
    reader.now_s = slices[0].minute_at_s if slices else 0
    evaluator.tick(reader.now_s)
    with writing(state) as session, session.begin():
        save_minutes(session, [(each, each.amend(past)) for each in evaluator.courses])
    for index in sorted(set(at)):
        reader.now_s = slices[index].minute_at_s + MINUTE_S
        evaluator.tick(reader.now_s)
        yield index, ledger.standings(spark_s=0)[0]
    state.dispose()


def check(scenario: Scenario) -> list[Checked]:
    """Each expectation against what the evaluation says, in order of time."""
    asked: dict[int, list[Expectation]] = {}
    for each in scenario.expectations:
        asked.setdefault(each.at, []).append(each)
    checked = []
    told = replay(scenario.definition, scenario.slices, at=asked, past=scenario.past)
    for index, standing in told:
        checked += [_checked(each, standing) for each in asked[index]]
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
