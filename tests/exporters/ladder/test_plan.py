"""The plan and what it may cost: nothing impossible is planned, nothing beyond a limit is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import ConfigError
from exporters.ladder.budget import Budget
from exporters.ladder.cost import Price
from exporters.ladder.measurement import money
from exporters.ladder.plan import Guards, Plan, Shape, Step
from tests.exporters.ladder.planted import SHORT, Server, climbed, sample

BY_TOKEN = Price(per_million_input=1.0, per_million_output=10.0)


def plan(**more):
    return Plan(**{"shapes": (SHORT,), "concurrencies": (1, 4), **more})


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"concurrencies": ()}, "there is no step"),
        ({"concurrencies": (0,)}, "Use 1 to 1024"),
        ({"concurrencies": (5000,)}, "measure the client"),
        ({"rates_hz": (0.0,)}, "a rate is above 0"),
        ({"rates_hz": (float("nan"),)}, "a rate is above 0"),
        ({"concurrencies": (), "rates_hz": (1.0,), "rate_shares": (0.5,)}, "a closed loop first"),
        ({"rounds": 0}, "3 gives a median"),
        ({"requests": 0}, "measures nothing"),
        ({"guards": Guards(max_spend=1.0)}, "without a price per token"),
    ],
)
def test_what_can_never_work_is_refused_before_anything_is_sent(more, says):
    with pytest.raises(ConfigError, match=says):
        plan(**more)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"per_hour": -1.0}, "0 or more"),
        ({"per_hour": float("inf")}, "0 or more"),
        ({"per_hour": 1.0, "per_million_input": 1.0, "per_million_output": 1.0}, "per token"),
        ({"per_million_input": 1.0}, "each have a price"),
    ],
)
def test_a_price_that_is_none_is_refused(more, says):
    with pytest.raises(ConfigError, match=says):
        Price(**more)


def test_each_worker_is_judged_at_least_twice():
    wide = plan(concurrencies=(64,), requests=100)

    assert wide.measured(wide.closed[0]) == 128
    assert wide.measured(Step(shape=SHORT, rate_hz=1.0)) == 100


def test_the_plan_counts_tokens_of_every_shape():
    short = Shape(name="short", prompt_tokens=100, output_tokens=10)
    long = Shape(name="long", prompt_tokens=1000, output_tokens=10)
    both = plan(shapes=(short, long), concurrencies=(1,), rounds=1, requests=10)

    each = both.most_requests() / 2
    prompts, outputs = both.most_tokens()
    assert 1100 * each <= prompts <= 1100 * (each + 1)
    assert 20 * each <= outputs <= 20 * (each + 1)
    assert both.most_spend() is None
    priced = plan(shapes=(short,), price=BY_TOKEN)
    assert priced.most_spend() == pytest.approx(
        priced.most_requests() * (100 * 1.0 + 10 * 10.0) / 1e6
    )


def test_a_p99_of_fewer_than_a_hundred_is_known_for_what_it_is():
    assert plan(requests=99).p99_is_maximum
    assert not plan(requests=100).p99_is_maximum


@pytest.mark.parametrize("more", [{}, {"concurrency": 1, "rate_hz": 1.0}])
def test_a_step_is_closed_or_open(more):
    with pytest.raises(ValueError, match="either a concurrency or a rate"):
        Step(shape=SHORT, **more)


def test_no_request_begins_beyond_the_number_allowed():
    budget = Budget(Guards(max_requests=4), Price())
    for _ in range(3):
        budget.add(32, 4)
    assert not budget.refusal(SHORT)
    budget.reserve(SHORT)

    assert budget.refusal(SHORT) == "4 requests were sent, as many as --max-requests allows"


usage = st.tuples(st.integers(0, 256), st.integers(0, 21))


@given(st.lists(usage, min_size=1, max_size=60), st.floats(0.0005, 0.02))
def test_money_never_passes_its_limit_whatever_answers_take(answers, limit):
    budget = Budget(Guards(max_spend=limit), BY_TOKEN)
    truly = 0.0
    for prompt, output in answers:
        if budget.refusal(SHORT):
            break
        budget.reserve(SHORT)
        truly += BY_TOKEN.of_tokens(prompt, output)
        budget.settle(SHORT, sample(prompt_tokens=prompt, output_tokens=output))

    assert truly <= limit
    assert budget.spent == pytest.approx(truly)


def test_an_answer_whose_tokens_nobody_counted_is_paid_for_in_full():
    budget = Budget(Guards(max_spend=1.0), BY_TOKEN)
    budget.reserve(SHORT)
    before = budget.spent
    budget.settle(SHORT, sample(prompt_tokens=None))

    assert budget.spent == before > 0


def test_an_hour_buys_whatever_the_endpoint_gives():
    (step,) = climbed(Server(), (4,), rounds=1)
    cost = money(step, Price(per_hour=3.6))

    tokens_hz = step.figure("tokens_hz").median
    assert cost.per_10_000_output_tokens == pytest.approx(0.001 / tokens_hz * 10_000)
    assert cost.per_1_000_good is None


def test_a_price_per_token_costs_the_same_at_every_load():
    costs = [money(step, BY_TOKEN) for step in climbed(Server(), (1, 8), rounds=1)]

    one, other = (each.per_10_000_output_tokens for each in costs)
    assert one == pytest.approx(other, rel=0.03)
    assert one == pytest.approx((128 * 1.0 + 21 * 10.0) / 1e6 / 21 * 10_000, rel=0.03)


def test_without_a_price_nothing_costs_nothing():
    (step,) = climbed(Server(), (1,), rounds=1)

    assert money(step, Price()).per_10_000_output_tokens is None
