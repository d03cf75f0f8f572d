"""Objectives as people write them, and what they are told when they write them wrongly."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.definition import define, gather, load, slug
from alerts.state import Timers
from domain.errors import ConfigError
from domain.metric import LATENCIES
from domain.objective import Severity


def only(text):
    (found,) = load(text)
    return found


def test_a_sentence_is_a_promise():
    objective = only("- p99 ttft <= 1.5s over 30d where use_case=chat").objective

    assert objective.name == "chat-ttft"
    assert objective.indicator.metric == "ttft"
    assert objective.indicator.threshold_s == Fraction(3, 2)
    assert objective.indicator.where == (("use_case", "chat"),)
    assert objective.target == Fraction(99, 100)
    assert objective.period_s == 30 * 86_400


def test_a_mapping_says_the_same_as_its_sentence():
    mapping = """
    - name: chat-ttft
      metric: ttft
      threshold: 1.5s
      target: 99%
      period: 30d
      where: {use_case: chat}
    """

    assert only(mapping) == only("- p99 ttft <= 1.5s over 30d where use_case=chat")


@pytest.mark.parametrize(
    ("written", "target"),
    [
        ("p50", Fraction(1, 2)),
        ("p99", Fraction(99, 100)),
        ("p99.9", Fraction(999, 1000)),
        ("99.9", Fraction(999, 1000)),
        ("99.9%", Fraction(999, 1000)),
        ("0.999", Fraction(999, 1000)),
        ("0.5%", Fraction(1, 200)),
    ],
)
def test_a_target_is_exact_however_it_is_written(written, target):
    text = f"- {{metric: ttft, threshold: 1s, target: {written}, name: a, period: 30d}}"

    assert only(text).objective.target == target


@pytest.mark.parametrize(
    ("written", "threshold_s"),
    [
        ("1.5s", Fraction(3, 2)),
        ("300ms", Fraction(3, 10)),
        ("300 ms", Fraction(3, 10)),
        ("50us", Fraction(1, 20_000)),
        ("50µs", Fraction(1, 20_000)),
        ("2min", Fraction(120)),
        ("0.1s", Fraction(1, 10)),
    ],
)
def test_a_threshold_is_exact_in_any_unit(written, threshold_s):
    assert only(f"- p99 ttft <= {written} over 30d").objective.indicator.threshold_s == threshold_s


@pytest.mark.parametrize(
    ("written", "where"),
    [
        ("use_case=chat", (("use_case", "chat"),)),
        ("use_case=chat, region=eu", (("region", "eu"), ("use_case", "chat"))),
        ("use_case=chat and region=eu", (("region", "eu"), ("use_case", "chat"))),
        ('model="Llama 3, 70B"', (("model", "Llama 3, 70B"),)),
        ("model = meta-llama/Llama-3", (("model", "meta-llama/Llama-3"),)),
    ],
)
def test_a_selector_is_a_list_of_pairs(written, where):
    definition = only(f"- '{'p99 e2e <= 30s over 7d where ' + written}'")

    assert definition.objective.indicator.where == where


def test_how_it_is_watched_can_be_said():
    definition = only("""
    - phrase: p99 ttft <= 1.5s
      name: Chat, fast!
      description: What users of the chat were promised.
      runbook: https://runbooks.example/ttft
      min_events: 0
      for: 2min
      keep_firing: 30min
      no_data_after: 5min
      no_data: ticket
    """)

    assert definition.id == "chat-fast"
    assert definition.timers == Timers(for_s=120, keep_firing_s=1800)
    assert (definition.no_data_after_s, definition.no_data) == (300, Severity.TICKET)
    assert definition.objective.min_events == 0
    assert definition.objective.runbook.endswith("/ttft")
    assert definition.description.startswith("What")


@pytest.mark.parametrize("off", ["off", "false", "'off'", "no"])
def test_no_data_can_be_switched_off(off):
    text = f"- {{phrase: p99 ttft <= 1s, no_data: {off}}}"
    if off == "no":
        with pytest.raises(ConfigError, match="'no' is no severity"):
            load(text)
    else:
        assert only(text).no_data is None


def test_a_rule_that_even_an_outage_cannot_reach_is_left_out():
    loose = only("- p90 ttft <= 1s over 30d")

    assert [rule.name for rule in loose.left_out] == ["page-quick"]
    assert [rule.name for rule in loose.rules] == ["page-slow", "ticket-quick", "ticket-slow"]


def test_factors_follow_the_period_and_never_fall_below_one():
    week = only("- p99 ttft <= 1s over 7d")

    assert [rule.factor for rule in week.rules] == [Fraction(84, 25), Fraction(7, 5), 1, 1]


def test_a_file_may_hold_its_list_under_objectives(tmp_path):
    path = tmp_path / "objectives.yaml"
    path.write_text("objectives:\n  - p99 ttft <= 1s\n")

    assert [each.id for each in load(path)] == ["ttft"]


def test_a_configuration_mixes_files_sentences_and_mappings(tmp_path):
    (tmp_path / "more.yaml").write_text("- p99 e2e <= 30s\n")

    found = gather(
        ["more.yaml", "p99 ttft <= 1s", {"phrase": "p95 itl <= 80ms", "min_events": 0}],
        base=tmp_path,
    )

    assert [each.id for each in found] == ["e2e", "ttft", "itl-p95"]


WRONG = [
    ("- p99 tftt <= 1.5s", "f:1:3: 'tftt' is no latency. Did you mean 'ttft'?"),
    ("- p99 ttft < 1.5s", "A promise says <="),
    ("- p99 ttft >= 1.5s", "A latency promise says <="),
    ("- ttft <= 1.5s", "Begin with the share of requests"),
    ("- p100 ttft <= 1s", "leaves nothing to measure against"),
    ("- p0 ttft <= 1s", "leaves nothing to measure against"),
    ("- px ttft <= 1s", "'px' is no target"),
    ("- p99 ttft <= 1.5", "'1.5' has no unit"),
    ("- p99 ttft <= 1.5h", "the unit 'h'"),
    ("- p99 ttft <= 0s", "nothing is faster than 0 s"),
    ("- p99 ttft <= 1s over 30m", "no unit we know"),
    ("- p99 ttft <= 1s over 30min", "the shortest window that works"),
    ("- p99 ttft <= 1s over 365d", "to 90d"),
    ("- p99 ttft <= 1s where usecase=a", "Did you mean 'use_case'?"),
    ("- p99 ttft <= 1s where pool=a, pool=b", "'pool' is asked for twice"),
    ("- p99 ttft <= 1s where pool", "selects nothing we understand"),
    ("- {nam: x}", "f:1:4: there is no key 'nam'. Did you mean 'name'?"),
    ("- {phrase: p99 ttft <= 1s, target: 99}", "'target' is in the phrase already"),
    ("- {metric: ttft, target: 99}", "'threshold' is missing"),
    ("- {phrase: p99 ttft <= 1s, name: '!!'}", "'!!' is no name"),
    ("- {phrase: p99 ttft <= 1s, min_events: -1}", "'-1' is no count"),
    ("- {phrase: p99 ttft <= 1s, for: soon}", "'soon' is no number with a unit"),
    ("- {phrase: p99 ttft <= 1s, for: 0.5s}", "is no waiting time"),
    ("- {phrase: p99 ttft <= 1s, no_data: scream}", "'scream' is no severity"),
    ("- {phrase: p99 ttft <= 1s, phrase: p99 ttft <= 2s}", "'phrase' stands here twice"),
    ("- {metric: ttft, threshold: 1s, target: 99, where: chat}", "is no selector"),
    ("- {metric: [ttft], threshold: 1s, target: 99}", "is no plain value"),
    ("- [a]", "is no objective"),
    ("- p99 ttft <= 1s\n- p99 ttft <= 2s", "f:2:3: 'ttft' is promised already at f:1:3"),
    ("- {phrase: p99 ttft <= 1s, name: A b}\n- {phrase: p99 e2e <= 1s, name: a-b}", "promised al"),
    ("[]", "holds no list of objectives"),
    ("", "holds no list of objectives"),
    ("p99 ttft <= 1s", "holds no list of objectives"),
    ("objectivs: []", "Did you mean 'objectives'?"),
    ("- [", "is not YAML"),
    ("- \x00", "a character that YAML forbids"),
]


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_a_mistake_is_shown_with_its_place_and_the_way_out(text, said):
    with pytest.raises(ConfigError) as caught:
        load(text, name="f")

    assert said in str(caught.value)
    assert caught.value.where.startswith("f")
    assert caught.value.remedy.endswith((".", "?", ")"))


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.yaml")


def test_a_file_that_is_no_text_is_one_clear_error(tmp_path):
    (tmp_path / "image.yaml").write_bytes(b"\xff\xfe\x00\x01")

    with pytest.raises(ConfigError, match="no UTF-8 text"):
        load(Path(tmp_path / "image.yaml"))


def test_an_empty_objective_is_refused():
    with pytest.raises(ConfigError, match="is empty"):
        define("", at="f")


@given(
    percent=st.decimals("0.01", "99.99", places=2),
    metric=st.sampled_from(LATENCIES),
    threshold_ms=st.integers(1, 10**7),
    days=st.integers(3, 30),
)
def test_every_sentence_means_what_it_says(percent, metric, threshold_ms, days):
    objective = only(f"- p{percent} {metric} <= {threshold_ms}ms over {days}d").objective

    assert objective.target == Fraction(str(percent)) / 100
    assert objective.indicator.metric == metric
    assert objective.indicator.threshold_s == Fraction(threshold_ms, 1000)
    assert objective.period_s == days * 86_400


@given(st.text(max_size=60))
def test_any_text_is_a_promise_or_one_clear_error(text):
    try:
        found = load(text, name="f")
    except ConfigError as error:
        where = error.where
    else:
        assert all(slug(each.name) == each.id for each in found)
        where = "f"
    assert where.startswith("f")
