"""The tick: which minutes are judged, when, and what survives a restart."""

import threading
from fractions import Fraction

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from alerts.evaluator import Evaluator
from alerts.incident import Event, Tier
from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.tables import MinuteRow, OutboxRow, open_state
from domain.errors import StoreError
from tests.alerts.fleet import START_S, Fleet, chat, minute, outage

RECEIVER = {"name": "pager", "url": "http://127.0.0.1:9/", "allow_private": True}


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    yield engine
    engine.dispose()


def evaluator(fleet, state, definitions=None, **settings):
    return Evaluator(
        fleet,
        definitions or chat(),
        state,
        settings=AlertsSettings(receivers=(RECEIVER,), **settings),
    )


def outbox(state):
    with Session(state) as session:
        return list(session.scalars(select(OutboxRow).order_by(OutboxRow.id)))


def pages(state):
    return [row for row in outbox(state) if '"severity": "page"' in row.body]


def at(minutes, seconds=0):
    return START_S + 60 * minutes + seconds


def test_a_minute_is_judged_when_the_source_has_passed_it(state):
    fleet = Fleet(outage(0, 1))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))
    fleet.watermark = at(1)

    alerts.tick(at(1, 0.5))

    assert SqlLedger(state).standings()[0].evaluated_at_s == at(1)


def test_a_minute_that_no_source_closes_is_judged_ten_seconds_later(state):
    fleet = Fleet(outage(0, 1))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))

    alerts.tick(at(1, 9.9))
    before = SqlLedger(state).standings()[0].evaluated_at_s
    alerts.tick(at(1, 10))
    after = SqlLedger(state).standings()[0].evaluated_at_s

    assert (before, after) == (at(0), at(1))


def test_a_watermark_in_the_future_closes_nothing_that_has_not_ended(state):
    fleet = Fleet(outage(0, 5))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))
    fleet.watermark = at(5)

    alerts.tick(at(1, 30))

    assert SqlLedger(state).standings()[0].evaluated_at_s == at(1)


def test_missed_ticks_are_made_up_for_and_the_page_says_since_when(state):
    fleet = Fleet(outage(60, 20))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))

    changes = alerts.tick(at(80, 11))

    page = next(each for each in changes if each.incident.tier is Tier.PAGE)
    assert page.at_s == at(64)  # the slow rule has only an hour to look back on
    assert len(pages(state)) == 1


def test_what_began_and_ended_while_we_slept_for_hours_wakes_nobody(state):
    fleet = Fleet(outage(60, 30, after=600))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))

    changes = alerts.tick(at(690, 11))

    assert [each.event for each in changes if each.incident.tier is Tier.PAGE] == [
        Event.FIRING,
        Event.RESOLVED,
    ]
    assert not pages(state)
    assert SqlLedger(state).alerts()[-1].resolved_at_s is not None


def test_a_restart_keeps_the_state_and_sends_no_second_page(state):
    fleet = Fleet(outage(60, 20))
    evaluator(fleet, state).tick(at(0, 11))
    evaluator(fleet, state).tick(at(75, 11))
    for late in range(76, 81):
        evaluator(fleet, state).tick(at(late, 11))

    assert [row.outcome for row in pages(state)] == ["waiting"]
    assert SqlLedger(state).standings()[0].state == "page"


def test_a_restart_at_every_minute_decides_what_one_long_run_decides(state, tmp_path):
    slices = outage(70, 15, after=60)
    other = open_state(f"sqlite:///{tmp_path / 'other.db'}")
    steady = evaluator(Fleet(slices), other)
    for index in range(146):
        evaluator(Fleet(slices), state).tick(at(index, 11))
        steady.tick(at(index, 11))

    assert [row.key for row in outbox(state)] == [row.key for row in outbox(other)]
    assert SqlLedger(state).standings() == SqlLedger(other).standings()
    other.dispose()


def test_late_data_change_the_budget_and_raise_no_old_page(state):
    fleet = Fleet(outage(60, 0, after=10))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))
    alerts.tick(at(70, 11))
    before = SqlLedger(state).standings()[0].budget
    fleet.tell(*(minute(index, 570) for index in range(61, 70)))  # 5 % of ten minutes
    fleet.tell(minute(70))

    changes = alerts.tick(at(71, 11))

    budget = SqlLedger(state).standings()[0].budget
    assert not changes
    assert (before.spent_high, budget.spent_high) == (0, 9 * 30)


def test_a_minute_that_was_seen_stays_seen(state):
    fleet = Fleet(outage(5, 0))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))
    alerts.tick(at(5, 11))
    fleet.tell(*(minute(index, total=None) for index in range(5)))

    alerts.tick(at(6, 11))

    assert SqlLedger(state).standings()[0].budget.total == 3000


def test_the_budget_is_spent_by_counts_not_by_minutes(state):
    busy = [minute(index, 95, 100) for index in range(10)]
    quiet = [minute(index, 1, 1) for index in range(10, 60)]
    alerts = evaluator(Fleet(busy + quiet), state)
    alerts.tick(at(0, 11))
    alerts.tick(at(60, 11))

    standing = SqlLedger(state).standings()[0]

    assert standing.budget.remaining_low == 1 - Fraction(50, 1) / Fraction(1050, 100)
    assert standing.burn_low == Fraction(50, 1050) * 100
    assert standing.exhausted_in_s == 0


