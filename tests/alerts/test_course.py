"""A promise's way through time: calendars, starts, resets, maintenance, targets, whole minutes."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.orm import Session

from alerts.course import Course, Stretch, history_minutes
from alerts.evaluator import Evaluator
from alerts.history import History
from alerts.incident import Event, Tier
from alerts.replay import replay
from alerts.reset import reset_budget
from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.state import QUIET, Alert, after
from alerts.tables import AlertEventRow, open_state
from domain.slice import Slice
from tests.alerts.fleet import START_S, Fleet, chat, minute, outage
from tests.alerts.test_evaluator import RECEIVER, at, evaluator, outbox, pages

HOUR_S = 3600
DAY_S = 86_400


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    yield engine
    engine.dispose()


def standing(state):
    return SqlLedger(state).standings(spark_s=0)[0]


def replayed(text, slices):
    """How the promise of a text stands after these minutes."""
    (_, found), *_ = replay(chat(text)[0], slices, at=[len(slices) - 1])
    return found


def minutes_from(begin_s, count, good, total):
    return [
        Slice(minute_at_s=begin_s + 60 * index, good_low=good, good_high=good, total=total)
        for index in range(count)
    ]


def test_a_calendar_budget_begins_anew_at_midnight_of_its_zone():
    """Berlin's first of March begins at 23:00 UTC; the last bad hour belongs to February."""
    begin_s = 1_772_319_600  # 2026-02-28T23:00:00Z
    slices = [
        *minutes_from(begin_s - HOUR_S, 60, 50, 100),
        *minutes_from(begin_s, 60, 99, 100),
    ]
    text = "- {phrase: 'p99 ttft <= 1.5s per calendar month in Europe/Berlin', name: chat}"

    before, after = replayed(text, slices[:60]), replayed(text, slices)

    assert before.budget.total == 0  # at midnight sharp the new month has had nothing yet
    assert (after.budget.total, after.budget.spent_low) == (6000, 60)
    assert after.budget.begin_s == begin_s
    assert after.budget.period_s == 31 * DAY_S - HOUR_S  # clocks go forward on the 29th
    assert replayed(text, slices[:59]).budget.spent_low == 59 * 50


@pytest.mark.parametrize(
    ("day", "begin_s", "hours"),
    [("forward", 1_774_738_800, 23), ("back", 1_792_879_200, 25)],
)
def test_a_day_may_have_23_or_25_hours_and_its_budget_with_it(day, begin_s, hours):
    """2026-03-29 and 2026-10-25 in Berlin."""
    del day
    slices = minutes_from(begin_s, hours * 60 - 1, 99, 100)

    found = replayed(
        "- {phrase: 'p99 ttft <= 1.5s per calendar day in Europe/Berlin', name: chat}", slices
    )

    assert found.budget.total == (hours * 60 - 1) * 100
    assert found.budget.period_s == hours * HOUR_S
    assert found.budget.end_s == begin_s + hours * HOUR_S
    assert found.forecast.ends_in_s == 60


def test_a_restart_in_the_middle_of_a_month_counts_what_one_run_counts(state):
    text = "- {phrase: 'p99 ttft <= 1.5s per calendar day in Europe/Berlin', name: chat}"
    slices = [minute(index, 590 - index % 7) for index in range(16 * 60)]
    for index in (100, 400, 960):
        evaluator(Fleet(slices), state, chat(text)).tick(at(index, 11))

    assert standing(state).budget.total == 60 * 600  # since 23:00 UTC
    assert standing(state).budget.spent_low == sum(10 + index % 7 for index in range(900, 960))


def test_what_was_before_the_start_costs_nothing_and_raises_nothing(state):
    text = "- {phrase: 'p99 ttft <= 1.5s', name: chat, since: 2026-03-01T09:00:00Z}"
    fleet = Fleet(outage(20, 40, after=60))
    alerts = evaluator(fleet, state, chat(text))

    alerts.tick(at(0, 11))
    changes = alerts.tick(at(100, 11))

    assert not changes
    assert standing(state).budget.total == 40 * 600
    assert standing(state).budget.counted_since_s == at(60)


