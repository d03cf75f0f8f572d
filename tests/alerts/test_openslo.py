"""OpenSLO in and out: nothing is guessed, and everything that is lost is named."""

from dataclasses import replace

import pytest
from hypothesis import given

from alerts.definition import load, load_all
from alerts.openslo import read
from alerts.openslo_export import losses, written
from alerts.sentence import sentence
from domain.errors import ConfigError
from domain.slice import EmptySlice
from tests.alerts.promises import definitions

CARRIED = {"receivers": (), "escalation": (), "maintenance": (), "changes": ()}


@given(definitions)
def test_what_comes_back_from_openslo_is_what_went_there_but_for_the_losses(definition):
    slices = definition.objective.slices
    plain = slices and replace(slices, empty=EmptySlice.EXCLUDED)
    kept = replace(definition, objective=replace(definition.objective, slices=plain), **CARRIED)
    lost = [each.what for each in losses([definition])]

    back = read(written([definition]), "exported")

    assert back.definitions == [kept]
    assert not back.losses
    assert len(lost) == sum(bool(getattr(definition, name)) for name in CARRIED) + (plain != slices)


SLO = """\
apiVersion: openslo/v1
kind: SLO
metadata: {name: chat-ttft, displayName: Chat TTFT, labels: {team: [a, b], cost.centre: "7"}}
spec:
  description: First token in time.
  service: chat
  indicatorRef: ttft
  timeWindow:
    - duration: 1M
      calendar: {startTime: 2024-01-01 00:00:00, timeZone: America/New_York}
  budgetingMethod: Timeslices
  objectives:
    - {displayName: Good, target: 0.995, timeSliceTarget: 0.95, timeSliceWindow: 1m}
---
apiVersion: openslo/v1
kind: SLI
metadata: {name: ttft}
spec:
  ratioMetric:
    counter: true
    good:
      metricSource:
        type: Prometheus
        spec: {query: 'sum(rate(vllm:time_to_first_token_seconds_bucket{le="2.5"}[5m]))'}
    total:
      metricSource:
        type: Prometheus
        spec: {query: 'sum(rate(vllm:time_to_first_token_seconds_count[5m]))'}
"""


def translated(*changes):
    text = SLO
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return read(text, "f")


def test_an_slo_of_others_is_an_objective_of_ours():
    (chat,) = translated().definitions

    assert chat.name == "Chat TTFT"
    assert sentence(chat.objective) == (
        "p95 ttft <= 2.5s in 99.5% of minutes per calendar month in America/New_York"
    )
    assert chat.labels == (("cost_centre", "7"), ("team", "a,b"))
    assert not translated().losses


def test_one_slo_may_hold_several_objectives():
    second = (
        "    - {displayName: Contract, targetPercent: 99, timeSliceTarget: 0.9, timeSliceWindow: 1}"
    )
    text = SLO.replace("timeSliceWindow: 1m}", f"timeSliceWindow: 1m}}\n{second}")

    names = [each.name for each in read(text, "f").definitions]

    assert names == ["Chat TTFT Good", "Chat TTFT Contract"]


def test_the_second_alpha_names_things_otherwise():
    new = translated(
        ("openslo/v1", "openslo.com/v2alpha"),
        ("indicatorRef", "sliRef"),
        (
            "      metricSource:\n        type: Prometheus\n        spec:",
            "      dataSourceRef: prom\n      spec:",
        ),
    )

    assert new.definitions == translated().definitions


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([("duration: 1M", "duration: 1m")], "1m by the calendar is no day, week, month"),
        ([("duration: 1M", "duration: 2M")], "2M by the calendar is no day, week, month"),
        ([("duration: 1M", "duration: month")], "'month' is no duration"),
        ([("America/New_York", "EST5EDT4")], "'EST5EDT4' is no zone"),
        ([("Timeslices", "RatioTimeslices")], "the budgeting method 'RatioTimeslices' is not ours"),
        ([("timeSliceWindow: 1m", "timeSliceWindow: 5m")], "time slices of 5m are not ours"),
        ([("timeSliceTarget: 0.95, ", "")], "'timeSliceTarget' is missing"),
        ([("target: 0.995", "target: 1.0")], "'1.0' is no share below 1"),
        ([("target: 0.995", "target: 99.5")], "'99.5' is no share below 1"),
        ([("target: 0.995,", "")], "has no target or two"),
        ([("indicatorRef: ttft", "indicatorRef: tft")], "there is no SLI 'tft' in this file"),
        ([("  indicatorRef: ttft\n", "")], "has no indicator"),
        ([("    good:", "    raw:")], "gives no total with either good or bad"),
        ([("vllm:time_to_first_token_seconds_bucket", "x_bucket")], "is not recognised"),
        ([("{query:", "{text:")], "has no query that can be read"),
        (
            [
                (
                    "      calendar: {startTime: 2024-01-01 00:00:00, timeZone: America/New_York}\n",
                    "",
                ),
            ],
            "is neither rolling nor calendar-aligned",
        ),
        ([("  objectives:\n", "  objectivs:\n")], "it has no objectives"),
        ([("name: chat-ttft, displayName: Chat TTFT", "name: '!'")], "'!' is no name"),
    ],
)
def test_what_cannot_be_taken_over_is_left_out_and_named(changes, told):
    found = translated(*changes)

    assert not found.definitions
    assert told in found.losses[-1].what
    assert found.losses[-1].dropped
    assert found.losses[-1].where.startswith("f:")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ([("00:00:00", "12:30:00")], "the month begins at 2024-01-01 12:30:00; ours begins at"),
        ([("  budgetingMethod", "  alertPolicies: [page]\n  budgetingMethod")], "'alertPolicies'"),
        (
            [("kind: SLI", "kind: AlertPolicy\n---\napiVersion: openslo/v1\nkind: SLI")],
            "AlertPolicy is not taken over",
        ),
        (
            [
                (
                    "      calendar: {startTime: 2024-01-01 00:00:00, timeZone: America/New_York}",
                    "      isRolling: true",
                )
            ],
            "1M rolling is taken as 30 days",
        ),
    ],
)
def test_what_is_taken_over_otherwise_is_noted(changes, told):
    found = translated(*changes)

    assert len(found.definitions) == 1
    assert told in found.losses[0].what
    assert not found.losses[0].dropped


