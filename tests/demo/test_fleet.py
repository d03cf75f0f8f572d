"""The pure fleet: deterministic, healthy with room to spare, and its stages add up."""

from collections import Counter

import numpy as np
import pytest

from stagewatch.demo.blueprint import SERVICES, USER_REGIONS
from stagewatch.demo.fleet import Fleet
from stagewatch.demo.settings import FleetSettings
from stagewatch.demo.spans import EngineSpan
from stagewatch.demo.traffic import Arrival
from tests.demo.runs import STARTED_AT_NS, run, since_s


@pytest.fixture(scope="module")
def healthy():
    return run(600.0)


def quantile(values, share):
    return float(np.quantile(values, share))


def test_the_same_seed_gives_the_same_spans_whatever_the_steps():
    coarse = run(20.0, drained_every_s=10.0, seed=4)
    fine = run(20.0, drained_every_s=0.1, seed=4)

    assert coarse.spans == fine.spans
    assert [r.render() for r in coarse.fleet.replicas.values()] == [
        r.render() for r in fine.fleet.replicas.values()
    ]


def test_another_seed_gives_other_users():
    assert run(20.0, seed=4).spans != run(20.0, seed=5).spans


def test_eight_replicas_serve_two_services():
    fleet = run(1.0).fleet
    roles = Counter((r.about.service, r.about.role) for r in fleet.replicas.values())

    assert roles == {
        ("assistant", "prefill"): 3,
        ("assistant", "decode"): 3,
        ("code", "both"): 2,
    }


def test_every_replica_of_a_pool_gets_its_share(healthy):
    counts = Counter(span.replica.name for span in healthy.engine_spans)
    for service in SERVICES:
        for pool in service.pools:
            share = [counts[replica.name] for replica in pool.replicas]
            assert min(share) > 0.7 * max(share)


def test_a_healthy_assistant_keeps_its_promises_with_room_to_spare(healthy):
    ttft_s = healthy.server_ttft_s()
    decode = healthy.of_pool("assistant-decode")
    tpot_s = [s.finished.decode_s / (s.finished.output_tokens - 1) for s in decode]

    assert quantile(ttft_s, 0.99) < 0.75
    assert np.mean(np.array(ttft_s) > 1.5) < 0.002
    assert quantile(tpot_s, 0.99) < 0.025


def test_a_healthy_code_service_keeps_its_promises_with_room_to_spare(healthy):
    spans = healthy.of_pool("code")
    ttft_s = [span.ttft_s for span in spans]

    assert quantile(ttft_s, 0.99) < 0.4
    assert np.mean(np.array(ttft_s) > 0.5) < 0.003


def test_users_of_the_healthy_assistant_see_their_first_token_within_a_second(healthy):
    seen = [s.ttft_s for s in healthy.client_spans if s.client.service == "assistant"]
    ttft_s = [value for value in seen if value is not None]

    assert np.mean(np.array(ttft_s) > 1.0) < 0.006


def test_the_load_is_what_the_traces_say_times_the_setting(healthy):
    decode = len(healthy.of_pool("assistant-decode")) / 600

    assert 5 < decode < 12


def test_stages_never_exceed_the_whole(healthy):
    for span in healthy.engine_spans:
        done = span.finished
        parts = done.queue_s + done.prefill_s + done.decode_s
        assert min(done.queue_s, done.prefill_s, done.decode_s) >= 0
        assert 0 <= done.e2e_s - parts < 0.1
        assert done.inference_s == pytest.approx(done.prefill_s + done.decode_s)
        assert span.ttft_s <= done.e2e_s
        assert span.ttft_s >= done.queue_s + done.prefill_s


def test_a_span_ends_a_moment_after_its_request(healthy):
    for span in healthy.engine_spans:
        late_s = (span.end_at_ns - span.start_at_ns) / 1e9 - span.finished.e2e_s
        assert 0.0002 < late_s < 0.0012


def test_both_legs_and_the_client_share_one_trace(healthy):
    legs = {}
    for span in healthy.engine_spans:
        if span.replica.service == "assistant":
            legs.setdefault(span.trace_id, {})[span.replica.role] = span
    clients = {s.trace_id: s for s in healthy.client_spans if s.outcome == "ok"}
    whole = {trace: two for trace, two in legs.items() if len(two) == 2}

    assert len(whole) > 0.9 * len(legs)
    for trace, two in whole.items():
        assert two["prefill"].end_at_ns <= two["decode"].start_at_ns + 1_000_000
        assert two["prefill"].finished.output_tokens == 1
        assert two["prefill"].parent_id == two["decode"].parent_id
        if trace in clients:
            assert clients[trace].span_id == two["decode"].parent_id


