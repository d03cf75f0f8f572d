"""What is old is let go tier by tier, after its sum stands in the next; nothing counts twice."""

import pytest

from collector.schema import TIERS_S
from collector.settings import TierRetention
from tests.collector.storing import (
    NOW_S,
    distribution,
    gauge_of,
    histogram_of,
    legs_in,
    metrics,
    rows,
    span,
    traces,
    writing,
)

DAY_S = 86_400
HOUR_S = 3600


class Clock:
    """A clock that the test moves."""

    def __init__(self, now_s=NOW_S):
        self.now_s = now_s

    def __call__(self):
        return self.now_s


def cleaned(path, now_s, *exports, **settings):
    """Send these, then let go of what is old at that instant."""
    clock = Clock(now_s)
    with writing(path, now=clock, **settings) as writer:
        for export in exports:
            writer.traces(export)
        writer.retain()


def request(number, end_s):
    return traces(span(number, end_s=end_s, gen_ai__latency__e2e=1.0))


def counts(path):
    return {tier: distribution(path, "e2e", tier).n for tier in TIERS_S}


def test_each_tier_is_kept_for_its_own_time(tmp_path):
    ages_s = (60, 2 * DAY_S, 20 * DAY_S, 500 * DAY_S)
    cleaned(tmp_path, NOW_S, *(request(n + 1, NOW_S - age) for n, age in enumerate(ages_s)))

    with writing(tmp_path) as writer:
        writer.settle()
    assert counts(tmp_path) == {10: 1, 60: 2, 3600: 3, 86_400: 4}


def test_nothing_is_lost_when_a_tier_is_retired_before_it_was_rolled(tmp_path):
    cleaned(tmp_path, NOW_S, *(request(n + 1, NOW_S - DAY_S - 60 - 7 * n) for n in range(50)))
    with writing(tmp_path, now=Clock()) as writer:
        writer.settle()

    assert counts(tmp_path)[10] == 0
    assert [counts(tmp_path)[tier] for tier in TIERS_S[1:]] == [50, 50, 50]


def test_data_older_than_a_retired_tier_enters_the_next_and_adds_up(tmp_path):
    old_s = NOW_S - 3 * DAY_S
    cleaned(tmp_path, NOW_S, request(1, old_s))
    cleaned(tmp_path, NOW_S, request(2, old_s), request(3, old_s - 30 * DAY_S))
    with writing(tmp_path, now=Clock()) as writer:
        writer.settle()

    found = counts(tmp_path)
    assert (found[10], found[60], found[3600], found[86_400]) == (0, 2, 3, 3)


def test_an_old_span_sent_again_after_its_tier_was_retired_counts_once(tmp_path):
    for _ in range(3):
        cleaned(tmp_path, NOW_S, request(1, NOW_S - 3 * DAY_S))
    with writing(tmp_path, now=Clock()) as writer:
        writer.settle()

    assert counts(tmp_path)[86_400] == 1


def test_what_is_older_than_everything_kept_is_refused(tmp_path):
    with writing(tmp_path) as writer:
        outcome = writer.traces(request(1, NOW_S - 2000 * DAY_S))

    assert outcome.rejected == 1
    assert "older than anything kept" in outcome.message


def test_requests_are_kept_for_their_time_since_they_ended_or_came(tmp_path):
    cleaned(tmp_path, NOW_S, request(1, NOW_S - 30), request(2, NOW_S - 10 * DAY_S))
    assert len(legs_in(tmp_path)) == 2  # an old file that was just imported is worth looking at

    cleaned(tmp_path, NOW_S + 4 * DAY_S)
    assert legs_in(tmp_path) == []


def test_many_segments_go_in_small_steps(tmp_path):
    exports = [request(n + 1, NOW_S - n) for n in range(100)]
    cleaned(tmp_path, NOW_S, *exports)
    cleaned(tmp_path, NOW_S + 4 * DAY_S)

    assert rows(tmp_path, "SELECT count(*) FROM segment") == [(0,)]


def test_the_ledgers_of_points_go_with_what_they_guard(tmp_path):
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

    gauge = gauge_of(Metric(name="stagewatch_up"), 1.0, at_s=NOW_S - 60)
    latency = histogram_of(
        Metric(name="stagewatch_ttft_seconds", unit="s"),
        [1.0],
        start_s=NOW_S - 62,
        end_s=NOW_S - 60,
    )
    with writing(tmp_path) as writer:
        writer.metrics(metrics(gauge, latency))
    cleaned(tmp_path, NOW_S + 2 * DAY_S)
    assert rows(tmp_path, "SELECT count(*) FROM readings") == [(0,)]
    assert rows(tmp_path, "SELECT count(*) FROM coverage") == [(1,)]

    cleaned(tmp_path, NOW_S + 1900 * DAY_S)
    assert rows(tmp_path, "SELECT count(*) FROM coverage") == [(0,)]
    assert all(rows(tmp_path, f"SELECT count(*) FROM histogram_{t}") == [(0,)] for t in TIERS_S)  # noqa: S608


def test_a_delta_sent_again_after_two_tiers_are_gone_is_still_known(tmp_path):
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

    latency = histogram_of(
        Metric(name="stagewatch_e2e_seconds", unit="s"), [1.0], start_s=NOW_S - 62, end_s=NOW_S - 60
    )
    for day in (0, 2, 20):
        with writing(tmp_path, now=Clock(NOW_S + day * DAY_S)) as writer:
            writer.metrics(metrics(latency))
            writer.retain()
            writer.settle()

    assert counts(tmp_path) == {10: 0, 60: 0, 3600: 1, 86_400: 1}


@pytest.mark.parametrize("now_s", [NOW_S, NOW_S + 1234.5, NOW_S + 5 * HOUR_S])
def test_a_cutoff_lies_on_the_edge_of_the_next_tier(tmp_path, now_s):
    cleaned(tmp_path, now_s, retention=TierRetention(tier_10s_s=HOUR_S))

    cutoffs = {
        int(key.partition(":")[2]): int(value)
        for key, value in rows(tmp_path, "SELECT key, value FROM meta WHERE key LIKE 'cutoff:%'")
    }
    assert set(cutoffs) == {10, 60, 3600}
    for tier, coarser in ((10, 60), (60, 3600), (3600, DAY_S)):
        assert cutoffs[tier] % coarser == 0


def test_small_segments_of_an_hour_become_few_and_the_legs_stay(tmp_path):
    from collector import segments

    with writing(tmp_path) as writer:
        for n in range(segments.MANY + 5):
            writer.traces(request(n + 1, NOW_S - 30 - n))
        before = sorted(legs_in(tmp_path), key=lambda leg: leg.trace_id)
        writer.compact()
        outcome = writer.traces(request(3, NOW_S - 32))
        duplicates = writer.counts()["duplicate_spans_total"]

    assert rows(tmp_path, "SELECT count(*) FROM segment")[0][0] <= 6
    assert sorted(legs_in(tmp_path), key=lambda leg: leg.trace_id) == before
    assert (outcome.rejected, duplicates) == (0, 1)
