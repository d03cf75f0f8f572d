"""What is new, what changed, what has settled, and how long that takes."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from domain.endpoint import PointState
from exporters.cloudwatch.answer import SeriesAnswer
from exporters.cloudwatch.ledger import Ledger
from exporters.cloudwatch.settling import SettleLag
from exporters.cloudwatch.window import ReadWindow, read_window
from tests.exporters.cloudwatch.polling import T0
from tests.exporters.cloudwatch.test_answer import asked_for

INVOCATIONS = asked_for("Invocations")


def answer(values, *, complete=True):
    told = {at: {"Sum": float(value)} for at, value in values.items()}
    status = "Complete" if complete else "PartialData"
    return SeriesAnswer(values=told, complete=complete, status=status, refused=Counter())


def observed(ledger, values, *, since_s=T0, until_s=T0 + 60, at_s=None, complete=True):
    told = ledger.observe(
        INVOCATIONS,
        ReadWindow(since_s, until_s),
        answer(values, complete=complete),
        until_s if at_s is None else at_s,
    )
    return [(p.start_s, p.statistics.get("Sum"), p.settled_at_s is not None) for p in told]


def test_a_point_is_told_once_until_it_changes_or_settles():
    ledger = Ledger(SettleLag(180))

    assert observed(ledger, {T0: 5}, at_s=T0 + 61) == [(T0, 5, False)]
    assert observed(ledger, {T0: 5}, at_s=T0 + 121) == []
    assert observed(ledger, {T0: 7}, at_s=T0 + 181) == [(T0, 7, False)]
    assert observed(ledger, {T0: 7}, at_s=T0 + 240) == [(T0, 7, True)]
    assert observed(ledger, {T0: 7}, at_s=T0 + 300) == []
    assert observed(ledger, {T0: 9}, at_s=T0 + 360) == [(T0, 9, True)]


def test_silence_is_unknown_then_no_data_and_never_zero():
    ledger = Ledger(SettleLag(180))

    assert observed(ledger, {}, at_s=T0 + 239) == []
    (told,) = ledger.observe(INVOCATIONS, ReadWindow(T0, T0 + 60), answer({}), T0 + 240)

    assert told.state is PointState.NO_DATA
    assert told.statistics == {}


def test_what_was_not_read_completely_is_not_settled_and_not_taken_for_silence():
    ledger = Ledger(SettleLag(180))

    assert observed(ledger, {}, at_s=T0 + 600, complete=False) == []
    assert observed(ledger, {T0: 5}, at_s=T0 + 660, complete=False) == [(T0, 5, False)]
    assert ledger.read_until_s(INVOCATIONS.key) is None
    assert observed(ledger, {}, at_s=T0 + 720, complete=False) == []
    assert observed(ledger, {T0: 5}, at_s=T0 + 780) == [(T0, 5, True)]
    assert ledger.late_update_s == []


def test_a_first_reading_says_nothing_about_lateness():
    ledger = Ledger(SettleLag(180))

    observed(ledger, {T0: 5}, at_s=T0 + 3600)

    assert ledger.late_update_s == []


def test_the_lag_is_learnt_from_points_that_change_late():
    lag = SettleLag(180)
    ledger = Ledger(lag)
    namespace = INVOCATIONS.key.namespace

    for minute in range(400):  # each point is whole only ten minutes after its end
        now_s = T0 + 60 * minute
        window = read_window(
            now_s,
            ledger.read_until_s(INVOCATIONS.key),
            period_s=60,
            reread_s=1200,
            backfill_s=10_800,
        )
        values = {at: 2 if now_s - at >= 660 else 1 for at in window.starts(60)}
        ledger.observe(INVOCATIONS, window, answer(values), now_s)

    assert lag.lag_s(namespace) == 600
    assert lag.lag_s("AWS/Bedrock") == 180


def test_memory_of_a_series_does_not_grow():
    ledger = Ledger(SettleLag(180))

    for minute in range(1000):
        now_s = T0 + 60 * minute
        window = ReadWindow(now_s - 1200, now_s)
        ledger.observe(INVOCATIONS, window, answer(dict.fromkeys(window.starts(60), 1)), now_s)

    assert len(ledger._series[INVOCATIONS.key].known) <= 21


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=15),
    st.data(),
)
def test_upserting_what_is_told_gives_what_was_last_read(rounds, data):
    ledger, rows, last = Ledger(SettleLag(180)), {}, {}
    now_s = T0
    for gap_s in rounds:
        now_s += gap_s
        window = read_window(
            now_s,
            ledger.read_until_s(INVOCATIONS.key),
            period_s=60,
            reread_s=300,
            backfill_s=900,
        )
        values = {
            at: data.draw(st.integers(1, 3)) for at in window.starts(60) if data.draw(st.booleans())
        }
        # why kept: CloudWatch does not take a point back
        values = {**{at: v for at, v in last.items() if at in window.starts(60)}, **values}
        last.update(values)
        for point in ledger.observe(INVOCATIONS, window, answer(values), now_s):
            rows[point.start_s] = point.statistics.get("Sum")

    assert {at: value for at, value in rows.items() if value is not None} == last