def test_a_reset_begins_at_a_full_budget_and_deletes_nothing(state):
    fleet = Fleet(outage(60, 5, after=100))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))
    alerts.tick(at(70, 11))
    spent = standing(state).budget
    reset_budget(state, "chat", author="ada", reason="a load test was not ours", at_s=at(70, 30))
    alerts.tick(at(70, 31))
    anew = standing(state).budget
    alerts.tick(at(90, 11))

    later, ledger = standing(state).budget, SqlLedger(state)
    assert (spent.spent_low, spent.total) == (3000, 70 * 600)
    assert (anew.total, anew.remaining_low) == (0, None)
    assert (later.spent_low, later.total) == (0, 19 * 600)
    assert later.counted_since_s == at(71)
    assert sum(each.total for each in ledger.slices("chat", at(0), at(90))) == 90 * 600
    told = next(each for each in ledger.history("chat") if each.event == "reset")
    assert (told.author, told.at_s) == ("ada", at(70, 30))
    assert "a load test was not ours" in told.text


def test_a_reset_outlives_a_restart_and_ends_nothing_that_burns(state):
    fleet = Fleet(outage(60, 60))
    alerts = evaluator(fleet, state)
    alerts.tick(at(0, 11))
    alerts.tick(at(80, 11))
    reset_budget(state, "chat", author="ada", reason="agreed", at_s=at(80, 11))
    alerts.tick(at(81, 11))

    evaluator(fleet, state).tick(at(90, 11))

    assert standing(state).budget.total == 9 * 600
    assert standing(state).state == "page"
    assert len(pages(state)) == 1


MAINTAINED = (
    "- {phrase: 'p99 ttft <= 1.5s', name: chat, no_data_after: 3min, maintenance: "
    "[{name: patch, once: 2026-03-01T09:00:00Z, duration: 30min, reason: kernel}]}"
)


def test_maintenance_raises_no_alert_costs_no_budget_and_is_counted(state):
    fleet = Fleet(outage(60, 30, after=20))
    alerts = evaluator(fleet, state, chat(MAINTAINED))
    alerts.tick(at(0, 11))
    during = [change for index in range(1, 91) for change in alerts.tick(at(index, 11))]
    inside = standing(state)
    alerts.tick(at(110, 11))

    budget = standing(state).budget
    assert not during
    assert inside.maintenance.name == "patch"
    assert "In maintenance (patch): what happens now does not count." in inside.message
    assert (budget.spent_low, budget.total, budget.excluded_minutes) == (0, 80 * 600, 30)
    assert standing(state).maintenance is None
    assert not outbox(state)


def test_maintenance_that_is_dark_raises_no_alert_on_missing_data(state):
    fleet = Fleet(outage(60, 0))
    alerts = evaluator(fleet, state, chat(MAINTAINED))
    alerts.tick(at(60, 11))

    changes = [change for index in range(61, 91) for change in alerts.tick(at(index, 11))]

    assert not changes


def test_a_page_that_is_open_when_maintenance_begins_goes_on(state):
    fleet = Fleet(outage(40, 50, after=20))
    alerts = evaluator(fleet, state, chat(MAINTAINED))
    alerts.tick(at(0, 11))
    changes = [change for index in range(1, 91) for change in alerts.tick(at(index, 11))]
    after = [change for index in range(91, 111) for change in alerts.tick(at(index, 11))]

    assert [each.event for each in changes if each.incident.tier is Tier.PAGE] == [Event.FIRING]
    assert [each.event for each in after if each.incident.tier is Tier.PAGE] == [Event.RESOLVED]


def test_late_minutes_of_maintenance_change_nothing(state):
    fleet = Fleet(outage(60, 0))
    alerts = evaluator(fleet, state, chat(MAINTAINED))
    alerts.tick(at(0, 11))
    alerts.tick(at(65, 11))
    fleet.tell(*(minute(index, 0) for index in range(60, 66)))
    alerts.tick(at(66, 11))

    assert standing(state).budget.total == 60 * 600


def test_the_audit_trail_of_maintenance_stands_in_the_history(state):
    fleet = Fleet(outage(60, 30, after=20))
    evaluator(fleet, state, chat(MAINTAINED)).tick(at(0, 11))
    for index in (70, 100):
        evaluator(fleet, state, chat(MAINTAINED)).tick(at(index, 11))

    (told,) = [each for each in SqlLedger(state).history("chat") if each.event == "maintenance"]
    assert (told.at_s, told.text) == (at(60), "Maintenance patch: 30 min do not count: kernel")
    assert standing(state).budget.total == 70 * 600


