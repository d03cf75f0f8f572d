"""A promise made of others: the product of its parts, or their weighted burn."""

from dataclasses import replace
from fractions import Fraction

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from alerts.api import router
from alerts.composite import standing_of
from alerts.definition import Composite, load_all
from alerts.evaluator import Evaluator
from alerts.ledger import StandingState
from alerts.sql_ledger import SqlLedger
from alerts.tables import open_state
from domain.slice import Tally
from tests.alerts.fleet import START_S, Fleet, outage
from tests.alerts.test_evaluator import at

TEXT = """
- {phrase: 'p99 ttft <= 1.5s over 30d', name: first}
- {phrase: '99.5% available over 30d', name: second}
- {phrase: 'p99.9 e2e <= 30s over 30d', name: third}
- {name: assistant, all_of: [first, second, third], description: the whole way}
"""


@pytest.fixture(scope="module")
def kept():
    state = open_state("sqlite://")
    promised = load_all(TEXT)
    fleet = Fleet(outage(60, 12))
    evaluator = Evaluator(fleet, promised.definitions, state, composites=promised.composites)
    evaluator.tick(START_S + 11)
    evaluator.tick(at(72, 11))
    yield state
    state.dispose()


def parts(kept):
    return {each.id: each for each in SqlLedger(kept).standings(spark_s=0)}


def with_counts(standing, bad, total):
    budget = replace(
        standing.budget,
        spent_low=bad,
        spent_high=bad,
        total=total,
        allowed=total * standing.objective.budget,
    )
    hour = Tally(good_low=total - bad, good_high=total - bad, total=total)
    return replace(standing, budget=budget, last_hour=hour)


def test_the_target_of_serial_parts_is_their_product(kept):
    whole = Composite(name="assistant", of=("first", "second", "third"))

    found = standing_of(whole, parts(kept))

    assert found.target == Fraction(99, 100) * Fraction(995, 1000) * Fraction(999, 1000)
    assert float(found.target) == pytest.approx(0.98406, abs=1e-5)


def test_the_composite_is_as_bad_as_its_worst_part_and_pages_nobody(kept):
    (found,) = SqlLedger(kept).composites()

    assert found.state is StandingState.PAGE
    assert [each.id for each in found.parts] == ["first", "second", "third"]
    assert not [each for each in SqlLedger(kept).alerts() if each.objective_id == "assistant"]


def test_what_was_good_in_all_parts_is_the_product_of_what_was_good_in_each(kept):
    known = parts(kept)
    known = {
        "first": with_counts(known["first"], 10, 1000),
        "second": with_counts(known["second"], 5, 100),
    }
    whole = Composite(name="both", of=("first", "second"), target=Fraction(9, 10))

    found = standing_of(whole, known)

    assert found.ratio_low == found.ratio_high == Fraction(99, 100) * Fraction(95, 100)
    assert found.burn_low == (1 - Fraction(9405, 10_000)) * 10
    assert found.remaining_low == 1 - found.burn_low


def test_weights_multiply_burn(kept):
    known = parts(kept)
    known = {
        "first": with_counts(known["first"], 40, 1000),
        "second": with_counts(known["second"], 0, 100),
    }
    whole = Composite(name="both", of=("first", "second"), weights=(Fraction(3), Fraction(1)))

    found = standing_of(whole, known)

    assert found.burn_low == found.burn_high == 3
    assert found.remaining_low == (3 * (1 - 4) + 1) / Fraction(4)


def test_a_part_without_traffic_or_without_promise_leaves_no_figure(kept):
    known = parts(kept)
    silent = {**known, "second": with_counts(known["second"], 0, 0)}
    whole = Composite(name="both", of=("first", "second"))

    assert standing_of(whole, silent).ratio_low is None
    assert standing_of(replace(whole, of=("first", "gone")), known).missing == ["gone"]
    assert standing_of(replace(whole, of=("first", "gone")), known).remaining_low is None


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(50, 100)), min_size=3, max_size=3))
def test_the_whole_is_never_better_than_its_worst_part(kept, counts):
    known = {
        name: with_counts(each, bad, total)
        for (name, each), (bad, total) in zip(parts(kept).items(), counts, strict=True)
    }

    found = standing_of(Composite(name="all", of=tuple(known)), known)

    assert found.ratio_high <= min(1 - Fraction(bad, total) for bad, total in counts)


def test_the_api_lists_composites_with_their_parts(kept):
    app = FastAPI()
    app.include_router(router(SqlLedger(kept)))
    with TestClient(app) as client:
        (found,) = client.get("/api/v1/composites").json()["composites"]
        missing = client.get("/api/v1/composites/none")
        assert client.get("/api/v1/composites/assistant").json() == found

    assert (found["id"], found["state"], found["description"]) == (
        "assistant",
        "page",
        "the whole way",
    )
    assert [each["id"] for each in found["parts"]] == ["first", "second", "third"]
    assert missing.status_code == 404
    assert "see /api/v1/composites" in missing.json()["detail"]
