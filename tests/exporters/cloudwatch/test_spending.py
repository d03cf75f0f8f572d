"""A day's budget through restarts, damage and company."""

import logging
import threading

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.endpoint_metric import Tier
from exporters.cloudwatch.plan import USD_PER_METRIC, Budget
from exporters.cloudwatch.poller import Poller
from exporters.cloudwatch.run import poll_once
from exporters.cloudwatch.schedule import Schedule
from exporters.cloudwatch.spending import Spending
from tests.exporters.cloudwatch.polling import SAGEMAKER, T0, VARIANT, polling, settings_of
from tests.exporters.cloudwatch.test_plan import series
from tests.exporters.cloudwatch.test_run import sidecar, until
from tests.fake_cloudwatch.server import fake_cloudwatch

DAY_S = 86_400
MIDNIGHT = T0 // DAY_S * DAY_S
NOON = MIDNIGHT + DAY_S // 2


@pytest.fixture
def file(tmp_path):
    return tmp_path / "spending" / "111122223333-us-east-1.json"


def test_a_restart_remembers_what_was_spent_and_midnight_forgets_it(file):
    Spending(file).add(120, NOON)

    assert Spending(file).today(NOON + 60) == 120
    assert Spending(file).today(MIDNIGHT + DAY_S) == 0


def test_what_came_to_nothing_is_taken_back(file):
    spending = Spending(file)
    spending.add(100, NOON)
    spending.add(-100, NOON)

    assert (spending.today(NOON), Spending(file).today(NOON)) == (0, 0)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 500)), min_size=1, max_size=20))
def test_processes_that_share_the_file_share_the_budget(tmp_path_factory, spent):
    path = tmp_path_factory.mktemp("shared") / "x.json"
    both = Spending(path), Spending(path)

    for which, metrics in spent:
        both[which].add(metrics, NOON)

    assert Spending(path).today(NOON) == sum(metrics for _, metrics in spent)


def test_two_at_once_lose_nothing(file):
    def spend():
        own = Spending(file)
        for _ in range(100):
            own.add(1, NOON)

    threads = [threading.Thread(target=spend) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert Spending(file).today(NOON) == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 40,
        b"[1]",
        b'{"day": "x", "metrics": 1}',
        b'{"day": 20000, "metrics": -5}',
        b'{"day": 20000, "metrics": NaN}',
        b'{"day": 20000, "metrics": true}',
        b'{"day": 99999999, "metrics": 1}',
        b"[" * 5000,
    ],
    ids=lambda content: repr(content[:24]),
)
def test_a_file_that_cannot_be_believed_is_said_once_and_counted_at_its_most(file, content, caplog):
    file.parent.mkdir()
    file.write_bytes(content)
    spending = Spending(file)
    asked = series(SAGEMAKER)
    budget = Budget(None, spending)

    with caplog.at_level(logging.WARNING):
        budget.admitted([], asked, NOON)
        budget.admitted([], asked, NOON + 60)

    most = 4 * 720 + 5 * 144 + 7 * 48  # objective, warm and cold ones of half a day
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot be believed" in caplog.text
    assert spending.today(NOON) == most
    assert budget.assumed_usd == pytest.approx(most * USD_PER_METRIC)
    assert Spending(file).today(NOON) == most, "the next start believes it"


def test_what_is_assumed_is_never_more_than_the_budget_let_through(file):
    file.parent.mkdir()
    file.write_bytes(b"damaged")
    budget = Budget(0.01, Spending(file))
    asked = series(SAGEMAKER)

    taken, stopped = budget.admitted(asked, asked, NOON)

    assert budget.spent_usd(NOON) == pytest.approx(0.01)
    assert (taken, stopped) == ([], list(Tier))


def test_a_file_of_yesterday_is_of_yesterday_and_not_doubted(file, caplog):
    Spending(file).add(500, NOON - DAY_S)
    spending = Spending(file)

    assert spending.today(NOON) == 0
    assert not spending.is_doubtful
    assert caplog.text == ""