def test_each_stretch_counts_at_the_target_that_was_in_force(state):
    """The budget of a period is the sum of N_i * b_i."""
    text = (
        "- {phrase: 'p99 ttft <= 1.5s', name: chat, "
        "changes: [{since: 2026-03-01T08:30:00Z, target: 99.5%}]}"
    )
    fleet = Fleet([minute(index, 597) for index in range(60)])
    evaluator(fleet, state, chat(text)).tick(at(0, 11))
    evaluator(fleet, state, chat(text)).tick(at(60, 11))
    live = standing(state).budget.allowed
    evaluator(fleet, state, chat(text)).tick(at(61, 11))

    assert live == 30 * 600 * Fraction(1, 100) + 30 * 600 * Fraction(5, 1000)
    assert standing(state).objective.target == Fraction(995, 1000)


def test_an_alert_ends_where_its_definition_says():
    """Burn falls from 20 to 7.5 in the short window: above half of 14.4, below nine tenths."""
    slices = [
        *(minute(index, 600) for index in range(480)),
        *(minute(index, 400) for index in range(480, 540)),
        *(minute(index, 555) for index in range(540, 546)),
    ]
    text = "- {{phrase: 'p99 ttft <= 1.5s', name: chat, clear: {}}}"

    usual, patient = (replayed(text.format(clear), slices) for clear in ("90%", "50%"))

    open_ = [
        {each.verdict.rule.name for each in found.rules if each.alert.open}
        for found in (usual, patient)
    ]
    assert "page-quick" not in open_[0]
    assert "page-quick" in open_[1]


def test_a_minute_is_good_or_bad_as_a_whole_where_minutes_are_promised():
    slices = [minute(index, 96, 100) for index in range(57)]
    slices += [minute(index, 94, 100) for index in range(57, 60)]
    text = "- {phrase: 'p95 ttft <= 1.5s in 99% of minutes over 30d', name: chat}"

    found = replayed(text, slices)

    assert (found.budget.spent_low, found.budget.total) == (3, 60)
    assert "3 of 60 minutes in the last 1 d had fewer than 95 % of requests" in found.message


def test_a_late_request_that_leaves_its_minute_as_good_as_it_was_is_kept(state):
    text = "- {phrase: 'p95 ttft <= 1.5s in 99% of minutes over 30d', name: chat}"
    fleet = Fleet([minute(index, 96, 100) for index in range(20)])
    alerts = evaluator(fleet, state, chat(text))
    alerts.tick(at(0, 11))
    alerts.tick(at(20, 11))
    fleet.tell(minute(19, 97, 101), minute(20, 96, 100), minute(21, 90, 100))
    alerts.tick(at(21, 11))
    (counted,) = SqlLedger(state).event_counts("chat", at(0), at(60), HOUR_S)

    evaluator(fleet, state, chat("- {phrase: 'p95 ttft <= 1.5s', name: chat}")).tick(at(22, 11))

    assert (counted.total, counted.bad_low) == (21, 0)
    assert standing(state).budget.total == 100  # requests are not added to minutes


def test_a_ratio_of_slices_lasts_as_long_as_its_documentation_says():
    """W28: two weeks of minutes, 95 % promised; an attack that spoils every minute."""
    text = "- {phrase: 'p99 ttft <= 1.5s in 95% of minutes over 14d', name: chat}"
    attack = [minute(index, 1, 100) for index in range(60)]

    found = replayed(text, attack)

    whole = found.objective.budget * found.objective.period_s / 60
    assert whole == 1008
    assert found.burn_low == 20
    assert found.budget.of_period_low == 1 - Fraction(60, 1008)


