"""What probing may cost: counted before it is spent, remembered across restarts, by calendar months."""

import json
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ConfigError
from domain.request import Outcome
from exporters.probe.budget import Budget, Spent
from exporters.probe.exchange import Exchange
from tests.exporters.probe.asking import target_of
from tests.paths import ROOT

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
PRICED = {"input_usd_per_million": 2.0, "output_usd_per_million": 10.0}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "probe.json"


def target(**changes):
    return target_of("http://here", prompt_words=100, max_tokens=50, **{**PRICED, **changes})


def answered(prompt=90, output=40, **changes):
    told = {"url": "http://here", "started_at_ns": 1, "sent_at_ns": 2, "status": 200}
    return Exchange(**{**told, "prompt_tokens": prompt, "output_tokens": output, **changes})


def spend(budget, who, *, times=1, now=NOW, exchange=None):
    for _ in range(times):
        budget.settle(budget.book(who, now), exchange or answered())


def test_what_was_spent_is_what_the_answers_said(file):
    budget, who = Budget(file, "UTC"), target()

    spend(budget, who, times=3)

    assert budget.spent(who, NOW) == Spent(input_tokens=270, output_tokens=120)
    assert budget.spent(who, NOW).usd(who) == pytest.approx((270 * 2 + 120 * 10) / 1e6)


def test_without_prices_the_money_is_unknown_and_not_nothing(file):
    budget, who = Budget(file, "UTC"), target_of("http://here")

    spend(budget, who)

    assert budget.spent(who, NOW).usd(who) is None
    assert budget.spent(who, NOW).tokens == 130


def test_a_cap_stops_before_it_is_passed_never_after(file):
    budget, who = Budget(file, "UTC"), target(month_usd=0.01)

    sent = 0
    while not budget.refusal(who, NOW) and sent < 1000:
        spend(budget, who)
        sent += 1

    assert 10 < sent < 1000
    assert budget.spent(who, NOW).usd(who) <= 0.01
    assert "this month's 0.01 US dollars are spent" in budget.refusal(who, NOW)


def test_a_cap_on_tokens_needs_no_prices(file):
    budget = Budget(file, "UTC")
    who = target_of("http://here", month_tokens=500, prompt_words=50, max_tokens=50)

    while not budget.refusal(who, NOW):
        spend(budget, who)

    assert 300 <= budget.spent(who, NOW).tokens <= 500
    assert "500 tokens are used" in budget.refusal(who, NOW)


def test_the_month_is_remembered_by_the_next_process(file):
    spend(Budget(file, "UTC"), target(), times=2)

    again = Budget(file, "UTC")

    assert again.spent(target(), NOW) == Spent(input_tokens=180, output_tokens=80)


def test_a_new_month_begins_with_nothing(file):
    budget, who = Budget(file, "UTC"), target(month_usd=0.001)
    spend(budget, who)
    assert budget.refusal(who, NOW)

    later = datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC)

    assert not budget.refusal(who, later)
    assert budget.spent(who, later) == Spent()


def test_a_month_begins_where_the_zone_says(file):
    budget, who = Budget(file, "America/Los_Angeles"), target()
    spend(budget, who)

    still_november = datetime(2026, 12, 1, 7, 59, tzinfo=UTC)
    december = datetime(2026, 12, 1, 8, 1, tzinfo=UTC)

    assert budget.spent(who, still_november).tokens == 130
    assert budget.spent(who, december).tokens == 0


def test_a_clock_that_is_set_back_gives_no_money_again(file):
    budget, who = Budget(file, "UTC"), target()
    spend(budget, who)

    assert budget.spent(who, NOW - timedelta(days=60)).tokens == 130


def test_what_was_asked_last_month_is_not_taken_off_this_one(file):
    budget, who = Budget(file, "UTC"), target()
    booked = budget.book(who, datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC))
    december = datetime(2026, 12, 1, 0, 0, 9, tzinfo=UTC)
    spend(budget, who, now=december)

    budget.settle(booked, answered())

    assert budget.spent(who, december).tokens == 130


def test_targets_have_books_of_their_own(file):
    budget = Budget(file, "UTC")
    spend(budget, target())

    assert budget.spent(target(name="other"), NOW) == Spent()


