"""Promises of every kind as sentences and as mappings, and what is said of those that cannot be."""

from fractions import Fraction

import pytest

from alerts.definition import load, load_all
from alerts.sentence import sentence
from domain.condition import ConditionKind
from domain.errors import ConfigError
from domain.indicator import (
    AvailabilityIndicator,
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    LevelIndicator,
    Limit,
    ThroughputIndicator,
)
from domain.period import Calendar, CalendarUnit
from domain.slice import EmptySlice, SlicePolicy

DAY_S = 86_400


def only(text):
    (found,) = load(text)
    return found


SAME = [
    (
        "99.9% available over 7d where service=chat",
        "{available: true, target: 99.9%, period: 7d, where: {service: chat}}",
        AvailabilityIndicator(where=(("service", "chat"),)),
    ),
    (
        "goodput ttft <= 1s and tpot <= 50ms 99%",
        "{goodput: {ttft: 1s, tpot: 50ms}, target: 99%}",
        GoodputIndicator(
            limits=(
                Limit(metric="ttft", threshold_s=Fraction(1)),
                Limit(metric="tpot", threshold_s=Fraction(1, 20)),
            )
        ),
    ),
    (
        "generation_tokens >= 500/s 99% of minutes",
        "{throughput: {metric: generation_tokens, at_least: 30000/min}, target: 99%}",
        ThroughputIndicator(metric="generation_tokens", at_least_per_s=Fraction(500)),
    ),
    (
        "kv_cache_usage <= 0.9 95% of minutes",
        "{level: {metric: kv_cache_usage, at_most: 90%}, target: 95%}",
        LevelIndicator(metric="kv_cache_usage", at_most=Fraction(9, 10)),
    ),
    (
        "requests_running >= 1 and <= 40 in 95% of minutes",
        "{level: {metric: requests_running, at_least: 1, at_most: 40}, target: 95%}",
        LevelIndicator(metric="requests_running", at_least=Fraction(1), at_most=Fraction(40)),
    ),
    (
        "no engine stalled or target down in 99.9% of minutes",
        "{condition: [engine stalled, target down], target: 99.9%}",
        ConditionIndicator(kinds=(ConditionKind.STALLED, ConditionKind.DOWN)),
    ),
    (
        "p99 model_latency <= 2s at sagemaker VariantName=a EndpointName=chat",
        """{endpoint: {service: sagemaker, metric: model_latency, threshold: 2s,
        dimensions: {EndpointName: chat, VariantName: a}}, target: 99%}""",
        EndpointIndicator(
            service="sagemaker",
            metric="model_latency",
            threshold_s=Fraction(2),
            dimensions=(("EndpointName", "chat"), ("VariantName", "a")),
        ),
    ),
    (
        "99.9% available at sagemaker EndpointName=chat with failed invocations counted",
        """{endpoint: {service: sagemaker, counts_failures: true,
        dimensions: {EndpointName: chat}}, target: 99.9%}""",
        EndpointIndicator(
            service="sagemaker", dimensions=(("EndpointName", "chat"),), counts_failures=True
        ),
    ),
]


@pytest.mark.parametrize(("said", "mapped", "indicator"), SAME)
def test_a_sentence_and_a_mapping_promise_the_same(said, mapped, indicator):
    promised = only(f"- {said}")

    assert promised.objective.indicator == indicator
    assert promised == only(f"- {mapped}")


@pytest.mark.parametrize("said", [each[0] for each in SAME])
def test_whatever_is_promised_has_a_name_of_its_own(said):
    assert only(f"- {said}").id


def test_minutes_of_requests_are_good_or_bad_as_wholes():
    said = only("- p99 ttft <= 1s in 99.5% of minutes counting empty ones as bad").objective

    assert said.target == Fraction(995, 1000)
    assert said.slices == SlicePolicy(target=Fraction(99, 100), empty=EmptySlice.BAD)
    assert said.min_events == 3
    mapped = "{metric: ttft, threshold: 1s, target: 99.5%, slices: {target: 99%, empty: bad}}"
    assert only(f"- {mapped}").objective.slices == said.slices


def test_how_often_and_how_long_may_come_in_any_order():
    (one, other) = (
        only(f"- p99 ttft <= 1s {said} where pool=a")
        for said in ("over 7d in 99% of minutes", "in 99% of minutes over 7d")
    )

    assert one == other