def test_where_no_folder_can_be_it_is_counted_in_memory_and_said_once(tmp_path, caplog):
    (tmp_path / "taken").write_text("a file stands where the folder should")
    spending = Spending(tmp_path / "taken" / "x.json")
    spending.add(5, NOON)
    spending.add(5, NOON)

    assert spending.today(NOON) == 10
    (said,) = [record.message for record in caplog.records]
    assert said.endswith(
        "x.json cannot be written: File exists. A restart would forget what was spent today"
    )


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(0, DAY_S // 60 - 1), max_size=6), st.floats(0.01, 0.1))
def test_however_often_it_is_started_anew_a_day_costs_no_more_than_its_budget(
    tmp_path_factory, restarts, cap
):
    path = tmp_path_factory.mktemp("restarted") / "x.json"
    asked = series(SAGEMAKER)
    budget, schedule, billed = Budget(cap, Spending(path)), Schedule(), 0

    for minute in range(0, DAY_S // 60, 15):
        if any(minute <= at < minute + 15 for at in restarts):
            budget, schedule = Budget(cap, Spending(path)), Schedule()
        now_s = MIDNIGHT + 60 * minute
        due = schedule.due(asked, now_s, frozenset())
        schedule.done(due, now_s)
        taken, _ = budget.admitted(due, asked, now_s)
        units = sum(each.billed_units for each in taken)
        budget.spend(units, now_s)
        billed += units

    assert billed * USD_PER_METRIC <= cap + 1e-12
    assert Spending(path).today(now_s) == billed


def test_a_poll_that_dies_in_its_call_has_counted_it_and_one_that_is_refused_has_not(file):
    with polling(SAGEMAKER, at_s=NOON) as (poller, account, clock):
        first = Poller(
            poller._settings, poller.scope, poller._source, poller.caller, Spending(file)
        )
        first.poll(clock.now_s)
        done = account.billed
        account.throttle_share = 1.0
        clock.now_s = NOON + 900
        first.poll(clock.now_s)

        class Killed(BaseException):
            """As a signal would end it."""

        def kill(*_):
            raise Killed

        account.throttle_share = 0.0
        first._source.metric_data = kill
        clock.now_s = NOON + 3600
        with pytest.raises(Killed):
            first.poll(clock.now_s)

    due = sum(each.billed_units for each in first.asked)
    assert done == due
    assert Spending(file).today(NOON + 3600) == 2 * due


def test_one_reading_counts_and_leaves_nothing_behind_without_a_budget(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    with fake_cloudwatch() as fake:
        ways = {"url": fake.url, "spool_dir": tmp_path / "spool"}
        poll_once(settings_of(SAGEMAKER, **ways))
        without = list(tmp_path.rglob("*.json"))
        poll_once(settings_of(SAGEMAKER, scope={"budget_usd_per_day": 1}, **ways))
        billed = fake.account.billed / 2
        now_s = fake.account.now()

    (kept,) = tmp_path.rglob("*.json")
    assert without == []
    assert Spending(kept).today(now_s) == billed > 0


def test_the_page_shows_the_budget_before_and_after_a_restart(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    scope = {"budget_usd_per_day": 0.00015}
    with fake_cloudwatch() as fake:
        fake.account.put("AWS/SageMaker", "Invocations", VARIANT, fake.account.now() - 90, [1.0])
        pages = []
        for _ in range(2):
            told = settings_of(
                SAGEMAKER,
                url=fake.url,
                scope=scope,
                endpoint=None,
                spool_dir=tmp_path / "spool",
                listen_port=0,
            )
            with sidecar(told) as port:
                url = f"http://127.0.0.1:{port}/metrics"
                until(lambda url=url: "cloudwatch_budget_usd{" in httpx.get(url).text)
                lines = httpx.get(url).text.splitlines()
            pages.append(dict(line.rsplit(" ", 1) for line in lines if line[0] != "#"))
        billed = fake.account.billed

    place = 'account="111122223333",region="us-east-1"'
    for page in pages:
        assert float(page[f"stagewatch_cloudwatch_budget_usd{{{place}}}"]) == 0.00015
        assert page[f'stagewatch_cloudwatch_budget_stops{{{place},tier="cold"}}'] == "1.0"
    spent = [float(page[f"stagewatch_cloudwatch_spent_usd{{{place}}}"]) for page in pages]
    assert spent[1] == pytest.approx(billed * USD_PER_METRIC)
    assert spent[0] <= spent[1] <= 0.00015
