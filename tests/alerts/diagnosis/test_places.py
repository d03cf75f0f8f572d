"""Where a stage is worst: one replica only where it clearly stands out among its like."""

import pytest

from alerts.diagnosis.places import Worst, worst_places
from domain.request import Stage
from tests.alerts.test_blame import stages


def fleet(stage, *means_s):
    return [
        stages({stage: mean_s}, labels=(("pool", "chat"), ("replica", f"r{number}")))
        for number, mean_s in enumerate(means_s)
    ]


@pytest.mark.parametrize(
    ("stage", "means_s", "place"),
    [
        ("prefill", (0.2, 0.2, 0.2, 0.29), "chat"),
        ("prefill", (0.2, 0.2, 0.2, 0.31), "r3"),
        ("queue", (2.2, 2.6, 2.9, 3.1), "chat"),
        ("queue", (1.0, 1.0, 1.0, 2.9), "chat"),
        ("queue", (1.0, 1.0, 1.0, 3.1), "r3"),
    ],
)
def test_a_replica_is_named_where_it_stands_out_and_of_the_queue_where_it_does_by_far(
    stage, means_s, place
):
    worst = Worst(place, alone=place == "r3")

    assert worst_places(fleet(stage, *means_s)) == {Stage(stage): worst}


def test_replicas_of_other_pools_are_no_like():
    lone = stages({"prefill": 2.0}, labels=(("pool", "code"), ("replica", "c0")))

    assert worst_places([*fleet("prefill", 0.2, 0.2), lone]) == {Stage.PREFILL: Worst("code")}


@pytest.mark.parametrize(
    ("means_s", "worst"), [((2.2, 2.9, 2.5), Worst("")), ((2.2,), Worst("r0"))]
)
def test_replicas_alike_without_a_pool_have_no_place_and_an_only_one_is_its_own(means_s, worst):
    alike = [
        stages({"queue": mean_s}, labels=(("replica", f"r{number}"),))
        for number, mean_s in enumerate(means_s)
    ]

    assert worst_places(alike) == {Stage.QUEUE: worst}


def test_what_nobody_measured_has_no_place():
    assert worst_places(fleet("prefill")) == {}
