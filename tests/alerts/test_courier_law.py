"""Laws of delivery: whatever a receiver answers, all is told once, in order, or it is said why not."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from alerts.breaker import CLOSED
from alerts.courier import Courier
from alerts.receivers.attempt import Attempt, Fate
from alerts.receivers.settings import WebhookSettings
from alerts.tables import OutboxRow, open_state
from tests.alerts.outbox import START_S, Clock, events, put, rows

SETTINGS = WebhookSettings(name="it", url="https://it.example")
OTHER = WebhookSettings(name="other", url="https://other.example")
ALERTS = ("a", "b", "c")


class Asking:
    """A receiver that says when it wants to be asked again, and keeps when it was."""

    settings = SETTINGS

    def __init__(self, script):
        self.script, self.asked, self.not_before_s = list(script), [], 0.0

    def send(self, body, *, key, now_s, receipt=""):
        del body, key, receipt
        self.asked.append((now_s, self.not_before_s))
        wait_s = self.script.pop(0) if self.script else None
        if wait_s is None:
            return Attempt(fate=Fate.DELIVERED, detail="taken")
        self.not_before_s = now_s + wait_s
        return Attempt(fate=Fate.RETRY, detail="later", retry_after_s=wait_s)


class Scripted:
    """A receiver that answers by a script, and keeps what it took, by key, as real ones do."""

    def __init__(self, script):
        self.settings = SETTINGS
        self.script = list(script)
        self.taken, self.asked_at_s = {}, []

    def send(self, body, *, key, now_s, receipt=""):
        assert receipt == ""
        self.asked_at_s.append(now_s)
        fate, wait_s, took = self.script.pop(0) if self.script else (Fate.DELIVERED, None, True)
        if took and fate is not Fate.REFUSED:
            self.taken.setdefault(key, body)
        return Attempt(fate=fate, detail="by script", retry_after_s=wait_s)

    def close(self):
        return


answers = st.tuples(
    st.sampled_from([Fate.DELIVERED, Fate.RETRY, Fate.RETRY]),
    st.none() | st.floats(0, 50),
    st.booleans(),  # whether it took it all the same, and only its answer was lost
).map(lambda each: (each[0], each[1], True) if each[0] is Fate.DELIVERED else each)


def carried(script, *, refusing=False):
    state = open_state("sqlite://")
    receiver = Scripted([(Fate.REFUSED, None, False), *script] if refusing else script)
    for kind in ("firing", "resolved"):
        for alert in ALERTS:
            put(state, "it", kind, alert=alert)
    courier, clock = Courier(state, receiver, [OTHER]), Clock()
    while any(row.done_at_s is None for row in rows(state) if row.receiver == "it"):
        clock.run([courier], clock.now_s + 60, step_s=60.0)
    outcome = (receiver, rows(state, OutboxRow), events(state, "other"))
    state.dispose()
    return outcome


@settings(max_examples=12)
@given(st.lists(answers, max_size=25))
def test_all_is_told_exactly_once_and_each_alerts_end_after_its_beginning(script):
    receiver, kept, _ = carried(script)

    mine = [row for row in kept if row.receiver == "it"]
    assert {row.outcome for row in mine} == {"delivered"}
    assert sorted(receiver.taken) == sorted(row.key for row in mine)
    first_taken = list(receiver.taken)
    for row in mine:
        later = [each for each in mine if each.dedup_key == row.dedup_key and each.id > row.id]
        assert all(first_taken.index(row.key) < first_taken.index(each.key) for each in later)


waits = st.lists(st.none() | st.integers(0, 20), min_size=1, max_size=3)


@settings(max_examples=12)
@example(script=[20], restarts={1})
@given(script=waits, restarts=st.sets(st.integers(0, 6), max_size=3))
def test_nobody_is_asked_before_the_time_that_was_asked_for(script, restarts):
    state, receiver, clock = open_state("sqlite://"), Asking(script), Clock()
    for alert in ALERTS:
        put(state, "it", alert=alert)
    courier, turn = Courier(state, receiver), 0
    while any(row.done_at_s is None for row in rows(state)):
        if turn in restarts:
            courier = Courier(state, receiver)
        clock.now_s += max(courier.deliver(clock), 1.0)
        turn += 1
    state.dispose()

    assert len(receiver.asked) == len(ALERTS) + sum(each is not None for each in script)
    assert all(at_s >= not_before_s for at_s, not_before_s in receiver.asked)


@given(st.lists(answers, max_size=40))
def test_a_receiver_is_left_alone_as_it_asked_and_not_for_ever(script):
    breaker, now_s = CLOSED, START_S
    for fate, wait_s, _ in script:
        breaker = breaker.after(Attempt(fate=fate, detail="", retry_after_s=wait_s), now_s)

        left_alone_s = breaker.until_s - now_s
        if fate is Fate.RETRY:
            assert not breaker.allows(now_s + (wait_s or 0.0) - 0.1) or not wait_s
            assert left_alone_s <= max(60.0, wait_s or 0.0) + 1e-6
        else:
            assert breaker == CLOSED
        now_s = max(now_s, breaker.until_s)
        assert breaker.allows(now_s)


@settings(max_examples=8)
@given(st.lists(answers, max_size=10))
def test_an_alarm_about_a_receiver_always_ends_when_it_can_be_told_again(script):
    _, kept, told = carried(script, refusing=True)

    assert kept[0].outcome == "refused"
    assert [event for _, event, _ in told] == ["firing", "resolved"] * (len(told) // 2)
    assert told