@pytest.mark.parametrize(
    "said", ["each month in Europe/Berlin", "per calendar month in Europe/Berlin"]
)
def test_a_month_begins_by_the_clock_of_a_zone(said):
    objective = only(f"- p99 ttft <= 1s {said}").objective

    assert objective.calendar == Calendar(unit=CalendarUnit.MONTH, zone="Europe/Berlin")
    assert objective.period_s == 30 * DAY_S


def test_a_value_in_quotes_may_hold_anything():
    where = only(
        r"""- 'p99 ttft <= 1s where model="a \"b\"  c, where"'"""
    ).objective.indicator.where

    assert where == (("model", 'a "b"  c, where'),)


WRONG = [
    ("no engin stalled in 99% of minutes", "'engin stalled' is no condition. Did you mean"),
    ("no engine stalled", "does not say how often. Add: in 99% of minutes"),
    ("no silent or silent in 99% of minutes", "names a condition twice"),
    ("generation_tokens >= 500 in 99% of minutes", "'500' is no rate"),
    ("generation_tokens <= 500/s in 99% of minutes", "is a counter: what is promised is a floor"),
    ("generation_tokens >= 0/s in 99% of minutes", "every rate is at least 0"),
    ("generaton_tokens >= 5/s in 99% of minutes", "Did you mean 'generation_tokens'?"),
    ("kv_cache_usage <= 90 in 99% of minutes", "a share, between 0 and 1. Write 0.9 or 90%"),
    ("kv_cache_usage <= 0.9", "does not say how often"),
    ("requests_running >= 9 and <= 3 in 99% of minutes", "no value is at least 9 and at most 3"),
    ("requests_running >= 9 and >= 3 in 99% of minutes", "has two bounds of one kind"),
    ("kv_cache_usage <= 0.9 in 99% of minutes counting empty ones as good", "is never empty"),
    ("goodput ttft <= 1s and itl <= 50ms 99%", "a request has no single 'itl'"),
    ("goodput ttft <= 1s and ttft <= 2s 99%", "goodput wants each latency once"),
    ("goodput ttft and tpot 99%", "is no list of limits"),
    ("goodput ttft <= 1s", "is no promise"),
    ("99.9% availible", "is no promise"),
    ("100% available", "leaves nothing to measure against"),
    ("p99 ttft <= 2s at sagemaker", "'ttft' is no latency of sagemaker"),
    ("p99 ttft <= 2s at sagemker", "Did you mean 'sagemaker'?"),
    ("99% available at sagemaker EndpontName=a", "Did you mean 'EndpointName'?"),
    ("99% available at sagemaker EndpointName=a EndpointName=b", "names a dimension twice"),
    ("p99 e2e <= 2s at mantle", "AWS publishes no latency of mantle"),
    ("no silent at sagemaker in 99% of minutes", "is no promise"),
    ("p99 ttft <= 1s in 99% of minutes counting empty ones as fine", "cannot be 'fine'"),
    ("p99 ttft <= 1s per calendar moth", "Did you mean 'month'?"),
    ("p99 ttft <= 1s per calendar month in Europe/Berln", "'Europe/Berln' is no zone"),
    ("p99 ttft <= 1s per calendar month in ../../etc/passwd", "is no zone"),
    ("p99 ttft <= 1s per calendar month over 30d", "has two periods"),
    ("p99 ttft <= 1s over 12h per calendar month", "has two periods"),
    ("p99 ttft <= 1s over 12h over 30d", "'over 12h' is said twice"),
    ("p99 ttft <= 1s where pool=a over 30d", "End with name=value"),
    ("p50 ttft <= 1s over 90d", "no rule can ever fire"),
    ("p90 ttft <= 1s per calendar year", "no rule can ever fire"),
    ("p99 ttft <= 50000min", "is never"),
    ("{target: 99%}", "does not say what is promised"),
    ("{metric: ttft, available: true, target: 9%}", "promises both metric and available"),
    ("{available: false, target: 99%}", "promises nothing"),
    ("{available: perhaps, target: 99%}", "neither true nor false"),
    ("{available: true}", "'target' is missing"),
    ("{available: true, target: 99%, period: 7d, calendar: day}", "has two periods"),
    ("{available: true, target: 99%, slices: {empty: good}}", "'target' is missing"),
    ("{condition: silent, target: 99%, slices: {target: 99%}}", "counts minutes as it is"),
    ("{level: {metric: kv_cache_usage}, target: 99%}", "kv_cache_usage has no bound"),
    ("{level: {metric: ttft, at_most: 1}, target: 99%}", "'ttft' is no gauge"),
    ("{throughput: {metric: up, at_least: 1/s}, target: 99%}", "'up' is no counter"),
    ("{goodput: {}, target: 99%}", "goodput wants each latency once"),
    ("{goodput: fast, target: 99%}", "is no mapping. Write goodput:"),
    ("{endpoint: {metric: e2e}, target: 99%}", "'service' is missing"),
    ("{endpoint: {service: bedrock, metric: e2e}, target: 99%}", "both a metric and a threshold"),
    ("{preset: caht}", "'caht' is no preset. Did you mean 'chat'?"),
    ("{preset: batch}", "Add at_least: 500/s"),
    ("{preset: chat, at_least: 5/s}", "chat has no floor"),
    ("{preset: chat, thresholds: {e2e: 1s}}", "there is no key 'e2e'"),
    ("{preset: chat, metric: ttft}", "there is no key 'metric'"),
    ("{all_of: [a, b]}", "'name' is missing"),
    ("{name: c, all_of: [a]}", "is made of too few"),
    ("{name: c, all_of: [a, a]}", "is made of too few"),
]


