"""Whole ladders against a real server on loopback: what is planted is found and said."""

import asyncio
import io
import time

import pytest

from exporters.ladder.ask import Prompts, sample_of
from exporters.ladder.calibrate import Scale, calibrate
from exporters.ladder.climb import Order, climb
from exporters.ladder.cost import Price
from exporters.ladder.knee import Beyond
from exporters.ladder.objective import parse_goal
from exporters.ladder.plan import Guards, Plan, Shape
from exporters.ladder.progress import Progress
from exporters.ladder.sample import Phase
from exporters.ladder.words import caveats, findings
from exporters.probe.exchange import Exchange
from exporters.probe.failure import ProbeError
from exporters.probe.settings import ProbeTarget
from tests.exporters.probe.streaming_server import StreamingServer

TINY = Shape(name="short", prompt_tokens=60, output_tokens=10)
QUICK = {"first_token_s": 0.03, "gap_s": 0.01, "tokens": 10}
"""0.12 s an answer: gaps that even a busy machine keeps."""


def target(server, **more):
    return ProbeTarget(service="chat", model="m", url=server.url, usage="final", **more)


def order_of(server, concurrencies=(1, 2), **more):
    told = {"requests": 12, "rounds": 1, **more.pop("plan", {})}
    plan = Plan(shapes=(TINY,), concurrencies=concurrencies, **told)
    return Order(target=more.pop("target", target(server)), plan=plan, **more)


def climbed(order, *, interrupt_after=None, kept=None):
    """The measurement, and what was said on the way."""
    said = io.StringIO()

    async def keep(exchanges):
        if kept is not None:
            kept.extend(exchanges)

    async def whole():
        interrupted = asyncio.Event()
        if interrupt_after is not None:
            asyncio.get_running_loop().call_later(interrupt_after, interrupted.set)
        return await climb(order, Progress(order.plan, out=said), interrupted, keep)

    return asyncio.run(whole()), said.getvalue()


def test_a_planted_limit_of_four_streams_is_found_and_said():
    with StreamingServer(concurrency=4, **QUICK) as server:
        order = order_of(server, (1, 2, 4, 8, 16), plan={"requests": 20, "rounds": 3})
        found, said = climbed(order)

    (only,) = found.climbs
    assert only.knee.beyond is Beyond.QUEUES
    assert only.knee.from_concurrency == 4
    assert only.knee.slots == pytest.approx(4, rel=0.1)
    assert findings(found)["short"][0].startswith("Above ")
    assert " 4 concurrent requests the server queues: TTFT grows by" in findings(found)["short"][0]
    assert only.knee.ttft_growth_s == pytest.approx(0.12 / 4, rel=0.25)
    assert "short c=16, run 3/3: 32/32 requests" in said
    assert not found.ended


