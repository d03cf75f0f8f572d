"""What an earlier version stored is read as it was meant."""

import json
from fractions import Fraction

from alerts.definition import load
from alerts.definition_codec import definition_from, definition_text, indicator_text

FIRST_VERSION = {
    "name": "chat-ttft",
    "metric": "ttft",
    "threshold_s": "3/2",
    "where": {"use_case": "chat"},
    "target": "99/100",
    "period_s": 2_592_000,
    "min_events": 10,
    "runbook": "",
    "description": "What users were promised.",
    "for_s": 120,
    "keep_firing_s": 0,
    "no_data_after_s": 600,
    "no_data": None,
}


def test_what_the_first_version_stored_is_the_latency_it_was():
    (meant,) = load("""
    - phrase: p99 ttft <= 1.5s over 30d where use_case=chat
      description: What users were promised.
      for: 2min
      no_data: off
    """)

    assert definition_from(json.dumps(FIRST_VERSION)) == meant
    assert definition_from(json.dumps(FIRST_VERSION)).clear == Fraction(9, 10)


def test_minutes_of_a_latency_keep_the_key_they_were_stored_under():
    (chat,) = load("- p99 ttft <= 1.5s over 30d where use_case=chat")

    assert indicator_text(chat.objective.indicator) == '["ttft", "3/2", [["use_case", "chat"]]]'


def test_two_kinds_never_share_their_minutes():
    said = load("""
    - 99% available
    - goodput ttft <= 1s 99%
    - p99 ttft <= 1s
    - no silent in 99% of minutes
    - kv_cache_usage <= 1% in 99% of minutes
    - requests_running >= 1 in 99% of minutes
    - prompt_tokens >= 1/s in 99% of minutes
    - 99% available at bedrock
    """)

    assert len({indicator_text(each.objective.indicator) for each in said}) == len(said)


def test_a_definition_is_stored_the_same_each_time():
    (said,) = load("- {phrase: 99% available, labels: {b: x, a: y}, receivers: [b, a]}")

    assert definition_text(said) == definition_text(definition_from(definition_text(said)))