@pytest.mark.parametrize(("said", "told"), WRONG)
def test_what_cannot_be_promised_is_refused_with_the_way_out(said, told):
    with pytest.raises(ConfigError) as caught:
        load(f"- {said}", name="f")

    assert told in str(caught.value)
    assert caught.value.where.startswith("f:1:")
    assert len(str(caught.value)) < 600


def test_a_preset_is_several_objectives_for_its_own_use_case():
    ttft, itl = load("- preset: chat")

    assert (ttft.id, itl.id) == ("chat-ttft", "chat-itl")
    assert sentence(ttft.objective) == "p99 ttft <= 1s over 30d where use_case=chat"
    assert sentence(itl.objective) == "p99 itl <= 150ms over 30d where use_case=chat"


def test_everything_of_a_preset_can_be_said_differently():
    ttft, itl = load("""
    - preset: code
      name: fast
      where: {service: ide}
      thresholds: {ttft: 400ms}
      target: 99.5%
      period: 7d
      receivers: pager
    """)

    assert sentence(ttft.objective) == "p99.5 ttft <= 400ms over 7d where service=ide"
    assert sentence(itl.objective) == "p99.5 itl <= 80ms over 7d where service=ide"
    assert (ttft.id, ttft.receivers) == ("fast-ttft", ("pager",))


def test_batch_work_promises_what_its_owner_needs():
    (floor,) = load("- {preset: batch, at_least: 500/s}")

    assert sentence(floor.objective) == (
        "generation_tokens >= 500/s in 99% of minutes over 30d where use_case=batch"
    )


def test_a_composite_is_made_of_objectives_of_its_file():
    promises = load_all("""
    - preset: chat
    - {name: assistant, all_of: [chat-ttft, chat-itl], weights: {chat-ttft: 2}, target: 98%}
    """)
    (whole,) = promises.composites

    assert whole.of == ("chat-ttft", "chat-itl")
    assert whole.weights == (2, 1)
    assert whole.target == Fraction(98, 100)
    assert len(promises.definitions) == 2


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        (
            "all_of: [chat-ttft, chat-it]",
            "there is no objective 'chat-it'. Did you mean 'chat-itl'?",
        ),
        ("all_of: [chat-ttft, chat-itl], weights: {chat: 2}", "'chat' is no part of it"),
        ("all_of: [chat-ttft, chat-itl], weights: {chat-itl: 0}", "promises nothing"),
    ],
)
def test_a_composite_of_what_is_not_there_is_refused(parts, told):
    with pytest.raises(ConfigError, match=told.replace("?", r"\?")):
        load_all(f"- preset: chat\n- {{name: all, {parts}}}")
