"""Incidents: each moves its own stage in its own place, and first of all."""

import re

import numpy as np
import pytest

from alerts.definition import load
from domain.errors import ConfigError
from domain.objective import burn_rules
from domain.request import Stage
from stagewatch.demo.blueprint import SERVICES, USER_REGIONS
from stagewatch.demo.fleet import Fleet
from stagewatch.demo.incidents import INCIDENTS, incident
from stagewatch.demo.serve import OBJECTIVES
from stagewatch.demo.settings import FleetSettings
from tests.demo.runs import STARTED_AT_NS, run, since_s

START_S, DURATION_S = 120.0, 120.0
SETTLED_S = 15.0


def incident_run(name, seed=1):
    return run(
        START_S + DURATION_S,
        name,
        incident_start_s=START_S,
        incident_duration_s=600.0,
        seed=seed,
    )


def means(spans):
    """Mean seconds per server stage."""
    return {
        stage: float(np.mean([getattr(span.finished, f"{stage.value}_s") for span in spans]))
        for stage in (Stage.QUEUE, Stage.PREFILL, Stage.DECODE)
    }


def moved(found, pool, only=lambda _: True):
    """By how much each stage of a pool is longer for those who came under the fault."""
    before = means([s for s in found.of_pool(pool, 0, START_S - 20) if only(s)])
    during = means([s for s in found.of_pool(pool, START_S + SETTLED_S) if only(s)])
    return {stage: during[stage] - before[stage] for stage in before}


def largest(found):
    """Pool and stage that have grown the most."""
    grown = {
        (pool.name, stage): seconds
        for service in SERVICES
        for pool in service.pools
        for stage, seconds in moved(found, pool.name).items()
    }
    return max(grown, key=grown.get)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_burst_grows_the_queue_of_the_prefill_pool(seed):
    found = incident_run("queue", seed)

    assert largest(found) == ("assistant-prefill", Stage.QUEUE)
    grown = moved(found, "assistant-prefill")
    assert grown[Stage.QUEUE] > 3 * grown[Stage.PREFILL]
    assert moved(found, "assistant-decode")[Stage.DECODE] < 0.2 * grown[Stage.QUEUE]


@pytest.mark.parametrize("seed", [1, 2])
def test_after_a_quarter_of_a_minute_hardly_anyone_s_first_token_is_in_time(seed):
    ttft_s = np.array(incident_run("queue", seed).server_ttft_s(START_S + SETTLED_S))

    assert len(ttft_s) > 200
    assert np.mean(ttft_s > 1.5) > 0.95


def test_the_burst_burns_the_budget_of_an_hour_within_two_minutes():
    quick = burn_rules(7 * 86_400)[0]
    found = incident_run("queue")
    healthy = 3600 * len(found.server_ttft_s(0, START_S)) / START_S
    ended_by_s = START_S + 120.0
    bad = sum(
        span.start_at_ns and span.finished.queue_s > 1.5
        for span in found.of_pool("assistant-prefill", START_S)
        if since_s(span.end_at_ns) < ended_by_s
    )

    assert bad / (healthy + bad) > quick.factor * 0.01


@pytest.mark.parametrize("seed", [1, 2])
def test_slow_decoding_is_decoding(seed):
    found = incident_run("slow-decode", seed)
    grown = moved(found, "assistant-decode")

    assert largest(found) == ("assistant-decode", Stage.DECODE)
    assert grown[Stage.DECODE] > 10 * grown[Stage.QUEUE]
    assert np.mean(np.array(found.server_ttft_s(START_S)) > 1.5) < 0.02


def test_slow_decoding_breaks_the_promise_per_token():
    spans = incident_run("slow-decode").of_pool("assistant-decode", START_S + SETTLED_S)
    tpot_s = [s.finished.decode_s / (s.finished.output_tokens - 1) for s in spans]

    assert np.mean(np.array(tpot_s) > 0.040) > 0.95


@pytest.mark.parametrize("seed", [1, 2])
def test_one_throttled_replica_is_slow_and_its_neighbour_is_not(seed):
    found = incident_run("replica-throttled", seed)
    sick = moved(found, "code", lambda span: span.replica.name == "code-1")
    well = moved(found, "code", lambda span: span.replica.name == "code-0")

    assert max(sick, key=sick.get) is Stage.DECODE
    assert sick[Stage.PREFILL] > 0.1
    assert sick[Stage.DECODE] > 3 * abs(well[Stage.DECODE])
    assert largest(found) == ("code", Stage.DECODE)


def test_a_throttled_replica_shows_in_the_service_s_first_tokens():
    spans = incident_run("replica-throttled").of_pool("code", START_S + SETTLED_S)
    ttft_s = np.array([span.ttft_s for span in spans])

    assert np.mean(ttft_s > 0.5) > 0.0336