def test_minutes_older_than_the_period_leave_the_budget(state):
    definitions = chat("- {phrase: 'p99 ttft <= 1.5s over 1h', name: chat}")
    alerts = evaluator(Fleet(outage(0, 10, after=90)), state, definitions)
    alerts.tick(at(0, 11))
    spent = []
    for end in (30, 65, 100):
        alerts.tick(at(end, 11))
        spent.append(SqlLedger(state).standings()[0].budget.spent_low)

    assert spent == [6000, 3000, 0]


def test_a_new_objective_counts_the_past_that_the_reader_still_knows(state):
    fleet = Fleet(outage(100, 0, after=100))
    alerts = evaluator(fleet, state)

    alerts.tick(at(200, 11))

    standing = SqlLedger(state).standings()[0]
    assert standing.budget.total == 200 * 600
    assert standing.budget.counted_since_s == at(0)


def test_the_past_of_several_objectives_is_filled_to_the_minute(state):
    fleet = Fleet([minute(index) for index in range(900)])
    seven = chat("".join(f"- {{phrase: p99 ttft <= 1.5s, name: n{each}}}\n" for each in range(7)))
    alerts = evaluator(fleet, state, seven)

    while not alerts.courses or any(each.filled_from_s > at(0) for each in alerts.courses):
        alerts.tick(at(900, 11))

    totals = [each.budget.total for each in SqlLedger(state).standings()]
    assert totals == [900 * 600] * 7


def test_a_changed_target_counts_from_the_change_on(state):
    fleet = Fleet([minute(index, 590, 600) for index in range(20)])
    evaluator(fleet, state).tick(at(10, 11))
    tighter = chat("- {phrase: 'p99.9 ttft <= 1.5s over 30d', name: chat}")

    evaluator(fleet, state, tighter).tick(at(20, 11))

    budget = SqlLedger(state).standings()[0].budget
    assert budget.total == 12_000
    assert budget.allowed == 6000 * Fraction(1, 100) + 6000 * Fraction(1, 1000)


def test_a_changed_query_keeps_the_minutes_of_the_old_one(state):
    fleet = Fleet([minute(index, 590, 600) for index in range(20)])
    evaluator(fleet, state).tick(at(10, 11))
    other = chat("- {phrase: 'p99 ttft <= 2s over 30d', name: chat}")

    evaluator(fleet, state, other).tick(at(20, 11))
    evaluator(fleet, state, other).tick(at(21, 11))

    assert SqlLedger(state).standings()[0].budget.total == 12_000


def test_an_objective_that_is_no_longer_promised_ends_its_alert(state):
    fleet = Fleet(outage(60, 20))
    evaluator(fleet, state).tick(at(0, 11))
    evaluator(fleet, state).tick(at(80, 11))
    other = chat("- p99 e2e <= 10s")

    evaluator(fleet, state, other).tick(at(81, 11))

    assert [each.id for each in SqlLedger(state).standings()] == ["e2e"]
    assert "no longer promised" in outbox(state)[-1].body


def test_a_ticket_waits_while_the_same_objective_pages(state):
    fleet = Fleet(outage(4320, 60, after=120))
    alerts = evaluator(fleet, state)
    alerts.tick(at(4320, 11))
    told = []
    for index in range(4321, 4501):
        told += [(c.incident.tier, c.event) for c in alerts.tick(at(index, 11)) if c.tell]

    assert [each for each in told if each[0] is Tier.PAGE] == [
        (Tier.PAGE, Event.FIRING),
        (Tier.PAGE, Event.RESOLVED),
    ]
    assert told.index((Tier.TICKET, Event.FIRING)) > told.index((Tier.PAGE, Event.RESOLVED))


def test_a_tick_that_fails_is_tried_again_and_loses_nothing(state):
    fleet = Fleet(outage(60, 20))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))
    fleet.broken = StoreError("is locked", where="store", remedy="Wait.")
    with pytest.raises(StoreError):
        alerts.tick(at(70, 11))
    fleet.broken = None

    alerts.tick(at(80, 11))

    assert len(pages(state)) == 1


@pytest.mark.parametrize(
    "failure",
    [
        StoreError("is locked", where="store", remedy="Wait."),
        ValueError("good must lie between 0 and total"),
        OverflowError("cannot convert float infinity to integer"),
    ],
    ids=["the store", "a contradiction", "a number too large"],
)
def test_the_loop_goes_on_after_a_failed_tick(state, caplog, failure):
    fleet = Fleet(outage(0, 2))
    fleet.broken = failure
    alerts = evaluator(fleet, state)
    stop, now = threading.Event(), iter(range(4))

    def clock():
        tick = next(now)
        if tick == 1:
            fleet.broken = None
        if tick == 3:
            stop.set()
        return at(tick, 11)

    alerts.run(stop, clock=clock, cadence_s=0)

    assert "a tick failed" in caplog.text
    assert SqlLedger(state).standings()[0].evaluated_at_s == at(3)


