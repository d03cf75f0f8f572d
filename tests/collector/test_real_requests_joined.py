"""Real requests of several processes: the same however their spans come, and by whatever clocks."""

import json
import math
import random

import numpy as np
import pytest

from collector.query import Selection, Window
from collector.reader import StoreReader
from domain.leg import LegKind, Outcome
from domain.request import Stage
from tests.collector.captures import CAPTURES, NOW_S, SETTINGS, WINDOW_S, exports, shifted, singles
from tests.collector.storing import legs_in, tables, writing
from tests.paths import RECORDED

WINDOW = Window(since_s=WINDOW_S[0], until_s=WINDOW_S[1])
TRUTH = {name: json.loads((RECORDED / name / "truth.json").read_text()) for name in ("dynamo",)}
BY_TWO_CLOCKS = {"network_s", "kv_transfer_s", "overhead_s", "ttft_s", "e2e_s"}
BY_ONE = (
    "trace_id",
    "labels",
    "outcome",
    "finish_reason",
    "complete",
    "measured_by",
    "client_ttft_s",
    "client_e2e_s",
    "tpot_s",
    "itl_max_s",
    "queue_s",
    "prefill_s",
    "decode_s",
    "prompt_tokens",
    "cached_tokens",
    "output_tokens",
)


def stored(path, found, *, clock=lambda: NOW_S):
    """(requests, tiles, counts, legs) of these exports."""
    with writing(path, now=clock, **SETTINGS) as writer:
        for export in found:
            assert writer.traces(export).rejected == 0
        writer.settle()
        counts = dict(writer.counts())
    reader = StoreReader(path, now=lambda: NOW_S)
    requests = reader.requests(WINDOW, limit=10_000)
    reader.close()
    return {each.trace_id: each for each in requests}, tables(path)[0], counts, legs_in(path)


@pytest.fixture(scope="module")
def in_order(tmp_path_factory):
    return {
        capture: stored(tmp_path_factory.mktemp("in-order"), exports(capture))
        for capture in CAPTURES
    }


def figures(values):
    values = sorted(value for value in values if value is not None)
    at = {name: values[math.ceil(q * len(values)) - 1] for name, q in
          (("P50", 0.5), ("P95", 0.95), ("P99", 0.99))}  # fmt: skip
    return {"n": len(values), "mean": float(np.mean(values)), "min": values[0], **at}


@pytest.mark.parametrize("capture", CAPTURES)
def test_shuffled_and_sent_twice_they_are_the_same_requests(in_order, tmp_path, capture):
    twice = list(singles([*exports(capture), *exports(capture)]))
    random.Random(3).shuffle(twice)  # noqa: S311 - any order will do

    requests, tiles, counts, _ = stored(tmp_path, twice)

    assert requests == in_order[capture][0]
    assert tiles == in_order[capture][1]
    assert counts["duplicate_spans_total"] == counts["stored_spans_total"]
    for doubt in ("overlapping_transfers_total", "clock_disagreements_total"):
        assert counts.get(doubt) == in_order[capture][2].get(doubt)


@pytest.mark.parametrize(
    ("capture", "late"), [(name, side) for name, sides in CAPTURES.items() for side in sides]
)
def test_one_side_ninety_seconds_late_they_are_the_same_requests(in_order, tmp_path, capture, late):
    now_s = [NOW_S]
    found = exports(capture)
    behind = [export for export in found if late in str(export.resource_spans[0].resource)]
    prompt = [export for export in found if export not in behind]

    def arriving():
        yield from prompt
        now_s[0] += 90
        yield from behind

    requests, tiles, *_ = stored(tmp_path, arriving(), clock=lambda: now_s[0])

    assert behind
    assert requests == in_order[capture][0]
    assert tiles == in_order[capture][1]


@pytest.mark.parametrize("by_s", [-300, 300])
@pytest.mark.parametrize(
    ("capture", "side"),
    [(name, side) for name, sides in CAPTURES.items() for side in (*sides, "client")],
)
def test_with_one_clock_five_minutes_off_they_are_the_same_requests(
    in_order, tmp_path, capture, side, by_s
):
    requests, _, counts, _ = stored(
        tmp_path, shifted(exports(capture), side, by_s), clock=lambda: NOW_S + 600
    )
    right = in_order[capture][0]

    assert requests.keys() == right.keys()
    disagreeing = 0
    for trace, found in requests.items():
        for name in BY_ONE:
            assert getattr(found, name) == getattr(right[trace], name), name
        disagreeing += "clocks disagree" in found.unknown.values()
        for name in BY_TWO_CLOCKS:
            _within_the_network(found, right[trace], name)
    assert disagreeing <= counts.get("clock_disagreements_total", 0)


def _within_the_network(found, right, name):
    """The same but for the way between the two, or not known, for a reason that is told."""
    now, before = getattr(found, name), getattr(right, name)
    if now is None:
        reasons = {"clocks disagree", "legs overlap"} & set(found.unknown.values())
        assert before is None or reasons
    elif before is not None:
        ways = (right.network_s or 0.0) + (right.overhead_s or 0.0)
        assert abs(now - before) <= ways + 1e-9, name


def test_a_clock_that_is_off_is_counted(tmp_path):
    _, _, counts, _ = stored(tmp_path, shifted(exports("vllm-disagg"), "vllm-decode", 300),
                          clock=lambda: NOW_S + 600)  # fmt: skip

    assert counts["clock_disagreements_total"] == 40


