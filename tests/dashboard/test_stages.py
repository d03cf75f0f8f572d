"""Which stage is to be named."""

import numpy as np
import pytest

from collector.query import Flow, Stages, StageShare, Window
from dashboard.stages import compare, guilty, guilty_text, how_to_measure
from domain.distribution import EMPTY, exact
from domain.request import Stage

WINDOW = Window(since_s=0, until_s=60)


def stages(**means_s):
    shares = [
        StageShare(
            stage=Stage(name),
            distribution=EMPTY if mean_s is None else exact(np.array([mean_s])),
            mean_s=mean_s,
            share=None,
        )
        for name, mean_s in means_s.items()
    ]
    flow = Flow(started=None, finished=None, failed=0, cancelled=0, rejected=0)
    return Stages(
        labels=(), window=WINDOW, e2e=EMPTY, ttft=EMPTY, stages=shares, missing=(), flow=flow
    )


def test_the_stage_that_grew_most_is_guilty_not_the_longest():
    rows = compare(stages(queue=1.2, decode=4.0), stages(queue=0.1, decode=3.9))

    assert guilty(rows).stage is Stage.QUEUE
    assert guilty_text(rows) == "queue +1.1 s"


def test_growth_that_hardly_matters_accuses_nobody():
    rows = compare(stages(queue=0.11, decode=4.0), stages(queue=0.1, decode=4.0))

    assert guilty(rows) is None
    assert guilty_text(rows) == "mostly decode, 97.3 %"


def test_nothing_before_accuses_nobody():
    rows = compare(stages(queue=9.0, decode=1.0), None)

    assert guilty(rows) is None
    assert rows[0].excess_s is None


def test_a_stage_whose_mean_is_not_known_is_no_zero():
    rows = compare(stages(queue=None, decode=1.0), stages(queue=1.0, decode=1.0))

    assert rows[0].now_s is None
    assert rows[0].excess_s is None


def test_stages_stand_in_the_order_they_happen():
    rows = compare(stages(decode=1.0, network=1.0, queue=1.0), None)

    assert [row.stage for row in rows] == [Stage.NETWORK, Stage.QUEUE, Stage.DECODE]


def test_no_stage_at_all_is_said():
    assert guilty_text([]) == "not measured"


@pytest.mark.parametrize("stage", Stage)
def test_every_stage_says_how_it_can_be_measured(stage):
    assert ": " in how_to_measure(stage)