def test_the_network_is_the_difference_between_the_user_s_and_the_server_s_first_token(healthy):
    spans = {span.trace_id: span for span in healthy.of_pool("code")}
    medians = {region.name: region.round_trip_s for region in USER_REGIONS}
    network_s = {name: [] for name in medians}
    for client in healthy.client_spans:
        if client.trace_id in spans and client.ttft_s is not None:
            gap_s = client.ttft_s - spans[client.trace_id].ttft_s
            network_s[client.client.region].append(gap_s)

    for region, expected_s in medians.items():
        assert quantile(network_s[region], 0.5) == pytest.approx(expected_s, rel=0.15)
        assert min(network_s[region]) > 0


def test_about_half_of_the_users_report(healthy):
    whole = sum(span.replica.role != "prefill" for span in healthy.engine_spans)
    reports = sum(span.outcome == "ok" for span in healthy.client_spans)

    assert 0.45 < reports / whole < 0.55


def test_some_users_hang_up_and_their_clients_say_so(healthy):
    cancelled = [span for span in healthy.client_spans if span.outcome == "cancelled"]
    finished = {span.trace_id for span in healthy.engine_spans if span.replica.role != "prefill"}

    assert 0 < len(cancelled) < 0.02 * len(healthy.client_spans)
    assert not finished & {span.trace_id for span in cancelled}
    assert all(span.output_tokens is None for span in cancelled)


def test_nobody_waits_longer_than_their_patience():
    impatient = run(60.0, patience_s=0.05)
    lost = [span for span in impatient.client_spans if span.outcome == "cancelled"]

    assert lost
    assert all(span.ttft_s is None for span in lost if span.end_at_ns - span.start_at_ns < 5e7)


def test_spans_are_sent_once(healthy):
    ids = [(span.trace_id, span.span_id) for span in healthy.spans]

    assert len(ids) == len(set(ids))


def test_time_stamps_are_never_ahead_of_the_fleet(healthy):
    for span in healthy.engine_spans:
        assert 0 < since_s(span.end_at_ns) < 600.002


def test_a_prompt_that_no_engine_can_hold_is_refused():
    huge = Arrival(gap_s=1.0, prompt_tokens=200_000, output_tokens=10)
    fleet = Fleet(
        FleetSettings(client_share=1.0),
        started_at_ns=STARTED_AT_NS,
        arrivals={"assistant": iter([huge] * 3)},
    )
    fleet.advance(10.0)
    spans = [s for s in fleet.drain() if not isinstance(s, EngineSpan)]
    refused = [s for s in spans if s.client.service == "assistant"]
    page = "".join(replica.render() for replica in fleet.replicas.values())

    assert [span.outcome for span in refused] == ["rejected"] * 3
    assert page.count('status="4xx"} 1.0\n') == 3


def test_traffic_that_ends_leaves_an_idle_fleet():
    few = [Arrival(gap_s=0.5, prompt_tokens=500, output_tokens=20)] * 5
    fleet = Fleet(
        FleetSettings(hang_up_share=0.0),
        started_at_ns=STARTED_AT_NS,
        arrivals={"assistant": iter(few), "code": iter(few)},
    )
    fleet.advance(60.0)
    engines = [replica.engine for replica in fleet.replicas.values()]

    assert sum(isinstance(span, EngineSpan) for span in fleet.drain()) == 15
    assert all((engine.running, engine.waiting, engine.kv_usage) == (0, 0, 0) for engine in engines)
    assert all(replica.outstanding_tokens == 0 for replica in fleet.replicas.values())


def test_more_speed_is_more_users_on_wider_engines_and_no_other_latency():
    slow, fast = run(120.0), run(120.0, speed=5.0)

    assert len(fast.spans) > 3 * len(slow.spans)
    assert quantile(fast.server_ttft_s(), 0.5) == pytest.approx(
        quantile(slow.server_ttft_s(), 0.5), rel=0.6
    )
    assert quantile(fast.server_ttft_s(), 0.99) < 1.0


def test_more_load_is_more_users_on_the_same_engines():
    light, heavy = run(120.0, load=0.5), run(120.0, load=1.5)

    assert len(heavy.spans) > 2 * len(light.spans)


def test_a_second_run_of_a_seed_brings_the_same_users_and_other_requests():
    runs = []
    for started_at_ns in (10**18, 10**18 + 60 * 10**9):
        fleet = Fleet(FleetSettings(), started_at_ns=started_at_ns)
        fleet.advance(20.0)
        runs.append(fleet.drain())

    first, second = runs
    assert len(first) == len(second)
    assert len(first) > 20
    assert {span.trace_id for span in first}.isdisjoint(span.trace_id for span in second)