def test_what_was_measured_is_what_the_server_did():
    with StreamingServer(**QUICK) as server:
        found, _ = climbed(order_of(server, (2,), plan={"requests": 20}))
        truth = server.truth()

    (step,) = found.steps
    (run,) = step.runs
    gaps_s = sorted(
        (later - sooner) / 1e9
        for each in truth
        for sooner, later in zip(each["tokens"], each["tokens"][1:], strict=False)
    )
    assert run.latencies["itl"]["p50"].value_s == pytest.approx(gaps_s[len(gaps_s) // 2], rel=0.05)
    assert run.requests == 20
    assert run.in_flight == pytest.approx(2, rel=0.15)
    assert found.requests == len(truth)
    assert found.prompt_tokens >= 20 * 59


def test_no_two_prompts_begin_alike_and_all_have_the_length_that_was_asked_for():
    with StreamingServer(**QUICK) as server:
        found, _ = climbed(order_of(server, (4,)))
        asked = [each["asked"]["messages"][0]["content"] for each in server.truth()]

    assert len({text.split()[0] for text in asked}) == len(asked)
    assert found.steps[0].figure("prompt_tokens").median == pytest.approx(60, abs=1)
    assert not [each for each in caveats(found) if "asked for prompts" in each]


def test_a_shared_prefix_is_shared_only_where_it_was_asked_for():
    own, shared = Prompts(seed="1"), Prompts(seed="1", shared_prefix=True)
    texts = [shared.text(50) for _ in range(3)]

    assert len({text.rsplit(" ", 1)[0] for text in texts}) == 1
    assert len(set(texts)) == 3
    assert own.text(50).split()[0] != own.text(50).split()[0]
    assert Prompts(seed="1").text(50) == Prompts(seed="1").text(50)
    assert len(own.text(50).split()) == 50


def test_answers_have_full_length_where_the_server_takes_the_word():
    with StreamingServer(**QUICK) as server:
        climbed(order_of(server, (1,)))
        asked = [each["asked"] for each in server.truth()]

    assert all(each["ignore_eos"] is True for each in asked)
    assert [each["max_tokens"] for each in asked].count(10) >= 12


def test_a_server_that_rejects_the_word_is_asked_without_it():
    with StreamingServer(status=400, refuse=1, body='{"error": "ignore_eos?"}', **QUICK) as server:
        found, _ = climbed(order_of(server, (1,)))
        asked = [each["asked"] for each in server.truth()]

    assert ["ignore_eos" in each for each in asked] == [True] + [False] * (len(asked) - 1)
    assert not found.ignores_eos


def test_an_endpoint_that_does_not_answer_is_an_error_with_a_way_out():
    with (
        StreamingServer(status=503, body='{"message": "loading"}') as server,
        pytest.raises(ProbeError, match="one request must stream before many"),
    ):
        climbed(order_of(server))


def test_rate_limits_stop_the_step_and_are_named():
    with StreamingServer(concurrency=1, queue=1, **QUICK) as server:
        found, said = climbed(order_of(server, (1, 8, 16), plan={"requests": 20, "rounds": 2}))

    assert [each.step.concurrency for each in found.steps] == [1, 8]
    assert len(found.steps[1].runs) == 1
    assert "rate limited (HTTP 429)" in found.steps[1].stopped
    assert any("c=8 was stopped" in each and "HTTP 429" in each for each in caveats(found))
    assert "rate limited" in said


def test_failing_workers_do_not_hammer():
    with StreamingServer(**QUICK) as server:
        failing = target(server, headers={"x-plan": "{}"})
        found, _ = climbed(order_of(server, (1,), target=failing))
        assert not found.steps[0].failures

    with StreamingServer(concurrency=1, queue=0, **QUICK) as server:
        begun_s = time.monotonic()
        guards = Guards(max_error_share=1.0, run_s=1.0)
        climbed(order_of(server, (8,), plan={"guards": guards, "requests": 400}))
        refused_hz = len(server.truth()) / (time.monotonic() - begun_s)

    assert refused_hz < 8 * 10


def test_no_more_requests_are_sent_than_allowed():
    with StreamingServer(**QUICK) as server:
        guards = Guards(max_requests=30)
        found, _ = climbed(order_of(server, (2, 4), plan={"guards": guards, "requests": 40}))
        sent = len(server.truth())

    assert sent == found.requests == 30
    assert "as many as --max-requests allows" in found.ended
    assert found.steps[0].requests > 0


def test_no_more_money_is_spent_than_allowed():
    price = Price(per_million_input=100.0, per_million_output=1000.0)
    with StreamingServer(**QUICK) as server:
        plan = {"guards": Guards(max_spend=0.3), "price": price, "requests": 100}
        found, _ = climbed(order_of(server, (2,), plan=plan))

    cost = price.of_tokens(found.prompt_tokens, found.output_tokens)
    assert 0.2 < cost <= 0.3
    assert found.spent == pytest.approx(cost)
    assert "--max-spend is $0.30" in found.ended


def test_ctrl_c_gives_what_was_measured_until_then():
    with StreamingServer(**QUICK) as server:
        order = order_of(server, (1, 2), plan={"requests": 200})
        found, _ = climbed(order, interrupt_after=1.5)

    assert found.ended == "interrupted"
    assert 0 < found.steps[0].requests < 200
    assert found.steps[0].latency("ttft", "p50").median >= 0.03


def test_a_run_ends_after_its_time_with_what_it_has():
    with StreamingServer(**QUICK) as server:
        plan = {"requests": 1000, "guards": Guards(run_s=1.0)}
        found, _ = climbed(order_of(server, (1,), plan=plan))

    assert 3 <= found.steps[0].requests <= 9
    assert not found.ended


def test_arrivals_do_not_wait_and_their_latency_counts_from_when_they_were_due():
    with StreamingServer(concurrency=1, **QUICK) as server:
        plan = {"rates_hz": (16.0,), "guards": Guards(max_in_flight=1), "requests": 40}
        found, _ = climbed(order_of(server, (), plan=plan))

    (step,) = found.steps
    sent, due = step.latency("ttft", "p50").median, step.latency("ttft_intended", "p50").median
    assert sent < 0.06
    assert due > 5 * sent


def test_open_steps_go_at_shares_of_the_best_rate():
    with StreamingServer(concurrency=2, **QUICK) as server:
        plan = {"rate_shares": (0.5,), "requests": 12, "rounds": 2}
        found, _ = climbed(order_of(server, (2,), plan=plan, goal=parse_goal(["ttft<=5s"])))

    closed, opened = found.steps
    assert opened.step.rate_hz == pytest.approx(closed.runs[0].requests_hz / 2)
    assert len(opened.runs) == 2
    assert opened.good == opened.requests == 24


def test_every_exchange_is_kept_for_the_store():
    kept = []
    with StreamingServer(**QUICK) as server:
        found, _ = climbed(order_of(server, (1, 2)), kept=kept)

    assert len(kept) == found.requests
    assert all(isinstance(each, Exchange) for each in kept)


@pytest.mark.parametrize("per_word", [1.0, 1.4, 3.0])
@pytest.mark.parametrize("extra", [0, 9, 60])
def test_words_are_found_for_the_tokens_that_are_asked_for(per_word, extra):
    scale = Scale.through(
        (32, round(32 * per_word + extra)), (2048, round(2048 * per_word + extra))
    )

    for tokens in (128, 2048):
        assert scale.words_for(tokens) * per_word + extra == pytest.approx(tokens, abs=per_word + 1)


@pytest.mark.parametrize("counted", [(100, 100), (100, 50), (100, 10_000_000)])
def test_counts_that_cannot_be_are_not_believed(counted):
    scale = Scale.through((32, counted[0]), (64, counted[1]))

    assert scale.words_for(128) == 128


def test_a_server_that_does_not_count_is_asked_in_words():
    with StreamingServer(usage="none", **QUICK) as server:
        found, _ = climbed(order_of(server, (1,)))

    assert found.tokens_per_word is None
    assert any("does not say how many tokens a prompt has" in each for each in caveats(found))
    assert found.steps[0].figure("prompt_tokens_hz").median is None
    assert found.steps[0].figure("tokens_hz").median > 0


def test_what_a_server_refuses_of_usage_is_learnt_once():
    with StreamingServer(usage="never", **QUICK) as server:
        found = asyncio.run(
            calibrate(target(server), (TINY,), Prompts(seed="1"), timeout_s=5, ignore_eos=False)
        )

    assert found.target.usage == "none"


def test_an_answer_without_a_token_is_a_failure():
    silent = Exchange(url="http://x", started_at_ns=1, reason="no_content", output_tokens=5)
    made = sample_of(silent, phase=Phase.MEASURED, intended_at_s=1.0, sent_at_s=1.0)

    assert made.failure == "no_content"
    assert made.ttft_s is None
