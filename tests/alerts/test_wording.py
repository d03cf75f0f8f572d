"""What each kind of promise counts, what its bad ones did, and what was promised."""

import pytest

from alerts import wording
from tests.alerts.fleet import chat

KINDS = {
    "p99 ttft <= 1.5s": (
        "requests",
        "waited more than 1.5 s for the first token",
        "P99 TTFT ≤ 1.5 s",
    ),
    "p99.95 itl <= 50ms": (
        "gaps between tokens",
        "were longer than 50 ms",
        "P99.95 ITL ≤ 50 ms",
    ),
    "99.9% available over 30d": ("requests", "failed", "99.9 % answered"),
    "goodput ttft <= 1s and tpot <= 50ms 99% over 30d": (
        "requests",
        "failed or broke a limit (TTFT ≤ 1 s, TPOT ≤ 50 ms)",
        "99 % with TTFT ≤ 1 s, TPOT ≤ 50 ms",
    ),
    "generation_tokens >= 500/s in 99% of minutes over 30d": (
        "minutes",
        "saw less than 500/s of generation tokens",
        "99 % of minutes: generation tokens ≥ 500/s",
    ),
    "gpu_temperature <= 85 in 99% of minutes over 30d": (
        "minutes",
        "saw gpu temperature > 85",
        "99 % of minutes: gpu temperature ≤ 85",
    ),
    "no engine stalled in 99.9% of minutes over 30d": (
        "minutes",
        "saw engine stalled",
        "99.9 % of minutes: no engine stalled",
    ),
    "p99 ttft <= 1.5s in 95% of minutes over 14d": (
        "minutes",
        "had fewer than 99 % of requests that kept TTFT ≤ 1.5 s",
        "95 % of minutes: 99 % of requests with TTFT ≤ 1.5 s",
    ),
}


@pytest.mark.parametrize("phrase", KINDS)
def test_every_kind_says_what_it_counts_and_promises(phrase):
    objective = chat(f"- {phrase}")[0].objective

    said = wording.unit(objective), wording.deed(objective), wording.promised(objective)

    assert said == KINDS[phrase]


def test_only_latencies_leave_it_to_the_stages_where_to_look():
    looks = [wording.look(chat(f"- {phrase}")[0].objective.indicator) for phrase in KINDS]

    assert [bool(each) for each in looks] == [False, False, True, False, True, True, True, False]


def test_a_target_is_written_exactly_and_a_measured_share_to_three_figures():
    objective = chat("- p99.95 ttft <= 1s")[0].objective

    assert wording.share(objective.target) == "99.95 %"
    assert wording.percent(objective.budget) == "0.05 %"
