"""Load against what a promise allows, and the knee of a curve: planted, found, and refused without spread."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.diagnosis.week import Minutes, knee, largest_batch


def curve(batch, *, base_s=0.01, step_s=0.0005, slots=1e9):
    """Steps that grow by `step_s` with each request; beyond `slots` one more brings nothing."""
    batch = np.asarray(batch, float)
    token_s = base_s + step_s * batch
    at_once = np.minimum(batch, slots)
    return Minutes(batch=batch, token_s=token_s, tokens_hz=at_once / (base_s + step_s * at_once))


@given(st.floats(0.002, 0.05), st.floats(1e-5, 2e-3), st.floats(1.1, 5.0), st.integers(1, 2**31))
def test_the_largest_batch_that_keeps_a_promise_is_recovered(base_s, step_s, room, seed):
    batch = np.random.default_rng(seed).permutation(np.linspace(2, 40, 60))
    limit_s = base_s * room

    found = largest_batch(curve(batch, base_s=base_s, step_s=step_s), limit_s)

    assert found == pytest.approx((limit_s - base_s) / step_s, rel=0.01)


@pytest.mark.parametrize(
    "told",
    [curve([8.0] * 60), curve(range(1, 10)), curve(range(1, 60), step_s=-0.0001)],
    ids=["one size", "few minutes", "steps that shrink"],
)
def test_where_the_minutes_do_not_say_how_steps_grow_there_is_no_largest_batch(told):
    assert largest_batch(told, 0.04) is None


def test_a_promise_that_even_an_idle_engine_breaks_has_no_largest_batch():
    assert largest_batch(curve(range(1, 60)), 0.005) is None


def test_past_its_slots_one_more_brings_nothing_and_before_them_it_does():
    full, free = curve(range(1, 60), step_s=1e-6, slots=20), curve(range(1, 60), step_s=1e-6)

    assert knee(full, 50) == pytest.approx(0, abs=0.02)
    assert knee(free, 50) == pytest.approx(1, abs=0.02)


def test_of_a_batch_that_was_never_seen_in_calm_nothing_is_said():
    assert knee(curve(range(1, 20)), 200) is None
    assert knee(curve([8.0] * 60), 8) is None
