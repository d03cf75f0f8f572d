"""The guilty stage: which grew most, where it is worst, and what nobody measured."""

from dataclasses import replace

import numpy as np

from alerts.blame import Blame, blame, per_token, worst_region
from alerts.codec import blame_from, blame_text
from alerts.message import accusation
from collector.query import Flow, Point, Series, Stages, StageShare, Window
from domain.distribution import EMPTY, exact
from domain.request import Stage

WINDOW = Window(since_s=0, until_s=300)
FLOW = Flow(started=None, finished=None, failed=None, cancelled=None, rejected=None)


def stages(means_s, labels=(), window=WINDOW):
    return Stages(
        labels=labels,
        window=window,
        e2e=exact(np.array([1.0])),
        ttft=exact(np.array([1.0])),
        stages=[
            StageShare(stage=Stage(name), distribution=EMPTY, mean_s=mean_s, share=None)
            for name, mean_s in means_s.items()
        ],
        missing=tuple(stage for stage in Stage if stage.value not in means_s),
        flow=FLOW,
    )


BEFORE = stages({"overhead": 0.01, "queue": 0.05, "prefill": 0.2, "decode": 4.0})
NOW = stages({"overhead": 0.01, "queue": 2.1, "prefill": 0.25, "decode": 9.0})


def on(replica, queue_s):
    return stages({"queue": queue_s}, labels=(("pool", "chat"), ("replica", replica)))


def test_the_stage_that_grew_most_is_guilty():
    found = blame("ttft", NOW, BEFORE)

    assert found.stage is Stage.QUEUE
    assert (found.now_s, found.before_s) == (2.1, 0.05)
    assert round(found.share, 3) == round(2.05 / 2.10, 3)


def test_decode_is_not_to_blame_for_the_first_token():
    assert blame("e2e", NOW, BEFORE).stage is Stage.DECODE
    assert blame("ttft", NOW, BEFORE).stage is not Stage.DECODE


def test_what_nobody_measured_is_named():
    assert blame("ttft", NOW, BEFORE).missing == (Stage.NETWORK, Stage.KV_TRANSFER)


def test_without_a_before_the_longest_stage_is_named_as_just_that():
    found = blame("ttft", NOW, None)

    assert (found.stage, found.before_s) == (Stage.QUEUE, None)
    assert "is the longest stage" in accusation(found)


def test_without_any_stage_nobody_is_accused():
    found = blame("ttft", None, None)

    assert found.stage is None
    assert accusation(found).startswith("Which stage is at fault is not known. Not measured:")


def test_one_replica_that_stands_out_is_named():
    found = blame("ttft", NOW, BEFORE, [on("a", 0.1), on("b", 6.0), on("c", 0.2)])

    assert found.place.labels == (("pool", "chat"), ("replica", "b"))
    assert (found.place.mean_s, found.place.median_s) == (6.0, 0.2)
    assert "worst on b (pool chat) with 6 s against 200 ms" in accusation(found)


def test_replicas_that_are_all_slow_are_not_singled_out():
    found = blame("ttft", NOW, BEFORE, [on("a", 2.0), on("b", 2.2)])

    assert not found.place.stands_out
    assert "on all 2 replicas of pool chat alike" in accusation(found)


def test_the_network_is_worst_in_a_region_and_not_on_the_replica_that_answers():
    found = worst_region({"us-east-1": 0.9, "eu-west-1": 0.05, "": 3.0})

    assert (found.name, found.of, found.stands_out) == ("us-east-1", "region", True)
    accused = Blame(stage=Stage.NETWORK, now_s=0.4, before_s=0.1, share=1.0, place=found)
    assert "worst in us-east-1 with 900 ms against 50 ms in the median region" in accusation(
        accused
    )
    assert worst_region({"": 3.0}) is None


def test_where_only_intervals_are_known_their_sure_end_counts():
    coarse = StageShare(
        stage=Stage.PREFILL, distribution=exact(np.full(10, 0.5)), mean_s=None, share=None
    )
    now = Stages(
        labels=(), window=WINDOW, e2e=EMPTY, ttft=EMPTY, stages=[coarse], missing=(), flow=FLOW
    )

    found = blame("ttft", now, BEFORE)

    assert found.stage is Stage.PREFILL
    assert 0.49 < found.now_s < 0.5


