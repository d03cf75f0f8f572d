"""One request against what was promised."""

from fractions import Fraction

import pytest

from alerts.kept import Verdict, kept
from domain.indicator import (
    AvailabilityIndicator,
    GoodputIndicator,
    LatencyIndicator,
    LevelIndicator,
    Limit,
)
from domain.labels import labels_of
from domain.objective import Objective
from domain.request import Outcome, Request


def request(**told):
    labels = labels_of({"service": "chat", "replica": "r0", "source": "span"})
    usual = {"ttft_s": 2.0, "e2e_s": 4.0, "tpot_s": 0.02, "output_tokens": 100, "labels": labels}
    return Request(
        trace_id=b"t" * 16,
        start_at_ns=0,
        end_at_ns=4 * 10**9,
        **({"outcome": Outcome.OK} | usual | told),
    )


def promise(metric="ttft", threshold="3/2", **where):
    indicator = LatencyIndicator(
        metric=metric, threshold_s=Fraction(threshold), where=labels_of(where)
    )
    return Objective(name="it", indicator=indicator, target=Fraction("0.99"))


def verdict(asked, objective):
    return [each.verdict for each in kept(asked, (), objective)]


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({}, Verdict.BROKEN),
        ({"ttft_s": 1.5}, Verdict.KEPT),
        ({"ttft_s": None}, Verdict.NOT_MEASURED),
        ({"ttft_s": None, "client_ttft_s": 1.0}, Verdict.KEPT),
        ({"ttft_s": 0.1, "outcome": Outcome.FAILED}, Verdict.BROKEN),
        ({"ttft_s": None, "outcome": Outcome.FAILED}, Verdict.BROKEN),
        ({"outcome": Outcome.CANCELLED}, Verdict.NOT_COUNTED),
        ({"outcome": Outcome.REJECTED}, Verdict.NOT_COUNTED),
    ],
)
def test_a_request_keeps_breaks_or_does_not_count(told, expected):
    assert verdict(request(**told), promise()) == [expected]


def test_a_promise_about_others_says_nothing_of_it():
    assert verdict(request(), promise(service="code")) == []
    assert verdict(request(), promise(service="chat", replica="r0")) == [Verdict.BROKEN]


def test_a_promise_about_gauges_says_nothing_of_a_request():
    level = LevelIndicator(metric="kv_cache_usage", at_most=Fraction("0.9"))

    assert kept(request(), (), Objective(name="it", indicator=level, target=Fraction("0.9"))) == ()


def test_a_promise_from_outside_is_about_what_the_client_saw():
    asked = request(client_ttft_s=9.0, ttft_s=1.0, labels=labels_of({"source": "client"}))

    (found,) = kept(asked, (), promise(source="client"))

    assert (found.verdict, found.value_s) == (Verdict.BROKEN, 9.0)


def test_an_answer_of_one_token_has_no_gaps_to_be_late():
    one = request(tpot_s=None, output_tokens=1)

    assert verdict(one, promise("tpot", "1/20")) == [Verdict.KEPT]
    assert verdict(request(tpot_s=None), promise("tpot", "1/20")) == [Verdict.NOT_MEASURED]


def test_each_limit_of_goodput_is_told_alone():
    limits = (
        Limit(metric="ttft", threshold_s=Fraction(1)),
        Limit(metric="tpot", threshold_s=Fraction(1)),
    )
    goodput = Objective(
        name="it", indicator=GoodputIndicator(limits=limits), target=Fraction("0.9")
    )

    assert verdict(request(), goodput) == [Verdict.BROKEN, Verdict.KEPT]


def test_to_be_answered_may_be_all_that_is_promised():
    answered = Objective(name="it", indicator=AvailabilityIndicator(), target=Fraction("0.9"))

    assert verdict(request(ttft_s=None), answered) == [Verdict.KEPT]
    assert verdict(request(outcome=Outcome.FAILED), answered) == [Verdict.BROKEN]