@pytest.mark.parametrize(
    ("stage", "value"),
    [
        ("client_ttft", lambda r: r.client_ttft_s),
        ("frontend_ttft", lambda r: r.ttft_s),
        ("client_minus_frontend_ttft", lambda r: r.network_s),
        ("arrival_to_prefill_handler", lambda r: r.overhead_s),
        ("prefill_handler", lambda r: r.prefill_s),
        ("first_token_to_end", lambda r: r.decode_s),
        ("frontend_e2e", lambda r: r.e2e_s),
        ("client_e2e", lambda r: r.client_e2e_s),
    ],
)
def test_a_dynamo_is_cut_on_its_critical_path(in_order, stage, value):
    whole = [
        request
        for request in in_order["dynamo"][0].values()
        if request.outcome is Outcome.OK and request.client_e2e_s is not None
    ]
    truth = TRUTH["dynamo"]["stages"][stage]

    found = figures([value(request) for request in whole])

    assert found["n"] == truth["n"] == 114
    for name in ("mean", "P50", "P95", "P99", "min"):
        assert found[name] == pytest.approx(truth[name], abs=2e-6), name


def test_what_overlaps_in_a_dynamo_is_no_transfer_and_counted(in_order):
    requests, _, counts, _ = in_order["dynamo"]
    whole = [r for r in requests.values() if r.outcome is Outcome.OK]
    overlapping = [r for r in whole if r.kv_transfer_s is None]

    assert len(overlapping) == counts["overlapping_transfers_total"] == 6
    assert {r.unknown[Stage.KV_TRANSFER] for r in overlapping} == {"legs overlap"}
    for request in whole:
        if request.kv_transfer_s is not None:
            stages = [
                request.stage_s[stage] or 0.0 for stage in Stage if stage is not Stage.NETWORK
            ]
            assert sum(stages) == pytest.approx(request.e2e_s, abs=1e-6)


def test_a_dynamo_s_requests_are_its_users_and_the_warm_up(in_order):
    """15 spans of each: two handlers, ten notes of the router, and a query no client sent."""
    requests, _, counts, _ = in_order["dynamo"]

    outcomes = [r.outcome for r in requests.values()]
    assert (outcomes.count(Outcome.OK), outcomes.count(Outcome.CANCELLED)) == (115, 6)
    assert counts["ignored_spans_total"] == 1814 - 5 * 121
    assert all(r.ttft_s is None for r in requests.values() if r.outcome is Outcome.CANCELLED)
    assert {dict(r.labels)["model"] for r in requests.values()} == {"tiny"}
    assert {dict(r.labels)["replica"] for r in requests.values()} == {"decode0"}


def test_forty_users_of_a_disaggregated_pair_waited_forty_times(in_order, tmp_path):
    requests = in_order["vllm-disagg"][0].values()

    assert len(requests) == 40
    assert figures([r.client_ttft_s for r in requests])["mean"] == pytest.approx(0.216434, abs=1e-6)
    assert figures([r.prefill_s for r in requests])["mean"] == pytest.approx(0.111063, abs=1e-6)
    assert figures([r.decode_s for r in requests])["mean"] == pytest.approx(0.405454, abs=1e-6)
    for request in requests:
        assert request.client_ttft_s == pytest.approx(request.ttft_s + request.network_s)
    with writing(tmp_path, now=lambda: NOW_S, **SETTINGS) as writer:
        for export in exports("vllm-disagg"):
            writer.traces(export)
    reader = StoreReader(tmp_path, now=lambda: NOW_S)
    selection = Selection(window=WINDOW, where=(("source", "span"),), by=("role",))
    by_role = {dict(each.labels).get("role"): each for each in reader.stages(selection)}
    told = {
        metric: {
            dict(series.labels).get("role"): sum(p.distribution.n for p in series.points)
            for series in reader.latency(metric, selection)
        }
        for metric in ("ttft", "tpot", "decode", "prefill", "kv_transfer", "network", "itl")
    }
    reader.close()
    assert by_role.keys() == {"prefill", "decode"}
    assert sum(told["ttft"].values()) == 40
    assert told["tpot"] == {"decode": 40}
    assert told["decode"] == {"decode": 40}
    assert told["prefill"] == {"prefill": 40}
    assert told["kv_transfer"] == {"decode": 40}
    assert told["network"] == {"decode": 40}
    assert told["itl"] == {}


def test_the_users_wait_is_prefill_and_decode_and_the_way(in_order):
    """README of the recording: the client's 216.4 = 140.7 + 47.4 + 28.4 ms, means of 40."""
    legs = {(leg.trace_id, leg.kind): leg for leg in in_order["vllm-disagg"][3]}
    traces = {trace for trace, kind in legs if kind is LegKind.CLIENT}
    parts = [
        (legs[trace, LegKind.CLIENT], legs[trace, LegKind.PREFILL], legs[trace, LegKind.DECODE])
        for trace in traces
    ]

    ways = [client.ttft_s - filled.e2e_s - decoded.ttft_s for client, filled, decoded in parts]

    assert figures([filled.e2e_s for _, filled, _ in parts])["mean"] == pytest.approx(
        0.140708, abs=1e-6
    )
    assert figures([decoded.ttft_s for _, _, decoded in parts])["mean"] == pytest.approx(
        0.047363, abs=1e-6
    )
    assert figures(ways)["mean"] == pytest.approx(0.028363, abs=1e-6)