@pytest.mark.parametrize(
    ("exchange", "tokens"),
    [
        (answered(prompt=None, output=None, sent_at_ns=None), 0),
        (answered(prompt=None, output=None, status=429, outcome=Outcome.FAILED), 0),
        (answered(prompt=None, output=None), 282),
        (answered(prompt=None, output=7), 239),
        (answered(prompt=None, output=None, status=500, outcome=Outcome.FAILED), 0),
        (answered(prompt=None, output=None, status=None, outcome=Outcome.FAILED), 282),
        (answered(prompt=5, output=0), 5),
    ],
    ids=["never sent", "turned away", "nothing said", "chunks counted", "a 500", "hung", "said"],
)
def test_what_an_answer_does_not_say_counts_as_the_most_it_can_be(file, exchange, tokens):
    budget, who = Budget(file, "UTC"), target()

    spend(budget, who, exchange=exchange)

    assert budget.spent(who, NOW).tokens == tokens


def test_a_rate_is_kept_within_any_hour(file):
    budget, who = Budget(file, "UTC"), target(hour_probes=3)
    for minute in (0, 20, 40):
        spend(budget, who, now=NOW + timedelta(minutes=minute))

    assert "3 probes were sent within the hour" in budget.refusal(who, NOW + timedelta(minutes=59))
    assert not budget.refusal(who, NOW + timedelta(minutes=61))


@given(
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 200), st.booleans()), max_size=20).map(
        tuple
    )
)
def test_the_books_are_the_sum_of_what_was_said_whatever_restarts(tmp_path_factory, said):
    file = tmp_path_factory.mktemp("books") / "probe.json"
    budget, who = Budget(file, "UTC"), target()

    for prompt, output, restart in said:
        spend(budget, who, exchange=answered(prompt, output))
        budget = Budget(file, "UTC") if restart else budget

    spent = Budget(file, "UTC").spent(who, NOW)
    assert spent.input_tokens == sum(prompt for prompt, _, _ in said)
    assert spent.output_tokens == sum(output for _, output, _ in said)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"month": 7, "targets": {}}',
        '{"month": "2026-11", "targets": {"a": {"input_tokens": -1, "output_tokens": 0}}}',
        '{"month": "2026-11", "targets": {"a": 7}}',
        '{"month": "yesterday", "targets": {}}',
    ],
)
def test_books_that_cannot_be_read_are_an_error_and_never_a_new_month(file, text):
    file.parent.mkdir()
    file.write_text(text)

    with pytest.raises(ConfigError, match="state_file"):
        Budget(file, "UTC")


def test_books_that_cannot_be_written_stop_the_probe_before_it_is_sent(tmp_path):
    budget = Budget(tmp_path / "folder" / "probe.json", "UTC")
    (tmp_path / "folder").write_text("a file where the folder should be")

    with pytest.raises(ConfigError, match="cannot be written"):
        budget.book(target(), NOW)


def test_processes_that_keep_the_books_together_lose_nothing_of_each_other(file):
    sidecar, once = Budget(file, "UTC"), Budget(file, "UTC")

    booked = sidecar.book(target(), NOW)
    spend(once, target())
    sidecar.settle(booked, answered())

    assert sidecar.spent(target(), NOW) == once.spent(target(), NOW)
    assert sidecar.spent(target(), NOW).tokens == 260


def test_threads_that_spend_at_once_lose_nothing(file):
    budget = Budget(file, "UTC")
    threads = [
        threading.Thread(target=spend, args=(budget, target()), kwargs={"times": 10})
        for _ in range(4)
    ]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert budget.spent(target(), NOW).tokens == 40 * 130


KILLED = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from exporters.probe.budget import Budget
from tests.exporters.probe.test_budget import answered, target
budget = Budget(Path(sys.argv[1]), "UTC")
print("ready", flush=True)
while True:
    booked = budget.book(target(), datetime(2026, 11, 29, tzinfo=UTC))
    budget.settle(booked, answered(10, 10))
    print("spent", flush=True)
"""


def test_a_process_that_is_killed_leaves_books_that_count_at_least_what_was_spent(file):
    for _ in range(3):
        before = Budget(file, "UTC").spent(target(), NOW).tokens
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, str(file)], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
        said = process.stdout.read().count("spent\n")
        process.stdout.close()
        process.wait()

        after = Budget(file, "UTC").spent(target(), NOW).tokens
        assert after - before >= 20 * said
        assert json.loads(file.read_text())["month"] == "2026-11"
