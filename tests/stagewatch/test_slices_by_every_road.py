"""Every kind of objective over every road: spans over HTTP, pages of an engine, remote-write."""

import re
from fractions import Fraction

import httpx
import pytest

from collector.own_metrics import OwnMetrics
from collector.query import Window
from collector.reader import StoreReader
from domain.condition import ConditionKind
from domain.indicator import (
    AvailabilityIndicator,
    ConditionIndicator,
    GoodputIndicator,
    LatencyIndicator,
    LevelIndicator,
    Limit,
    ThroughputIndicator,
)
from domain.labels import labels_of
from domain.slice import SliceState, tally
from exporters.engine.otlp import export_request
from exporters.engine.target import TargetState
from tests.collector import storing
from tests.collector.serving import app_of, http_server
from tests.exporters.pages_of import page
from tests.stagewatch.prometheus_world import BEGIN_MS, STEP_MS, World, scrape_of

T = int(storing.NOW_S) // 3600 * 3600 - 3600
FAST = (Limit(metric="ttft", threshold_s=Fraction(1)), Limit(metric="e2e", threshold_s=Fraction(9)))
TTFT, E2E, OUT = (
    "gen_ai__latency__time_to_first_token",
    "gen_ai__latency__e2e",
    "stagewatch__outcome",
)


def asked(reader, indicator, since_s, minutes):
    return reader.slices(indicator, Window(since_s=since_s, until_s=since_s + 60 * minutes))


def states(reader, indicator, since_s, minutes):
    return [each.state for each in asked(reader, indicator, since_s, minutes)]


def test_spans_over_http(tmp_path):
    spans = [
        storing.span(n, end_s=T + 5, **{TTFT: ttft, E2E: e2e})
        for n, (ttft, e2e) in enumerate([(0.1, 2.0), (0.1, 20.0), (3.0, 4.0)], 1)
    ]
    spans.append(storing.span(4, end_s=T + 5, **{OUT: "failed"}))
    with storing.writing(tmp_path) as writer, http_server(app_of(writer, OwnMetrics())) as root:
        answer = httpx.post(
            f"{root}/v1/traces",
            content=storing.traces(*spans).SerializeToString(),
            headers={"content-type": "application/x-protobuf"},
        )
        reader = StoreReader(tmp_path)
        where = labels_of({"service": "chat"})
        (answered,) = asked(reader, AvailabilityIndicator(where=where), T, 1)
        (good,) = asked(reader, GoodputIndicator(limits=FAST, where=where), T, 1)
        reader.close()

    assert answer.status_code == 200
    assert (answered.good_low, answered.good_high, answered.total) == (3, 3, 4)
    assert (good.good_low, good.good_high, good.total) == (1, 1, 4)


@pytest.fixture(scope="module")
def vllm(tmp_path_factory):
    """The pages of a real vLLM under overload, ten seconds apart, as its sidecar tells them."""
    path = tmp_path_factory.mktemp("pages")
    pages = sorted(storing.OVERLOAD.glob("*.prom"))
    target = TargetState((("replica", "vllm-0"), ("service", "chat")))
    with storing.writing(path) as writer:
        for number, each in enumerate(pages):
            reading = target.observe(page(each.read_text()), (T + 1 + 10 * number) * 10**9)
            outcome = writer.metrics(export_request(reading))
            assert not outcome.rejected, outcome.message
    reader = StoreReader(path)
    yield reader, [each.read_text() for each in pages]
    reader.close()


def grown(texts, pattern):
    """What counters grew by from the first page to the last, added up."""
    first, last = (
        sum(map(float, re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE)))
        for text in (texts[0], texts[-1])
    )
    return last - first


def test_pages_answer_for_availability_and_goodput(vllm):
    reader, texts = vllm
    finished = grown(texts, r'vllm:request_success_total\{.*"(?:stop|length)".*\}')
    timed = grown(texts, r"vllm:time_to_first_token_seconds_count\{.*\}")

    answered = tally(asked(reader, AvailabilityIndicator(), T, 5))
    good = tally(asked(reader, GoodputIndicator(limits=FAST), T, 5))
    ttft = tally(asked(reader, LatencyIndicator(metric="ttft", threshold_s=Fraction(1)), T, 5))

    assert answered.good_low == answered.good_high == finished > 100
    assert answered.observed_minutes == 4
    assert finished <= good.total <= finished + timed
    assert 0 <= good.good_low <= good.good_high <= ttft.good_high + good.total - timed


def test_pages_answer_for_throughput_and_levels(vllm):
    reader, texts = vllm
    tokens = grown(texts, r"vllm:generation_tokens_total\{.*\}")
    waiting = [
        float(re.search(r"^vllm:num_requests_waiting\{.*\} (\S+)$", t, re.MULTILINE)[1])
        for t in texts
    ]
    floor = Fraction(int(tokens), 240)

    throughput = ThroughputIndicator(metric="generation_tokens", at_least_per_s=floor)
    level = LevelIndicator(metric="requests_waiting", at_most=Fraction(int(max(waiting)) - 1))
    told = states(reader, throughput, T, 5)
    minutes = [max(waiting[at : at + 6]) < max(waiting) for at in range(0, len(waiting), 6)]

    assert SliceState.GOOD in told
    assert SliceState.BAD in told
    assert told[-1] is SliceState.NOT_OBSERVED
    assert [state is SliceState.GOOD for state in states(reader, level, T, 4)] == minutes


def test_pages_answer_for_conditions(vllm):
    reader, _ = vllm
    down = ConditionIndicator(kinds=(ConditionKind.DOWN, ConditionKind.STALLED))

    assert states(reader, down, T, 5) == [SliceState.GOOD] * 4 + [SliceState.NOT_OBSERVED]


def test_remote_write_answers_for_all_kinds(tmp_path):
    begin_s = BEGIN_MS // 1000
    since_s = begin_s // 60 * 60 + 60
    with storing.writing(tmp_path, now=lambda: begin_s + 900.0) as writer:
        world = World(told=writer)
        for number in range(40):
            # why none at first: a series that is there from the start counts from its first value
            finished = 100 if number < 3 else 100 + 6 * min(number - 2, 20)
            samples = scrape_of(finished, waiting=float(number == 12), up=float(number < 32))
            world.write(BEGIN_MS + number * STEP_MS, samples)
            world.wait(15)
        world.wait(120)
        reader = StoreReader(tmp_path)
        good = tally(asked(reader, GoodputIndicator(limits=FAST), since_s, 9))
        answered = tally(asked(reader, AvailabilityIndicator(), since_s, 9))
        tokens = ThroughputIndicator(metric="generation_tokens", at_least_per_s=Fraction(3))
        rates = states(reader, tokens, since_s, 9)
        queue = LevelIndicator(metric="requests_waiting", at_most=Fraction(0))
        queues = states(reader, queue, since_s, 9)
        down = ConditionIndicator(kinds=(ConditionKind.DOWN,))
        downs = states(reader, down, since_s, 9)
        reader.close()

    assert (answered.good_low, answered.total) == (120, 120)
    assert (good.good_low, good.good_high, good.total) == (120, 120, 120)
    assert (rates.count(SliceState.GOOD), queues.count(SliceState.BAD)) == (5, 1)
    assert SliceState.NO_TRAFFIC in rates
    assert downs[:6] == [SliceState.GOOD] * 6
    assert SliceState.BAD in downs
