"""Small situations with the right verdict, DG1 to DG12: from public reports and the seeds."""

from alerts.diagnosis.catalogue import RULES
from alerts.diagnosis.facts import Aborted, Restarted
from alerts.diagnosis.judgement import judge, judge_one
from alerts.diagnosis.signals import Signal
from domain.request import Stage
from tests.alerts.diagnosis.situations import situation

S = Signal
BY_ID = {rule.id: rule for rule in RULES}


def first(signals):
    return judge(signals).causes[0]


def rules(signals):
    return [each.rule for each in judge(signals).causes]


def missing(signals, rule):
    return next(each.missing for each in judge(signals).not_evaluated if each.rule == rule)


def test_dg1_a_queue_is_no_matter_of_kernels():
    found = first(situation({S.QUEUE_P95: 1.5, S.PREFILL_P95: 0.2, S.REQUESTS: 800}))

    assert found.rule == "A5"
    assert "concurrency" in found.next_step
    assert "faster kernels would not help" in found.next_step


def test_dg2_the_mean_is_fine_and_the_tail_is_not():
    told = {S.TTFT_P50: 0.2, S.TTFT_P99: 8.0, S.TTFT_MEAN: 0.59, S.TTFT_PROMISE: 1.5}

    assert first(situation({**told, S.REQUESTS: 300})).rule == "A7"
    assert "40×" in first(situation({**told, S.REQUESTS: 300})).evidence[0]
    assert missing(situation({**told, S.REQUESTS: 100}), "A7") == ("100 of 300 requests",)


def test_dg3_the_router_comes_before_capacity():
    found = judge(
        situation(
            {S.QUEUE_P99: 9.0, S.REQUESTS: 800, S.DECODE_KV: 0.4},
            places={S.WAITING_BY: {"p0": 83.0, "p1": 0.0, "p2": 0.0}},
        )
    )

    assert [each.rule for each in found.causes] == ["E10", "A3c"]
    assert not any("add prefill" in each.next_step for each in found.causes)


def test_dg4_prefill_waits_for_decode():
    found = judge(
        situation({S.QUEUE_P99: 144.0, S.REQUESTS: 800, S.PREFILL_LOAD: 0.15, S.DECODE_KV: 0.97})
    )

    assert {each.rule for each in found.causes} == {"A3b", "E9"}
    assert all("decode" in each.next_step.lower() for each in found.causes)


def test_dg5_a_preemption_cliff_makes_the_hit_rate_unreliable():
    found = judge(
        situation(
            {
                S.PREEMPTIONS: 110,
                S.REQUESTS: 1000,
                S.KV_USAGE: 0.99,
                S.TTFT_P99: 4.7,
                S.PREFIX_HITS: 0.6,
            },
            before={S.TTFT_P99: 1.0, S.PREFIX_HITS: 0.5},
        )
    )

    assert found.causes[0].rule == "E1"
    assert any("not to be trusted" in each for each in found.causes[0].evidence)
    assert "E3" not in [each.rule for each in found.causes]


def test_dg6_bound_by_the_tokeniser_and_not_by_compute():
    told = rules(
        situation(
            {
                S.GPU_BUSY: 0.45,
                S.CLIENT_ITL: 0.18,
                S.ENGINE_ITL: 0.039,
                S.CPU_CORE: 0.99,
                S.ITL_P99: 0.18,
                S.ITL_PROMISE: 0.05,
            }
        )
    )

    assert told == ["E5", "B2"]


def test_dg7_a_cliff_at_29_seconds():
    cut = [Aborted(duration_s=29.01 + i / 100, status=504) for i in range(3)]
    told = {S.REQUESTS: 40, S.TTFT_P50: 0.2, S.TTFT_P99: 29.0, S.TTFT_MEAN: 1.4}

    assert rules(situation(told, aborted=cut)) == ["D1"]


def test_a_crowd_around_29_seconds_is_no_cliff():
    spread = [Aborted(duration_s=26.0 + i / 4, status=504) for i in range(28)]

    assert judge_one(BY_ID["D1"], situation(aborted=spread)) is None


def test_dg8_buffered_at_the_first_hop_where_the_ratio_jumps():
    hops = {"engine": 0.04, "Lambda": 0.96, "gateway": 0.96}

    found = first(situation({S.CHUNKS: 180}, places={S.HOPS: hops}))

    assert (found.rule, found.place) == ("D4", "Lambda")


def test_dg9_the_limit_of_streams_is_told_with_the_right_number_of_instances():
    found = first(
        situation(
            {
                S.INSTANCES: 2,
                S.SLOTS: 4,
                S.IN_FLIGHT: 8,
                S.IN_FLIGHT_SPREAD: 0.01,
                S.WAITING: 30,
                S.RATE: 2,
                S.SERVICE_TIME: 8,
            }
        )
    )

    assert found.rule == "A8"
    assert found.next_step == "run 4 instances; let 19.2 requests queue"


def test_dg10_a_drain_that_nobody_honoured():
    ended = [Restarted(place="worker-2", failures=14, first_after_s=5.0)]

    found = first(situation(restarted=ended, slow=False))

    assert found.rule == "E12"
    assert "P99 generation time" in found.next_step


def test_dg11_an_absent_signal_is_named_and_never_fine():
    assert missing(situation({S.PREEMPTIONS: 0}), "E3") == ("vllm:prefix_cache_hits_total",)


def test_dg12_short_answers_contradict():
    found = judge(
        situation(
            {
                S.TTFT_P50: 0.31,
                S.E2E_P50: 0.62,
                S.OUTPUT_P50: 13,
                S.POOL_SHAPE: 0,
                S.REQUESTS: 500,
            }
        )
    )

    assert found.causes == ()
    assert found.contradicted[0].rule == "A1"
    assert "13 tokens" in found.contradicted[0].contra[0]


def test_one_replica_that_queues_alone_is_no_reason_to_add_prefill():
    found = first(
        situation(
            {S.QUEUE_P99: 3.0, S.REQUESTS: 800},
            pools={Stage.QUEUE: "code-1"},
            lone=frozenset({Stage.QUEUE}),
        )
    )

    assert (found.rule, found.place) == ("A3c", "code-1")
    assert "before adding any GPU" in found.next_step
