"""Answers keep their fixed form, say their doubt, and hold nothing that JSON has no word for."""

import json
from fractions import Fraction

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from collector import answers
from collector.answers import (
    GaugeAnswer,
    QuantileAnswer,
    RequestAnswer,
    StagesAnswer,
)
from collector.liveness_answers import FreshnessAnswer, freshness_answer
from collector.query import (
    Flow,
    Freshness,
    NumberPoint,
    Numbers,
    Point,
    Replica,
    Series,
    Stages,
    StageShare,
    Window,
)
from domain.distribution import EMPTY, exact
from domain.grid import RELATIVE_ERROR
from domain.request import Leg, LegKind, Stage, join
from tests.strategies import VLLM_TTFT_S, legs, samples, scrape

T = 1_795_966_000
CHAT = (("service", "chat"),)
NO_FLOW = Flow(started=None, finished=None, failed=0, cancelled=0, rejected=0)


def series(distribution, *, failed=0):
    point = Point(since_s=T, until_s=T + 60, distribution=distribution, failed=failed)
    return [Series(labels=CHAT, points=[point], sources=frozenset({"span"}))]


def one_point(answer):
    return answer["series"][0]["points"][0]


def test_the_fixed_form_of_one_quantile():
    answer = answers.quantile_answer("ttft", [0.5], series(exact(np.array([1.5, 1.5, 9.0]))))
    point = one_point(answer)

    assert {name: answer[name] for name in ("metric", "q", "unit")} == {
        "metric": "ttft",
        "q": 0.5,
        "unit": "s",
    }
    assert answer["series"][0]["labels"] == {"service": "chat"}
    assert (point["from"], point["to"]) == ("2026-11-29T15:26:40Z", "2026-11-29T15:27:40Z")
    assert point["n"] == 3
    assert point["low"] <= 1.5 <= point["high"]
    assert point["value"] == pytest.approx(1.5, rel=RELATIVE_ERROR)
    assert "q" not in answer["series"][0]


def test_several_quantiles_give_a_series_each():
    answer = answers.quantile_answer("ttft", [0.5, 0.99], series(exact(np.array([1.0, 2.0]))))

    assert answer["q"] == [0.5, 0.99]
    assert [each["q"] for each in answer["series"]] == [0.5, 0.99]
    assert [each["labels"] for each in answer["series"]] == [{"service": "chat"}] * 2


def test_a_coarse_source_has_an_interval_and_no_value():
    distribution = scrape(np.array([1.2, 1.3, 1.4]), VLLM_TTFT_S, with_sum=False).distribution

    point = one_point(answers.quantile_answer("ttft", [0.99], series(distribution)))

    assert point["value"] is None
    assert point["low"] <= 1.4 <= point["high"]
    assert "open" not in point


def test_an_interval_without_an_end_is_open_and_null():
    """SL13: 2 % in +Inf with a top edge of 10 s is at least 10 s."""
    values = np.array([1.0] * 98 + [50.0] * 2)
    distribution = scrape(values, (1.0, 10.0, np.inf), with_sum=False).distribution

    point = one_point(answers.quantile_answer("ttft", [0.99], series(distribution)))

    assert point["high"] is None
    assert point["open"] is True
    assert point["low"] == pytest.approx(10, rel=0.02)


def test_a_value_off_the_grid_is_open_too():
    point = one_point(answers.quantile_answer("ttft", [0.99], series(exact(np.array([1e9])))))

    assert (point["value"], point["high"], point["open"]) == (None, None, True)


def test_failures_without_any_value_have_no_quantile():
    point = one_point(answers.quantile_answer("ttft", [0.99], series(EMPTY, failed=3)))

    assert (point["n"], point["failed"]) == (0, 3)
    assert point["value"] is point["low"] is point["high"] is None


