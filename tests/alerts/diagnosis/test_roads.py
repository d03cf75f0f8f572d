"""Every signal has a road: what is pushed, set or reported arrives, and the rule that wants it speaks."""

import re

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from alerts.change import Change
from alerts.diagnosis.catalogue import RULES
from alerts.diagnosis.gathering import QUESTIONS, gather
from alerts.diagnosis.judgement import judge_one
from alerts.diagnosis.promises import Promised
from alerts.diagnosis.roads import ASKED_OF_PEOPLE, ROADS
from alerts.diagnosis.rule import Finding
from alerts.diagnosis.signals import Baseline, Signal, Signals
from alerts.diagnosis.windows import Looked
from collector.query import Window
from collector.reader import StoreReader
from domain.metric import METRICS
from exporters.engine.settings import TargetSettings
from tests.collector.storing import gauge_of, metrics, span, sum_of, traces, writing

BY_ID = {rule.id: rule for rule in RULES}
BEGIN_S = 1_800_000_000
NOW = Window(since_s=BEGIN_S + 600, until_s=BEGIN_S + 1200)
BEFORE = Window(since_s=BEGIN_S, until_s=BEGIN_S + 600)
REPLICAS = ("r0", "r1")
PUSHED = {
    "request_slots": 4,
    "batch_profile": 0,
    "concurrency_knee": 4,
    "late_byte_rate": 2e6,
    "chunks_per_answer": 180,
}
EVENTS = [
    Change(at_s=NOW.until_s - 60, kind=kind, title=kind, labels=(("replica", "r1"),))
    for kind in ("sigterm", "oom", "scale-out")
]


def wanted(rule):
    return {*rule.needs, *rule.compares, *rule.either, *rule.helps}


def test_no_rule_wants_a_signal_that_no_road_brings():
    assert {signal for rule in RULES for signal in wanted(rule)} <= set(ROADS)
    assert all(ROADS.values())


def test_what_a_question_can_bring_is_told_by_the_question_that_was_not_asked():
    brought = {signal for question in QUESTIONS for signal in question.brings}

    assert {signal for rule in RULES for signal in rule.needs} <= brought | {Signal.PAGED}


def test_the_roads_name_metrics_and_settings_that_there_are():
    words = " ".join(ASKED_OF_PEOPLE.values())
    names = {metric.full_name for metric in METRICS.values()}

    assert set(re.findall(r"`(stagewatch_\w+)`", words)) <= names
    assert {"slots", "batch_profile"} <= set(TargetSettings.model_fields)
    assert TargetSettings(url="http://x", service="s", slots=4, batch_profile="bulk").declared == {
        "request_slots": 4.0,
        "batch_profile": 1.0,
    }


@pytest.mark.parametrize("signal", ASKED_OF_PEOPLE)
def test_a_rule_that_lacks_what_people_give_says_how_to_give_it(signal):
    rules = [rule for rule in RULES if signal in (*rule.needs, *rule.either)]
    told = [word for rule in rules for word in judge_one(rule, Signals()).missing]

    assert all(ASKED_OF_PEOPLE[signal] in " ".join(told) for _ in rules)


def pages(since_s, until_s):
    """Two engines that are full all the time, and what others pushed beside them."""
    for name in REPLICAS:
        made = {key: Metric(name=METRICS[key].full_name) for key in (*PUSHED, *ENGINE)}
        for at_s in range(since_s, until_s, 10):
            for key, value in {**PUSHED, **ENGINE}.items():
                if METRICS[key].kind == "counter":
                    sum_of(made[key], value, start_s=at_s - 10, end_s=at_s)
                else:
                    gauge_of(made[key], value, at_s=at_s)
        labels = {"service.instance.id": name, "stagewatch.role": "both"}
        yield metrics(*made.values(), **labels, **{"stagewatch.source": "page"})
    hops = Metric(name=METRICS["first_chunk_share"].full_name)
    for hop, share in (("1 engine", 0.04), ("2 lambda", 0.96), ("3 gateway", 0.96)):
        gauge_of(hops, share, at_s=until_s - 10, **{"stagewatch.node": hop})
    yield metrics(hops)