@pytest.mark.parametrize(
    ("duration", "period"), [("4w", "28d"), ("90d", "90d"), ("12h", "12h"), ("1Q", "90d")]
)
def test_a_rolling_window_is_as_long_as_it_says(duration, period):
    (chat,) = translated(
        ("duration: 1M", f"duration: {duration}"),
        (
            "      calendar: {startTime: 2024-01-01 00:00:00, timeZone: America/New_York}",
            "      isRolling: true",
        ),
    ).definitions

    assert sentence(chat.objective).endswith(f"over {period}")


@pytest.mark.parametrize(
    ("op", "query", "said"),
    [
        (
            "lte",
            "max(stagewatch_kv_cache_usage_ratio)",
            "kv_cache_usage <= 90% in 99.5% of minutes",
        ),
        ("gt", "min(stagewatch_kv_cache_usage_ratio)", "kv_cache_usage >= 90% in 99.5% of minutes"),
        (
            "lt",
            "histogram_quantile(0.9, sum by (le) (rate(stagewatch_ttft_seconds_bucket[5m])))",
            "p90 ttft <= 900ms in 99.5% of minutes",
        ),
    ],
)
def test_a_threshold_is_compared_as_its_operator_says(op, query, said):
    inline = f"indicator: {{spec: {{thresholdMetric: {{metricSource: {{spec: {{query: '{query}'}}}}}}}}}}"
    found = translated(
        ("indicatorRef: ttft", inline), ("target: 0.995", f"op: {op}, value: 0.9, target: 0.995")
    )

    assert sentence(found.definitions[0].objective).startswith(said)
    assert len(found.losses) == (op in ("lt", "gt"))


def test_a_quantile_has_no_occurrences():
    query = "histogram_quantile(0.9, sum by (le) (rate(stagewatch_ttft_seconds_bucket[5m])))"
    inline = f"indicator: {{spec: {{thresholdMetric: {{metricSource: {{spec: {{query: '{query}'}}}}}}}}}}"
    found = translated(
        ("indicatorRef: ttft", inline),
        ("target: 0.995", "op: lte, value: 0.9, target: 0.995"),
        ("Timeslices", "Occurrences"),
    )

    assert "no occurrences" in found.losses[0].what


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: openslo/v1alpha\nkind: SLO", "has the version 'openslo/v1alpha'"),
        ("apiVersion: openslo/v1\nkind: Service\nmetadata: {name: a}", "holds no SLO"),
        ("- 3", "is no mapping"),
        ("", "holds no SLO"),
        ("a: &b [c]\nd: *b", "is an alias"),
    ],
)
def test_what_is_no_openslo_is_refused(text, told):
    with pytest.raises(ConfigError, match=told):
        read(text, "f")


def test_a_composite_cannot_be_exported_and_that_is_said():
    (lost,) = losses(
        [], load_all("- preset: chat\n- {name: c, all_of: [chat-ttft, chat-itl]}").composites
    )

    assert lost.dropped
    assert "OpenSLO v1 has no composites" in lost.what


def test_an_export_is_openslo_as_others_read_it_golden(golden):
    golden(
        "openslo.yaml",
        written(
            load("""
    - {phrase: p99 ttft <= 1.5s over 30d where service=chat, runbook: "https://wiki.example/a", for: 2min}
    - 99.9% available in 99% of minutes per calendar month in Europe/Berlin
    """)
        ),
    )


def test_an_objective_that_nothing_could_watch_is_left_out():
    found = translated(("duration: 1M", "duration: 1Y"), ("target: 0.995", "target: 0.5"))

    assert not found.definitions
    assert "no rule can ever fire" in found.losses[0].what