@given(samples, st.booleans())
def test_a_value_is_given_only_where_it_is_right_within_the_stated_error(values, coarse):
    distribution = scrape(values, VLLM_TTFT_S).distribution if coarse else exact(values)
    truth = np.sort(values)[int(np.ceil(Fraction("0.9") * len(values))) - 1]

    point = one_point(answers.quantile_answer("ttft", [0.9], series(distribution)))

    orjson.loads(orjson.dumps(point))
    assert point["low"] <= truth
    assert point["high"] is None or truth <= point["high"]
    if point["value"] is not None and truth > 1e-9:
        assert point["value"] == pytest.approx(truth, rel=RELATIVE_ERROR)


def has_the_form(answer, kind):
    """Of what is declared, with nothing beside it: reading drops what is not declared."""
    return TypeAdapter(kind).validate_python(answer) == answer


def test_stages_are_told_with_what_is_missing():
    e2e = exact(np.array([2.0, 4.0]))
    share = StageShare(stage=Stage.QUEUE, distribution=e2e, mean_s=3.0, share=1.0)
    found = Stages(
        labels=CHAT,
        window=Window(since_s=T, until_s=T + 60),
        e2e=e2e,
        ttft=EMPTY,
        stages=[share],
        missing=(Stage.NETWORK,),
        flow=Flow(started=9, finished=2, failed=1, cancelled=0, rejected=0),
    )

    answer = answers.stages_answer([found], [0.5])
    told = answer["series"][0]

    assert has_the_form(answer, StagesAnswer)
    assert told["missing"] == ["network"]
    assert told["flow"]["unfinished"] == 7
    assert told["e2e"]["mean"] == 3.0
    assert told["ttft"] == {"n": 0, "mean": None, "quantiles": []}
    assert [(s["stage"], s["n"], s["share"]) for s in told["stages"]] == [("queue", 2, 1.0)]


def test_the_declared_form_is_the_form():
    answer = answers.quantile_answer("ttft", [0.5, 0.9], series(exact(np.array([1.0, 1e9]))))

    assert has_the_form(answer, QuantileAnswer)


def test_gauges_tell_their_kind():
    point = NumberPoint(since_s=T, until_s=T + 60, value=2.5, low=1, high=4, last=3)

    answer = answers.gauge_answer("requests_waiting", [Numbers(labels=CHAT, points=[point])])

    assert has_the_form(answer, GaugeAnswer)
    assert (answer["kind"], answer["unit"]) == ("level", "1")
    assert answer["series"][0]["points"][0]["last"] == 3


def test_freshness_is_null_where_nothing_came():
    replica = Replica(labels=CHAT, last_seen_at_s=T, up=None)
    services = [
        Freshness(service="chat", newest_at_s=T, replicas=[replica]),
        Freshness(service="gone", newest_at_s=None, replicas=[]),
    ]

    answer = freshness_answer(None, services)

    assert has_the_form(answer, FreshnessAnswer)
    assert answer["watermark"] is None
    assert [each["newest"] for each in answer["services"]] == ["2026-11-29T15:26:40Z", None]


@given(st.lists(legs, min_size=1, max_size=4))
def test_any_request_can_be_told(found):
    request = join(found)

    answer = answers.request_answer(request)

    assert has_the_form(answer, RequestAnswer)
    assert json.loads(orjson.dumps(answer)) == json.loads(json.dumps(answer, allow_nan=False))
    assert bytes.fromhex(answer["trace_id"]) == request.trace_id
    assert set(answer["stages_s"]) == {str(stage) for stage in Stage}


def test_instants_of_requests_keep_their_nanoseconds():
    leg = Leg(
        trace_id=b"t" * 16,
        span_id=b"s" * 8,
        kind=LegKind.SERVER,
        labels=CHAT,
        start_at_ns=T * 10**9,
        end_at_ns=T * 10**9 + 7,
    )

    assert answers.request_answer(join([leg]))["end"] == "2026-11-29T15:26:40.000000007Z"