ENGINE = {
    "up": 1,
    "requests_running": 4,
    "requests_waiting": 15,
    "kv_cache_usage": 0.9,
    "process_cpu": 9.8,
    "generation_tokens": 1000,
    "requests_finished": 10,
}


def answers(since_s, until_s, *, prompt, first):
    """Answers of both engines; in the second half a few are cut off after 30 s of silence."""
    spans = {name: [] for name in REPLICAS}
    for number in range(360):
        at_s = since_s + 5 + number * (until_s - since_s - 10) / 360
        cut = first > 1000 and number % 90 == 0
        long = first > 1000 and number % 20 == 0
        told = {
            "gen_ai__latency__time_to_first_token": 0.4,
            "gen_ai__latency__e2e": 4.4,
            "gen_ai__latency__time_in_queue": 0.2,
            "gen_ai__latency__time_in_model_prefill": 0.2,
            "gen_ai__latency__time_in_model_decode": 4.0,
            "gen_ai__usage__prompt_tokens": prompt * 40 if long else prompt + number,
            "gen_ai__usage__completion_tokens": 101,
            "stagewatch__use_case": "batch",
        }
        if cut:
            told |= {"error__type": "504", "stagewatch__itl_max_s": 30.2}
        if first > 1000 and number % 30 == 1:
            told |= {"error__type": "429"}
        made = span(first + number, end_s=at_s, lasts_s=4.4, **told)
        spans[REPLICAS[number % 2]].append(made)
    for name, found in spans.items():
        yield traces(*found, **{"service.instance.id": name, "stagewatch.role": "both"})


@pytest.fixture(scope="module")
def signals(tmp_path_factory):
    folder = tmp_path_factory.mktemp("roads")
    now = [BEGIN_S]
    with writing(folder, now=lambda: float(now[0])) as writer:
        for window, first in ((BEFORE, 1), (NOW, 1001)):
            now[0] = window.until_s + 2
            for export in answers(window.since_s, window.until_s, prompt=500, first=first):
                writer.traces(export)
            for export in pages(window.since_s, window.until_s):
                writer.metrics(export)
        writer.settle()
    reader = StoreReader(folder, now=lambda: float(NOW.until_s))
    promised = [Promised(metric="ttft", threshold_s=0.3, rank=0.99, where=(("service", "chat"),))]
    looked = Looked(now=NOW, before=BEFORE, baseline=Baseline.CALM, broken=tuple(promised))
    found = gather(reader, "chat", looked, promised, events=EVENTS, budget_s=60)
    reader.close()
    return found.signals


@pytest.mark.parametrize(
    ("signal", "value"),
    [
        (Signal.SLOTS, 4),
        (Signal.INSTANCES, 2),
        (Signal.IN_FLIGHT, 8),
        (Signal.IN_FLIGHT_SPREAD, 0),
        (Signal.STREAMS, 38),
        (Signal.PROVIDER_KNEE, 4),
        (Signal.PROFILE, 1),
        (Signal.CHUNKS, 180),
        (Signal.BYTE_RATE, 2e6),
        (Signal.CPU_CORE, 0.98),
        (Signal.PAGED, 1),
        (Signal.LOAD, 0.9),
        (Signal.QUOTA_SHARE, 12 / 360),
    ],
)
def test_a_signal_arrives_with_its_value(signals, signal, value):
    assert signals[signal] == pytest.approx(value, rel=0.03)


@pytest.mark.parametrize("rule", ["A8", "B4", "D2", "D4", "D5", "D7", "D10", "E4", "E12"])
def test_a_rule_that_had_no_signal_is_evaluated_on_the_real_store_and_speaks(signals, rule):
    found = judge_one(BY_ID[rule], signals)

    assert isinstance(found, Finding), found
    assert not found.contradicted


def test_what_was_told_in_order_is_judged_in_order(signals):
    assert list(signals.by(Signal.HOPS)) == ["1 engine", "2 lambda", "3 gateway"]
    assert judge_one(BY_ID["D4"], signals).place == "2 lambda"
    assert judge_one(BY_ID["E12"], signals).place == "r1"
    assert judge_one(BY_ID["A8"], signals).next_step.startswith("run 3 instances")
