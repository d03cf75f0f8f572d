"""A cloud is thinned, and whatever stands out stays."""

import gzip

import numpy as np
from dash._utils import to_json
from hypothesis import given, settings
from hypothesis import strategies as st

from dashboard.figures import Threshold
from dashboard.scatter import MOST_DOTS, Cloud, cloud_figure, thinned


def cloud(number, seed, share_nan=0.0):
    random = np.random.default_rng(seed)
    x = random.lognormal(6, 1.5, number).round()
    y = random.lognormal(-1, 1, number)
    y[random.random(number) < share_nan] = np.nan
    return x, y


def drawn(x, y, **more):
    made = Cloud(
        x=x,
        y=y,
        good=more.pop("good", np.ones(len(x), bool)),
        ids=more.pop("ids", [f"{n:032x}" for n in range(len(x))]),
    )
    return cloud_figure(
        made, promises=(), zoom="z", one="/requests/", x_title="tokens", y_title="TTFT", **more
    )


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**31), st.integers(1, 6000), st.sampled_from([0.0, 0.3]), st.data())
def test_the_highest_of_any_stretch_that_is_kept_whole_is_drawn(seed, number, share, data):
    x, y = cloud(number, seed, share)

    kept = thinned(x, y)

    known = (~np.isnan(y)).nonzero()[0]
    assert len(kept) <= MOST_DOTS
    assert not np.isnan(y[kept]).any()
    if len(known):
        assert y[kept].max() == y[known].max()
        assert y[kept].min() == y[known].min()
        # a spike of whatever length of prompt: nothing in its place of the grid is higher
        spike = data.draw(st.sampled_from(known.tolist()))
        y[spike] = y[known].max() * 50
        assert spike in thinned(x, y)


def test_few_are_all_drawn():
    x, y = cloud(MOST_DOTS, 1)

    assert thinned(x, y).tolist() == list(range(MOST_DOTS))


def test_equal_values_are_one_place():
    kept = thinned(np.full(5000, 100.0), np.full(5000, 0.5))

    assert len(kept) == 1


def test_nothing_measured_is_an_empty_figure():
    figure, number = drawn(np.full(3, np.nan), np.ones(3))

    assert number == 0
    assert figure["data"] == []


def test_twenty_thousand_requests_with_real_ids_fit_into_25_kb():
    x, y = cloud(20_000, 3)
    random = np.random.default_rng(4)
    ids = [random.bytes(16).hex() for _ in range(20_000)]

    figure, number = drawn(x, y, ids=ids)

    assert number > 300
    assert len(gzip.compress(to_json(figure).encode())) <= 25_000


def test_what_was_not_answered_well_is_a_cross_and_each_has_its_way():
    figure, _ = drawn(np.array([10.0, 20.0]), np.array([1.0, 2.0]), good=np.array([True, False]))

    good, bad = figure["data"]
    assert bad["marker"]["symbol"].startswith("x")
    assert [good["customdata"], bad["customdata"]] == [[f"{0:032x}"], [f"{1:032x}"]]
    assert figure["layout"]["meta"] == {"one": "/requests/"}


def test_a_promise_is_drawn_where_its_value_is():
    made = Cloud(x=np.array([5.0]), y=np.array([2.0]), good=np.array([True]), ids=["0"])
    promise = Threshold(value=1.0, label="promise 1 s")

    figure, _ = cloud_figure(made, promises=[promise], zoom="", one="/", x_title="x", y_title="y")

    assert figure["layout"]["shapes"][0]["y0"] == 1.0
    assert figure["layout"]["annotations"][0]["y"] == 0.0
