"""Invented traffic: the same seed, the same users; and as like the real ones as it says."""

from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.errors import InputError
from stagewatch.demo.fit import burstiness, distance, figures, generated
from stagewatch.demo.traffic import Memory, Quantiles, Traffic, TrafficModel, load_models

MODELS = load_models()
FLAT = Quantiles((0.0, 1.0), (1.0, 1.0))


@st.composite
def quantile_tables(draw):
    count = draw(st.integers(2, 20))
    inner = st.floats(0.001, 0.999)
    shares = draw(st.lists(inner, min_size=count - 2, max_size=count - 2, unique=True))
    value = st.floats(0.001, 1e6)
    values = draw(st.lists(value, min_size=count, max_size=count))
    return Quantiles((0.0, *sorted(shares), 1.0), tuple(sorted(values)))


def plain(**changes):
    fields = {
        "name": "plain",
        "gap_s": Quantiles((0.0, 1.0), (0.1, 10.0)),
        "memories": (),
        "batch": None,
        "prompt_tokens": Quantiles((0.0, 1.0), (10.0, 1000.0)),
        "output_tokens": (FLAT,),
    }
    return TrafficModel(**(fields | changes))


@given(quantile_tables(), st.floats(0, 1), st.floats(0, 1))
def test_a_higher_share_never_has_a_lower_value(table, one, other):
    low, high = sorted((one, other))

    assert table.at(low) <= table.at(high) * (1 + 1e-9)


@given(quantile_tables())
def test_a_table_goes_through_its_knots(table):
    for share, value in zip(table.shares, table.values, strict=True):
        assert table.at(share) == pytest.approx(value)


@pytest.mark.parametrize(
    ("shares", "values"),
    [
        ((0.0, 0.5), (1.0, 2.0)),
        ((0.1, 1.0), (1.0, 2.0)),
        ((0.0, 0.5, 0.5, 1.0), (1.0, 2.0, 3.0, 4.0)),
        ((0.0, 1.0), (2.0, 1.0)),
        ((0.0, 1.0), (0.0, 1.0)),
    ],
)
def test_a_table_that_is_no_distribution_cannot_be_built(shares, values):
    with pytest.raises(ValueError, match="must"):
        Quantiles(shares, values)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_same_seed_gives_the_same_users(name):
    one, again, other = (list(islice(Traffic(MODELS[name], seed), 200)) for seed in (5, 5, 6))

    assert one == again
    assert one != other


@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_request_has_at_least_one_token_each_way(name):
    for arrival in islice(Traffic(MODELS[name], 1), 5000):
        assert arrival.gap_s >= 0
        assert arrival.prompt_tokens >= 1
        assert arrival.output_tokens >= 1


def test_a_memory_leaves_the_gaps_themselves_as_they_are():
    forgetful = generated(plain(), 20_000, 1)
    mindful = generated(plain(memories=(Memory(0.5, 50.0),)), 20_000, 1)

    assert distance(forgetful.gaps_s, mindful.gaps_s) < 0.05


def test_a_memory_makes_counts_swing():
    forgetful = generated(plain(), 20_000, 1)
    mindful = generated(plain(memories=(Memory(0.3, 200.0),)), 20_000, 1)

    assert burstiness(mindful, 60.0) > 3 * burstiness(forgetful, 60.0)


def test_a_batch_arrives_at_one_instant():
    model = plain(batch=Quantiles((0.0, 1.0), (4.0, 4.0)))

    gaps = [arrival.gap_s for arrival in islice(Traffic(model, 1), 400)]

    assert [gap > 0 for gap in gaps] == [index % 4 == 0 for index in range(400)]


def test_long_and_short_prompts_may_have_answers_of_their_own():
    bands = (Quantiles((0.0, 1.0), (5.0, 5.0)), Quantiles((0.0, 1.0), (50.0, 50.0)))
    arrivals = list(islice(Traffic(plain(output_tokens=bands), 1), 500))

    assert {a.output_tokens for a in arrivals if a.prompt_tokens < 100} == {5}
    assert {a.output_tokens for a in arrivals if a.prompt_tokens > 101} == {50}


def test_the_real_conversation_has_its_long_answers_in_the_middle_of_the_prompts():
    medians = [table.at(0.5) for table in MODELS["azure2023_conv"].output_tokens]

    assert max(medians) > 300
    assert medians[0] < 200
    assert medians[-1] < 200


@pytest.mark.parametrize("name", sorted(MODELS))
def test_tables_stay_small(name):
    model = MODELS[name]

    for table in (model.gap_s, model.prompt_tokens, *model.output_tokens):
        assert len(table.shares) <= 20
        assert all(a < b for a, b in pairwise(table.shares))


@pytest.mark.parametrize("name", sorted(MODELS))
def test_memories_never_remember_more_than_everything(name):
    assert sum(memory.share for memory in MODELS[name].memories) <= 1


def test_a_file_that_holds_no_parameters_says_how_to_make_it(tmp_path):
    path = tmp_path / "traffic.json"
    path.write_text('{"traces": {"x": {}}}')

    with pytest.raises(InputError, match=r"stagewatch\.demo\.fit") as caught:
        load_models(path)

    assert str(path) in str(caught.value)


def test_figures_name_what_they_measure():
    found = figures(generated(plain(), 1000, 1))

    assert found["gap_s_p50"] < found["gap_s_p95"] < found["gap_s_p99"]
    assert {"dispersion_1s", "dispersion_10s", "dispersion_60s"} <= set(found)