def test_the_sentence_says_stage_growth_next_step_and_gaps():
    assert accusation(blame("ttft", NOW, BEFORE)) == (
        "Queue carries 98 % of what grew: now 2.1 s, 50 ms before. "
        "Next: look at running and waiting requests per replica: shed load, or add capacity. "
        "Not measured: network, kv transfer."
    )


def test_when_the_question_could_not_be_asked_it_says_so():
    assert accusation(None) == "Which stage is at fault could not be asked."


def leg(replica, role, queue_s):
    labels = (("pool", f"chat-{role}"), ("replica", replica), ("role", role))
    return stages({"queue": queue_s}, labels=labels)


def test_a_prefill_replica_is_compared_with_prefill_replicas_only():
    prefill = [leg(f"p{n}", "prefill", 12.0 + n / 10) for n in range(3)]
    decode = [leg(f"d{n}", "decode", 0.009) for n in range(3)]

    found = blame("ttft", NOW, BEFORE, [*prefill, *decode])

    assert not found.place.stands_out
    assert found.place.replicas == 3
    assert "on all 3 replicas of pool chat-prefill alike" in accusation(found)


def test_one_bad_prefill_replica_stands_out_of_its_pool():
    prefill = [leg("p0", "prefill", 12.0), leg("p1", "prefill", 0.2), leg("p2", "prefill", 0.1)]
    decode = [leg(f"d{n}", "decode", 0.009) for n in range(3)]

    found = blame("ttft", NOW, BEFORE, [*prefill, *decode])

    assert found.place.stands_out
    assert "worst on p0 (pool chat-prefill) with 12 s against 200 ms" in accusation(found)


def test_a_stage_that_shrank_is_not_blamed_for_growing():
    shorter = stages({"queue": 0.01, "prefill": 0.1})

    found = blame("ttft", shorter, BEFORE)

    assert (found.stage, found.share) == (Stage.PREFILL, None)
    assert "is the longest stage, though none grew" in accusation(found)


def tokens(mean_s, n=100, labels=()):
    values = exact(np.full(n, mean_s))
    return Series(labels=labels, points=[Point(since_s=0, until_s=300, distribution=values)])


def test_longer_answers_are_not_to_blame_for_a_promise_on_tokens():
    """Decode takes three times as long, because answers are three times as long: nothing grew."""
    before = per_token([tokens(0.02)], WINDOW)
    now = per_token([tokens(0.02)], WINDOW)

    found = blame("tpot", now[0], before[0])

    assert (found.stage, found.share) == (Stage.DECODE, None)
    assert "Decode per token is the longest stage, though none grew" in accusation(found)


def test_a_promise_on_tokens_is_compared_token_by_token():
    now = per_token([tokens(0.08)], WINDOW)
    replicas = per_token(
        [tokens(0.02, labels=(("replica", "a"),)), tokens(0.14, labels=(("replica", "b"),))], WINDOW
    )

    said = accusation(blame("itl", now[0], per_token([tokens(0.02)], WINDOW)[0], replicas))

    assert said.startswith("Decode per token carries 100 % of what grew: now 80 ms, 20 ms before")
    assert "worst on b with 140 ms against 20 ms" in said


def test_without_a_token_nobody_is_accused():
    assert per_token([Series(labels=(), points=[])], WINDOW) == []
    assert blame("tpot", None, None).missing == (Stage.DECODE,)


def test_an_engine_that_stood_still_is_behind_what_grew():
    stood = "vllm-3 of chat moves again since 10:00:20 UTC; it had stood still for at least 12 s."
    found = replace(blame("ttft", NOW, BEFORE), behind=(stood,))

    said = accusation(found)

    assert said.startswith(f"Behind it: {stood} What grew below is a consequence. Queue carries")
    assert blame_from(blame_text(found)) == found