def test_a_long_way_hurts_the_users_of_one_region_and_no_server():
    found = incident_run("network")
    clients = [span for span in found.client_spans if span.ttft_s is not None]

    def median_s(region, from_s, to_s):
        return np.median(
            [
                span.ttft_s
                for span in clients
                if span.client.region == region and from_s <= since_s(span.start_at_ns) < to_s
            ]
        )

    for region in USER_REGIONS:
        longer_s = median_s(region.name, START_S, 1e9) - median_s(region.name, 0, START_S)
        expected_s = 0.8 if region.name == "us-east-1" else 0.0
        assert longer_s == pytest.approx(expected_s, abs=0.1)
    for service in SERVICES:
        for pool in service.pools:
            assert max(moved(found, pool.name).values()) < 1.0


def test_a_long_way_breaks_the_promise_that_users_see_and_not_the_servers():
    found = incident_run("network")
    seen = [
        span.ttft_s
        for span in found.client_spans
        if span.client.service == "assistant"
        and span.ttft_s is not None
        and since_s(span.start_at_ns) > START_S
    ]

    assert np.mean(np.array(seen) > 1.0) > 0.10
    assert np.mean(np.array(found.server_ttft_s(START_S)) > 1.5) < 0.005


def test_a_stalled_engine_stands_still_with_its_requests_while_its_page_answers():
    fleet = Fleet(
        FleetSettings(incident="stall", incident_start_s=30.0, incident_duration_s=20.0),
        started_at_ns=STARTED_AT_NS,
        incident=INCIDENTS["stall"],
    )
    replica = fleet.replicas["assistant-decode-1"]
    told = {}
    for second in range(20, 60):
        fleet.advance(second)
        told[second] = replica.engine.steps, replica.engine.running, replica.engine.waiting
        assert f'requests_running{{engine="0",model_name="{replica.about.model}"}}' in (
            replica.render()
        )

    assert told[29][0] > told[20][0]
    assert told[49] == (told[31][0], told[31][1], told[49][2])
    assert told[49][1] > 0
    assert told[49][2] > told[31][2]  # the router does not know, and gives it more
    assert told[59][0] > told[50][0]


def test_what_stood_still_goes_on_and_answers_froze_that_long():
    found = run(90.0, "stall", incident_start_s=30.0, incident_duration_s=20.0)
    before, during = found.of("assistant-decode-1"), found.of("assistant-decode-0")
    frozen = [s for s in before if since_s(s.start_at_ns) < 30 and since_s(s.end_at_ns) > 50]

    assert frozen
    assert all(span.finished.e2e_s > 20 for span in frozen)
    assert any(30 < since_s(span.end_at_ns) < 50 for span in during)
    assert not any(31 < since_s(span.end_at_ns) < 50 for span in before)


@pytest.mark.parametrize("name", sorted(INCIDENTS))
def test_before_its_start_an_incident_changes_nothing(name):
    quiet, loud = run(60.0), run(60.0, name, incident_start_s=60.0)

    assert quiet.spans == loud.spans


def test_after_its_end_the_fleet_recovers():
    found = run(240.0, "queue", incident_start_s=30.0, incident_duration_s=40.0)
    late = np.array(found.server_ttft_s(180.0))

    assert np.mean(late > 1.5) < 0.01


@pytest.mark.parametrize("name", sorted(INCIDENTS))
def test_every_incident_says_what_where_and_why(name):
    found = INCIDENTS[name]
    places = {replica.name for s in SERVICES for pool in s.pools for replica in pool.replicas}
    places |= {pool.name for s in SERVICES for pool in s.pools}
    places |= {region.name for region in USER_REGIONS}

    assert found.place in places
    assert re.fullmatch(r"[A-Z].+\.", found.sentence)
    assert set(found.effects.slowdown) <= places
    assert set(found.effects.network_s) <= places


def test_an_unknown_incident_is_refused_with_those_there_are():
    with pytest.raises(ConfigError, match="network, queue, replica-throttled, slow-decode, stall"):
        incident("flood")


def test_none_is_no_incident():
    assert incident("none") is None


def test_the_default_incident_begins_after_a_minute():
    assert FleetSettings().incident_start_s == 60.0


def test_the_demo_s_promises_can_be_read_and_can_page():
    definitions = load(OBJECTIVES)

    assert {d.objective.indicator.metric for d in definitions} == {"ttft", "tpot"}
    for definition in definitions:
        assert not definition.left_out
        assert {rule.name for rule in definition.rules} >= {"page-quick", "page-slow"}
