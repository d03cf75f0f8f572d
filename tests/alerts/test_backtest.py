"""A backtest tells what live evaluation of the same minutes tells; a plan compares two of them."""

import random

from alerts.backtest import Verb, backtest, plan
from alerts.evaluator import Evaluator
from alerts.past import in_force, past_minutes
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from collector.query import Window
from tests.alerts.fleet import START_S, Fleet, chat, minute, outage

DEFINITION = chat()[0]


def unsteady(minutes, seed):
    """Calm and trouble of random length, some of it unseen."""
    chance = random.Random(seed)  # noqa: S311 - traffic, no secret
    found = []
    while len(found) < minutes:
        bad = chance.choice([0, 0, 0, 60, 300, 600, None])
        for _ in range(chance.randint(5, 40)):
            index = len(found)
            found.append(minute(index, total=None) if bad is None else minute(index, 600 - bad))
    return found[:minutes]


def live(slices):
    """Every alert of a process that ticked each minute as it closed."""
    fleet = Fleet()
    state = open_state("sqlite://")
    evaluator = Evaluator(fleet, [DEFINITION], state)
    evaluator.tick(START_S)
    for each in slices:
        fleet.tell(each)
        fleet.watermark = each.minute_at_s + 60
        evaluator.tick(each.minute_at_s + 60)
    found = SqlLedger(state).alerts(limit=1000)
    state.dispose()
    return sorted(map(said, found))


def said(alert):
    """All but who is accused: a replay has asked nobody."""
    counted = alert.message.partition(" Which stage")[0]
    return alert.started_at_s, alert.kind, alert.severity, alert.resolved_at_s, counted


def test_it_lists_what_live_evaluation_of_the_same_minutes_would_have_sent():
    slices = unsteady(180, seed=6)

    found = backtest(DEFINITION, slices, since_s=START_S)

    told = sorted(map(said, found.alerts))
    assert told == live(slices)
    assert not any("tage" in alert.message for alert in found.alerts)
    assert not any("Not measured" in alert.message for alert in found.alerts)
    assert [kind for _, kind, *_ in told].count("no-data") == 2
    assert [severity for _, _, severity, *_ in told].count("page") > 3


def test_minutes_before_the_window_fill_it_and_count_for_nothing():
    slices = outage(60, 30, 60)

    whole = backtest(DEFINITION, slices, since_s=START_S)
    later = backtest(DEFINITION, slices, since_s=START_S + 100 * 60)

    assert whole.count("page") == 1
    assert later.count("page") == 0
    assert (later.counted.total, later.counted.bad_low) == (50 * 600, 0)


def test_an_alert_that_goes_on_has_no_end():
    found = backtest(DEFINITION, outage(60, 30), since_s=START_S)

    assert [each.resolved_at_s for each in found.alerts if each.severity == "page"] == [None]


def test_a_plan_says_what_comes_what_changes_what_stays_and_what_ends():
    slices = outage(60, 20, 60)
    before = chat(
        "- {phrase: p99 ttft <= 1.5s, name: kept}\n"
        "- {phrase: p90 ttft <= 1.5s, name: changed}\n"
        "- {phrase: p99 ttft <= 1.5s, name: gone}"
    )
    after = chat(
        "- {phrase: p99 ttft <= 1.5s, name: kept}\n"
        "- {phrase: p99.9 ttft <= 1.5s, name: changed}\n"
        "- {phrase: p99 ttft <= 1.5s, name: new}"
    )

    planned = plan(after, {d.id: d for d in before}, lambda _: slices, since_s=START_S)

    assert [(each.id, each.verb) for each in planned] == [
        ("kept", Verb.KEEP),
        ("changed", Verb.CHANGE),
        ("new", Verb.ADD),
        ("gone", Verb.REMOVE),
    ]
    kept, changed, new, gone = planned
    assert kept.before == kept.after
    assert (changed.before.count("page"), changed.after.count("page")) == (0, 1)
    assert new.before is None
    assert (new.after.count("page"), gone.before.count("page")) == (1, 1)
    assert gone.after is None


def test_what_is_in_force_is_read_from_the_state():
    state = open_state("sqlite://")
    evaluator = Evaluator(Fleet(outage(5, 0)), [DEFINITION], state)
    evaluator.tick(START_S + 300)

    assert in_force(state) == {DEFINITION.id: DEFINITION}
    assert in_force(open_state("sqlite://")) == {}


def test_a_minute_the_store_has_lost_is_told_by_the_state():
    state = open_state("sqlite://")
    fleet = Fleet(outage(10, 0))
    fleet.watermark = START_S + 600
    evaluator = Evaluator(fleet, [DEFINITION], state)
    evaluator.tick(START_S)
    evaluator.tick(START_S + 600)
    window = Window(since_s=START_S, until_s=START_S + 660)

    found = past_minutes(Fleet(), state, DEFINITION.objective.indicator, window)

    assert found[:10] == outage(10, 0)
    assert not found[10].observed
    assert not any(
        each.observed
        for each in past_minutes(Fleet(), None, DEFINITION.objective.indicator, window)
    )
