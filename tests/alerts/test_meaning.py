"""What `validate` says of a promise is what the evaluation does."""

import pytest

from alerts.definition import load, load_all
from alerts.meaning import composite_meaning, meaning, outage_until_s
from alerts.replay import replay
from domain.slice import Slice


def only(text):
    (found,) = load(f"- {text}")
    return found


def outage_minutes(text):
    definition = only(text)
    return {rule.name: outage_until_s(definition, rule) // 60 for rule in definition.rules}


@pytest.mark.parametrize(
    ("target", "quick", "slow"),
    [("99.9", 1, 3), ("99.5", 5, 11), ("99", 9, 22), ("95", 44, 109), ("90", None, 217)],
)
def test_a_total_outage_is_told_after_the_minutes_of_the_reference(target, quick, slow):
    after = outage_minutes(f"p{target} ttft <= 1s over 30d")

    assert (after.get("page-quick"), after["page-slow"]) == (quick, slow)


def test_a_page_of_minutes_waits_for_as_many_as_it_rests_on():
    assert outage_minutes("no silent in 99.9% of minutes")["page-quick"] == 3
    assert outage_minutes("no silent in 99.9% of minutes")["ticket-quick"] == 5


def test_for_is_waited_for_too():
    definition = only("{phrase: p99 ttft <= 1s, for: 2min}")

    assert outage_until_s(definition, definition.rules[0]) == 11 * 60


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        (
            "p99 ttft <= 1.5s where pool=a",
            "99% of requests have ttft of at most 1.5s (pool=a), over the last 30d; one that fails",
        ),
        ("p99 itl <= 80ms", "99% of gaps between tokens have itl of at most 80ms, over the"),
        ("99.9% available", "99.9% of requests are answered, over the last 30d"),
        (
            "goodput ttft <= 1s and tpot <= 50ms 99%",
            "99% of requests have, each of them, ttft of at most 1s and tpot of at most 50ms",
        ),
        (
            "generation_tokens >= 500/s in 99% of minutes",
            "in 99% of minutes generation_tokens grows by at least 500/s over all replicas together",
        ),
        ("kv_cache_usage <= 90% in 95% of minutes", "in 95% of minutes kv_cache_usage <= 90% at"),
        (
            "no silent or target down in 99% of minutes",
            "in 99% of minutes no place is silent or ta",
        ),
        (
            "p99 model_latency <= 2s at sagemaker EndpointName=chat",
            "99% of requests to sagemaker EndpointName=chat have model_latency of at most 2s, as Cl",
        ),
        (
            "p99 ttft <= 1s in 99.5% of minutes per calendar month in Europe/Berlin",
            "of at most 1s, over each calendar month (Europe/Berlin); a minute without requests is",
        ),
        (
            "99% available in 99% of minutes counting empty ones as good",
            "a minute without requests is good",
        ),
    ],
)
def test_every_kind_is_said_in_plain_words(said, meant):
    assert meant in "\n".join(meaning(only(said)))


def test_who_is_told_and_what_does_not_count_is_said():
    told = "\n".join(
        meaning(
            only("""
              phrase: p90 ttft <= 1s
              receivers: [pager]
              escalation: [{after: 15min, receivers: lead}]
              maintenance: [{name: deploys, cron: "0 2 * * SUN", duration: 1h}]
              since: 2026-03-01
              changes: [{since: 2026-06-01, target: 95%}]
            """)
        )
    )

    for line in (
        "  note: page-quick is left out: a total outage burns 10x, and it asks for more than 14.4x",
        "  page-slow: burns more than 6x in 6h and in 30min; a total outage fires it after 3h 37min",
        "  told: pager",
        "  not acknowledged for 15min: lead too",
        "  maintenance deploys: at '0 2 * * SUN' (UTC) for 1h; it costs no budget",
        "  from 2026-06-01T00:00:00Z on the target is 95%",
        "  counted from 2026-03-01T00:00:00Z on",
    ):
        assert line in told.splitlines()


def test_a_composite_says_its_arithmetic():
    both = "- preset: chat\n- {name: all, all_of: [chat-ttft, chat-itl]"
    (plain,) = load_all(f"{both}, target: 98%}}").composites
    (weighed,) = load_all(f"{both}, weights: {{chat-ttft: 2}}}}").composites

    assert composite_meaning(plain)[0] == "all: all of chat-ttft, chat-itl, promised at 98%"
    assert "product" in composite_meaning(plain)[1]
    assert "chat-ttft 2, chat-itl 1" in composite_meaning(weighed)[1]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("p99 ttft <= 1s over 30d", "page-quick"),
        ("p95 ttft <= 1s over 30d", "page-quick"),
        ("{phrase: p99 ttft <= 1s over 7d, for: 3min}", "page-quick"),
        ("p99.9 ttft <= 1s in 99.9% of minutes over 30d", "page-quick"),
        ("no silent in 99% of minutes over 28d", "page-quick"),
    ],
)
def test_the_evaluation_pages_in_the_minute_that_validate_names(text, rule):
    definition = only(text)
    (asked,) = (each for each in definition.rules if each.name == rule)
    whole = definition.objective.counts_minutes and definition.objective.slices is None
    total = 1 if whole else 600
    last = 60 + outage_until_s(definition, asked) // 60 - 1
    slices = [
        Slice(minute_at_s=60 * index, good_low=good, good_high=good, total=total)
        for index, good in enumerate([total] * 60 + [0] * 60)
    ]

    looked = {
        index: {each.verdict.rule.name for each in standing.rules if each.alert.open}
        for index, standing in replay(definition, slices, at=(last - 1, last))
    }

    assert rule not in looked[last - 1]
    assert rule in looked[last]