def test_low_budgets_are_told_as_notes_and_a_ticket_and_never_page(state):
    """A steady burn of 1.3: too slow for any page, and of seven days' budget gone in 5.4."""
    text = "- {phrase: 'p99 ttft <= 1.5s over 7d', name: chat}"
    receivers = ({**RECEIVER, "severities": ("info", "ticket", "page")},)
    fleet = Fleet([minute(index, 987, 1000) for index in range(7920)])
    alerts = Evaluator(
        fleet, chat(text), state, settings=AlertsSettings(receivers=receivers), replaying=True
    )
    alerts.tick(at(0))
    found = []
    for index in range(720, 7921, 720):
        fleet.watermark = at(index)
        found += alerts.tick(at(index))

    told = [
        (each.incident.tier.value, each.event.value, (each.at_s - START_S) // HOUR_S)
        for each in found
        if each.incident.level is not None
    ]
    assert told == [
        ("budget-50", "note", 64),
        ("budget-25", "firing", 96),
        ("budget-0", "note", 129),
    ]
    assert not pages(state)
    assert standing(state).state == "ticket"
    frozen = next(each for each in SqlLedger(state).alerts() if "-budget-0-" in each.id)
    assert "chat: the budget of 7 d is spent since" in frozen.message
    assert "Freeze" in frozen.message
    with Session(state) as session:
        words = {row.event for row in session.query(AlertEventRow)}
    assert words >= {"note", "firing"}
    assert all('"event": "note"' in row.body for row in outbox(state) if '"budget-0"' in row.body)


def test_notes_can_be_switched_off():
    text = "- {phrase: 'p99 ttft <= 1.5s over 1d', name: chat, notes: false}"
    found = replayed(text, [minute(index, 0, 600) for index in range(720)])

    assert not any("budget" in each for each in found.alert_ids)


class Settling(Fleet):
    """A source that is judged when it has settled, ten minutes behind."""

    def settled_s(self, indicator, now_s):
        del indicator
        return int(now_s) - 600

    def slices(self, indicator, window):
        return [
            each
            if each.minute_at_s + 60 <= self.settled
            else Slice(minute_at_s=each.minute_at_s, observed=False)
            for each in super().slices(indicator, window)
        ]


def test_a_source_that_settles_late_is_judged_when_it_has_settled(state):
    fleet = Settling(outage(480, 20, after=200))
    alerts = evaluator(fleet, state)
    found = []
    for index in range(485, 570):
        fleet.settled = at(index, 11) - 600
        found += alerts.tick(at(index, 11))

    page = [each for each in found if each.incident.tier is Tier.PAGE]
    assert [(each.event.value, each.at_s) for each in page[:1]] == [("firing", at(489))]
    assert page[-1].event is Event.RESOLVED
    assert not any(each.incident.tier is Tier.NO_DATA for each in found)
    assert standing(state).evaluated_at_s == at(559)


def test_a_settling_source_that_falls_silent_is_missed(state):
    fleet = Settling(outage(480, 0))
    alerts = evaluator(fleet, state)
    found = []
    for index in range(485, 505):
        fleet.settled = at(index, 11) - 600
        found += alerts.tick(at(index, 11))

    assert [each.at_s for each in found if each.incident.tier is Tier.NO_DATA] == [at(490)]


parts = st.tuples(st.integers(0, 30), st.integers(0, 5), st.booleans())


@settings(max_examples=10, deadline=None)
@given(st.lists(parts, min_size=5, max_size=40), st.integers(2, 6))
def test_however_often_it_is_restarted_the_budget_is_that_of_one_run(counted, every):
    slices = [
        minute(index, good, good + bad) if seen else minute(index, total=None)
        for index, (good, bad, seen) in enumerate(counted)
    ]
    text = (
        "- {phrase: 'p90 ttft <= 1.5s in 97% of minutes counting empty ones as bad over 1h', "
        "name: chat, maintenance: [{name: patch, once: 2026-03-01T08:03:00Z, duration: 4min}], "
        "since: 2026-03-01T08:01:00Z}"
    )
    state = open_state("sqlite://")
    for index in range(0, len(slices) + 1, every):
        evaluator(Fleet(slices), state, chat(text)).tick(at(index, 11))
    steady = replayed(text, slices[: (len(slices) // every) * every] or slices[:1])

    budget = standing(state).budget
    state.dispose()

    if len(slices) >= every:
        assert (budget.total, budget.spent_low, budget.spent_high) == (
            steady.budget.total,
            steady.budget.spent_low,
            steady.budget.spent_high,
        )


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12), st.booleans()), max_size=120),
    st.sampled_from([0, 120]),
)
def test_what_is_not_judged_in_full_would_have_changed_nothing(counted, wait_s):
    """A settled alert is passed over unless it burns; judging every rule every minute is the same."""
    definition = chat(f"- {{phrase: 'p99 ttft <= 1.5s', name: chat, for: {wait_s}s}}")[0]
    stretch = Stretch(since_s=0, series_id=1, revision_id=1, definition=definition)
    course = Course(
        stretches=[stretch],
        history=History(history_minutes(definition), START_S),
        evaluated_until_s=START_S,
        filled_from_s=START_S,
    )
    every: dict[str, Alert] = {}
    for index, (good, bad, seen) in enumerate(counted):
        each = minute(index, good, good + bad) if seen else minute(index, total=None)
        course.advance(each, [], live=True)
        for verdict in course.verdicts:
            before = every.get(verdict.rule.name, QUIET)
            every[verdict.rule.name] = after(before, verdict, definition.timers, at_s=at(index + 1))

        assert {name: course.alerts.get(name, QUIET) for name in every} == every