class Halved(Fleet):
    """A fleet of which the minutes of one metric cannot be read."""

    wrong = ""

    def slices(self, indicator, window):
        if indicator.metric == self.wrong:
            raise ValueError("good must lie between 0 and total")
        return super().slices(indicator, window)


def two():
    return chat(
        "- {phrase: 'p99 e2e <= 9s over 30d', name: slow}\n"
        "- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat}"
    )


def test_an_objective_that_cannot_be_judged_holds_up_no_other_and_says_so(state, caplog):
    fleet = Halved(outage(60, 20))
    alerts = evaluator(fleet, state, two())
    alerts.tick(at(0, 11))
    fleet.wrong = "e2e"
    for index in range(1, 81):
        alerts.tick(at(index, 11))

    standings = {each.id: each for each in SqlLedger(state).standings()}
    assert standings["chat"].state == "page"
    assert standings["chat"].evaluated_at_s == at(80)
    slow = standings["slow"]
    assert (slow.state, slow.stale, slow.evaluated_at_s) == ("not observed", True, at(0))
    assert slow.message == (
        "slow has not been judged since 08:00 UTC, because its minutes cannot be read: good must "
        "lie between 0 and total. Next: look at the log of the evaluator."
    )
    assert caplog.text.count("slow cannot be judged") == 1


def test_an_objective_that_can_be_judged_again_makes_up_for_what_it_missed(state):
    fleet = Halved(outage(60, 20))
    alerts = evaluator(fleet, state, two())
    alerts.tick(at(0, 11))
    fleet.wrong = "e2e"
    alerts.tick(at(70, 11))
    fleet.wrong = ""

    alerts.tick(at(80, 11))

    standings = SqlLedger(state).standings()
    assert [each.trouble for each in standings] == ["", ""]
    assert {each.evaluated_at_s for each in standings} == {at(80)}
    assert {each.state for each in standings} == {"page"}


def test_an_alert_that_is_open_stays_so_while_its_minutes_cannot_be_read(state):
    fleet = Halved(outage(60, 40))
    alerts = evaluator(fleet, state, two())
    alerts.tick(at(0, 11))
    alerts.tick(at(80, 11))
    fleet.wrong = "e2e"
    alerts.tick(at(90, 11))

    slow = SqlLedger(state).standing("slow")
    assert (slow.state, slow.stale) == ("page", True)
    assert "slow has not been judged since 09:20 UTC" in slow.message


def test_a_past_that_cannot_be_read_does_not_hold_up_the_present(state, caplog):
    fleet = Halved(outage(60, 20))
    fleet.wrong = "e2e"
    alerts = evaluator(fleet, state, two())

    for index in (60, 80):
        alerts.tick(at(index, 11))

    assert SqlLedger(state).standing("chat").state == "page"
    assert caplog.text.count("the past of slow cannot be read") == 1


@pytest.mark.parametrize(("period", "kept"), [("1d", 0), ("per calendar year", 5)])
def test_slices_older_than_their_retention_are_dropped_unless_a_budget_holds_them(
    state, period, kept
):
    over = period if period.startswith("per") else f"over {period}"
    promised = chat(f"- {{phrase: p99 ttft <= 1.5s {over}, name: chat}}")
    alerts = evaluator(Fleet(outage(5, 0)), state, promised, slices_retention_days=1)
    alerts.tick(at(0, 11))
    alerts.tick(at(5, 11))

    alerts.tick(at(3 * 1440, 11))

    slices = SqlLedger(state).slices("chat", at(0), at(5))
    assert sum(each.observed for each in slices) == kept


@pytest.mark.parametrize("days", [1, 40], ids=["a day", "longer than the period"])
@pytest.mark.parametrize("restarted", [False, True], ids=["running", "restarted"])
def test_after_a_clock_that_jumped_ahead_and_back_an_outage_still_pages(state, days, restarted):
    fleet = Fleet(outage(60, 40, after=60))
    alerts = evaluator(fleet, state)
    for index in range(1, 30):
        alerts.tick(at(index, 11))
    alerts.tick(at(29, 11) + days * 86_400)
    if restarted:
        alerts = evaluator(fleet, state)

    for index in range(30, 81):
        alerts.tick(at(index, 11))

    assert SqlLedger(state).standings()[0].evaluated_at_s == at(80)
    assert len(pages(state)) == 1
    with Session(state) as session:
        assert session.scalar(select(MinuteRow).where(MinuteRow.minute_at_s >= at(80))) is None


def test_a_clock_that_is_set_back_by_a_minute_changes_nothing(state, caplog):
    fleet = Fleet(outage(60, 0))
    alerts = evaluator(fleet, state)
    alerts.tick(at(30, 11))
    alerts.tick(at(29, 11))

    assert SqlLedger(state).standings()[0].evaluated_at_s == at(30)
    assert not caplog.records
