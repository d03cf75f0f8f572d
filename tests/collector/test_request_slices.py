"""Requests that were answered and kept every limit: one by one where kept, bounds where counted."""

import sqlite3
from contextlib import closing
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from collector.importing import import_files
from collector.query import Window
from collector.reader import StoreReader
from collector.store import file_of
from domain.indicator import AvailabilityIndicator, GoodputIndicator, LatencyIndicator, Limit
from domain.labels import labels_of
from domain.slice import EmptySlice, SlicePolicy, SliceState, as_whole, tally
from tests.collector.storing import (
    NOW_S,
    OVERLOAD,
    gauge_of,
    histogram_of,
    legs_in,
    metrics,
    span,
    sum_of,
    traces,
    writing,
)
from tests.paths import RECORDED

T = int(NOW_S) // 3600 * 3600 - 3600
TTFT, E2E, DECODE, TOKENS, OUT = (
    "gen_ai__latency__time_to_first_token",
    "gen_ai__latency__e2e",
    "gen_ai__latency__time_in_model_decode",
    "gen_ai__usage__completion_tokens",
    "stagewatch__outcome",
)
CLIENT = Span.SPAN_KIND_CLIENT
ANSWERED = AvailabilityIndicator()


def goodput(where=(), **limits):
    return GoodputIndicator(
        limits=tuple(Limit(metric=m, threshold_s=Fraction(s)) for m, s in limits.items()),
        where=labels_of(where),
    )


FAST = goodput(ttft="1", tpot="0.05")


@pytest.fixture
def stored(tmp_path):
    with writing(tmp_path) as writer:
        reader = StoreReader(tmp_path, now=lambda: NOW_S)
        yield writer, reader
        reader.close()


def minute(reader, indicator, at_s=T):
    (found,) = reader.slices(indicator, Window(since_s=at_s, until_s=at_s + 60))
    return found


def counts(found):
    return found.good_low, found.good_high, found.total, found.excluded


def request(number, *, ttft=0.1, tpot=0.01, tokens=11, at_s=5, **more):
    decode = {DECODE: tpot * (tokens - 1)} if tokens > 1 else {}
    whole = {TTFT: ttft, TOKENS: tokens, E2E: ttft + tpot * tokens, **decode, **more}
    told = {name: value for name, value in whole.items() if value is not None}
    return span(number, end_s=T + at_s, **told)


def lost(number, how="failed", at_s=5, **more):
    return span(number, end_s=T + at_s, **{OUT: how, **more})


def counter(name, value, at_s, **labels):
    metric = Metric(name=f"stagewatch_{name}_total")
    return sum_of(metric, value, start_s=T + at_s - 1, end_s=T + at_s, **labels)


def pair_of(name, low_s, high_s, at_s=5, **labels):
    """What the buckets of an engine's page say in one scrape interval."""
    return [
        histogram_of(
            Metric(name=f"stagewatch_{name}_seconds"),
            values_s,
            start_s=T + at_s,
            end_s=T + at_s + 1,
            bound=bound,
            **labels,
        )
        for bound, values_s in (("low", low_s), ("high", high_s))
    ]


def page(*told):
    return metrics(*told, **{"stagewatch.source": "page"})


def without_requests(path):
    with closing(sqlite3.connect(file_of(path))) as connection, connection:
        connection.execute("DELETE FROM segment")


def test_w20_no_error_yet_is_none_and_the_first_fifty_are_fifty(stored):
    """SL4: availability of a service without a single error is all of its requests."""
    writer, reader = stored
    before = [request(n) for n in range(1, 101)]
    after = [(request if n % 2 else lost)(n, at_s=65) for n in range(101, 201)]
    writer.traces(traces(*before, *after))

    slices = reader.slices(ANSWERED, Window(since_s=T, until_s=T + 120))

    assert [(each.total - each.good_low, each.total) for each in slices] == [(0, 100), (50, 100)]


def test_w20_from_the_counters_of_a_page(stored):
    writer, reader = stored
    writer.metrics(page(counter("requests_finished", 100, 5)))
    writer.metrics(page(counter("requests_finished", 50, 65), counter("requests_failed", 50, 65)))

    slices = reader.slices(ANSWERED, Window(since_s=T, until_s=T + 120))

    assert [counts(each) for each in slices] == [(100, 100, 100, 0), (50, 50, 100, 0)]


def test_w25_a_request_that_never_got_a_first_token_is_bad(stored):
    """The histogram says 100 %, the truth is 95 %."""
    writer, reader = stored
    good = [request(n, at_s=n % 60) for n in range(1, 951)]
    gone = [lost(n, at_s=n % 60) for n in range(951, 1001)]
    writer.traces(traces(*good, *gone))

    assert counts(minute(reader, FAST)) == (950, 950, 1000, 0)
    assert counts(minute(reader, ANSWERED)) == (950, 950, 1000, 0)


def test_w25_from_a_page_whose_histogram_has_only_the_survivors(stored):
    writer, reader = stored
    fast_s = [0.1] * 950
    writer.metrics(
        page(
            *pair_of("ttft", fast_s, fast_s),
            counter("requests_finished", 950, 6),
            counter("requests_failed", 50, 6),
        )
    )

    assert counts(minute(reader, goodput(ttft="1"))) == (950, 950, 1000, 0)


def test_w25_also_where_the_page_counts_failed_answers_in_its_latency(stored):
    writer, reader = stored
    e2e_s = [0.1] * 950 + [30.0] * 50
    writer.metrics(
        page(
            *pair_of("e2e", e2e_s, e2e_s),
            counter("requests_finished", 950, 6),
            counter("requests_failed", 50, 6),
        )
    )

    found = minute(reader, goodput(e2e="1"))

    assert found.total == 1000
    assert found.good_low <= 950 == found.good_high


def test_a_page_on_which_all_fail_has_no_answers_although_it_times_them(stored):
    """A vLLM times failed requests too; that it counts answers is known from before."""
    writer, reader = stored
    e2e_s = [0.1] * 50
    writer.metrics(page(counter("requests_finished", 7, 5)))
    writer.metrics(page(*pair_of("e2e", e2e_s, e2e_s, 65), counter("requests_failed", 50, 66)))

    assert counts(minute(reader, ANSWERED, T + 60)) == (0, 0, 50, 0)


def test_sl14_what_users_gave_up_or_asked_wrongly_is_excluded_and_shown(stored):
    writer, reader = stored
    good = [request(n, at_s=n % 60) for n in range(1, 951)]
    gone = [lost(n, "cancelled", at_s=n % 60) for n in range(951, 1001)]
    wrong = [lost(1001, "rejected")]
    writer.traces(traces(*good, *gone, *wrong))

    assert counts(minute(reader, ANSWERED)) == (950, 950, 950, 51)
    assert counts(minute(reader, FAST)) == (950, 950, 950, 51)


def test_w23_each_request_is_judged_once(stored):
    """5 break the one limit and 6 the other, 3 of them both: 8 of 1000 are bad."""
    writer, reader = stored
    spans = [
        request(n, ttft=3.0 if n <= 5 else 0.1, tpot=0.2 if 3 <= n <= 8 else 0.01, at_s=n % 60)
        for n in range(1, 1001)
    ]
    writer.traces(traces(*spans))

    assert counts(minute(reader, FAST)) == (992, 992, 1000, 0)


def test_w23_two_histograms_bound_the_bad_from_six_to_eleven(stored):
    writer, reader = stored
    ttft_s = [3.0] * 5 + [0.1] * 995
    tpot_s = [0.2] * 6 + [0.01] * 994
    writer.metrics(
        page(
            *pair_of("ttft", ttft_s, ttft_s),
            *pair_of("tpot", tpot_s, tpot_s),
            counter("requests_finished", 1000, 6),
        )
    )

    found = minute(reader, FAST)

    assert (found.total - found.good_high, found.total - found.good_low) == (6, 11)


def test_requests_that_are_kept_no_more_leave_the_same_bounds(stored, tmp_path):
    writer, reader = stored
    spans = [
        request(n, ttft=3.0 if n <= 5 else 0.1, tpot=0.2 if 3 <= n <= 8 else 0.01, at_s=n % 60)
        for n in range(1, 1001)
    ]
    writer.traces(traces(*spans, lost(1001)))
    without_requests(tmp_path)

    assert counts(minute(reader, FAST)) == (1001 - 1 - 11, 1001 - 1 - 6, 1001, 0)
    assert counts(minute(reader, ANSWERED)) == (1000, 1000, 1001, 0)


def test_an_answer_of_one_token_has_no_gaps_and_keeps_a_limit_on_them(stored):
    writer, reader = stored
    writer.traces(traces(request(1, tokens=1), request(2, tokens=1, ttft=3.0)))

    assert counts(minute(reader, FAST)) == (1, 1, 2, 0)


def test_a_measurement_that_is_missing_is_good_possibly_but_not_surely(stored):
    writer, reader = stored
    writer.traces(traces(request(1, **{TOKENS: None}), request(2)))

    assert counts(minute(reader, FAST)) == (1, 2, 2, 0)
    assert counts(minute(reader, ANSWERED)) == (2, 2, 2, 0)


def test_what_no_page_measures_leaves_everything_open_but_what_failed(stored):
    writer, reader = stored
    writer.metrics(page(counter("requests_finished", 90, 5), counter("requests_failed", 10, 5)))

    assert counts(minute(reader, goodput(ttft="1"))) == (0, 90, 100, 0)


def test_a_page_does_not_count_the_requests_of_spans_again(stored):
    writer, reader = stored
    writer.traces(traces(request(1)))
    writer.metrics(page(counter("requests_finished", 5, 20), counter("requests_failed", 2, 30)))

    assert counts(minute(reader, ANSWERED)) == (1, 1, 1, 0)
    assert counts(minute(reader, AvailabilityIndicator(where=(("source", "page"),)))) == (
        5,
        5,
        7,
        0,
    )


def test_services_with_spans_and_with_a_page_add_up(stored):
    writer, reader = stored
    writer.traces(traces(request(1), lost(2)))
    told = page(counter("requests_finished", 5, 20), counter("requests_failed", 2, 30))
    told.resource_metrics[0].resource.attributes[0].value.string_value = "search"
    writer.metrics(told)

    assert counts(minute(reader, ANSWERED)) == (6, 6, 9, 0)


def test_the_users_side_is_asked_for_by_its_source(stored):
    writer, reader = stored
    server = [request(n) for n in (1, 2, 3)]
    client = [
        span(1, end_s=T + 6, kind=CLIENT, **{TTFT: 0.2}),
        span(2, end_s=T + 6, kind=CLIENT, **{TTFT: 1.2}),
        span(3, end_s=T + 6, kind=CLIENT, **{OUT: "failed"}),
    ]
    writer.traces(traces(*server, *client))

    assert counts(minute(reader, goodput({"source": "client"}, ttft="1"))) == (1, 1, 3, 0)
    assert counts(minute(reader, goodput({"source": "span"}, ttft="1"))) == (3, 3, 3, 0)


def test_a_watched_minute_without_requests_has_no_traffic_and_an_unwatched_one_is_not_observed(
    stored,
):
    writer, reader = stored
    writer.metrics(page(gauge_of(Metric(name="stagewatch_up"), 1, at_s=T + 5)))

    assert minute(reader, ANSWERED).state is SliceState.NO_TRAFFIC
    assert minute(reader, FAST, T + 60).state is SliceState.NOT_OBSERVED


def test_sl15_an_empty_minute_is_worth_what_the_policy_says(stored):
    """W18: 60 slices, 3 bad, 10 empty: 57 of 60, 47 of 50, 47 of 60."""
    writer, reader = stored
    spans = [
        (lost if at < 3 and nth == 0 else request)(100 * at + nth + 1, at_s=60 * at + 30)
        for at in range(50)
        for nth in range(10)
    ]
    writer.traces(traces(*spans))
    ups = [gauge_of(Metric(name="stagewatch_up"), 1, at_s=T + 60 * at) for at in range(60)]
    writer.metrics(page(*ups))
    slices = reader.slices(ANSWERED, Window(since_s=T, until_s=T + 3600))

    def counted(empty):
        policy = SlicePolicy(target=Fraction(95, 100), empty=empty)
        found = tally(as_whole(each, policy) for each in slices)
        assert found.good_low == found.good_high
        return found.good_low, found.total

    assert counted(EmptySlice.GOOD) == (57, 60)
    assert counted(EmptySlice.EXCLUDED) == (47, 50)
    assert counted(EmptySlice.BAD) == (47, 60)


def probed(*told):
    return metrics(*told, **{"stagewatch.source": "probe"})


PROBES = AvailabilityIndicator(where=(("source", "probe"),))


def test_probes_are_counted_by_their_spans(stored):
    writer, reader = stored
    spans = [
        span(1, end_s=T + 5, kind=CLIENT, **{TTFT: 0.2}),
        span(2, end_s=T + 20, kind=CLIENT, **{OUT: "failed"}),
        span(3, end_s=T + 35, kind=CLIENT, **{OUT: "rejected"}),
    ]
    writer.traces(traces(*spans, **{"stagewatch.source": "probe"}))
    reasons = {"ok": 1, "refused": 1, "http_401": 1, "capped": 3}
    told = [counter("probes", n, 40, **{"stagewatch.reason": why}) for why, n in reasons.items()]
    writer.metrics(probed(*told))

    assert counts(minute(reader, PROBES)) == (1, 1, 2, 1)


def test_probes_that_send_no_spans_are_counted_by_their_counter(stored):
    """A cold start was answered; a refusal by our own budget asked nobody."""
    writer, reader = stored
    answered_s = [0.4, 0.5]
    e2e = histogram_of(
        Metric(name="stagewatch_e2e_seconds"), answered_s, start_s=T + 30, end_s=T + 31
    )
    reasons = {"ok": 1, "cold_start": 1, "timeout": 2, "http_429": 1, "http_403": 4, "capped": 8}
    told = [counter("probes", n, 31, **{"stagewatch.reason": why}) for why, n in reasons.items()]
    writer.metrics(probed(e2e, *told))

    assert counts(minute(reader, PROBES)) == (2, 2, 5, 4)


def test_probes_that_all_fail_are_counted_although_somebody_else_sends_spans(stored):
    writer, reader = stored
    writer.traces(traces(request(1)))
    writer.metrics(probed(counter("probes", 3, 31, **{"stagewatch.reason": "timeout"})))

    assert counts(minute(reader, PROBES)) == (0, 0, 3, 0)


def test_a_probe_whose_span_ended_in_the_minute_before_is_counted_once(stored):
    writer, reader = stored
    probe = span(1, end_s=T + 59, kind=CLIENT, **{OUT: "failed"})
    writer.traces(traces(probe, **{"stagewatch.source": "probe"}))
    writer.metrics(probed(counter("probes", 1, 61, **{"stagewatch.reason": "timeout"})))

    counted = tally(reader.slices(PROBES, Window(since_s=T, until_s=T + 120)))

    assert (counted.good_high, counted.total) == (0, 1)


def test_an_answer_of_which_nothing_was_timed_is_an_answer(stored):
    writer, reader = stored
    writer.traces(traces(request(1), span(2, end_s=T + 6)))

    assert counts(minute(reader, ANSWERED)) == (2, 2, 2, 0)
    assert counts(minute(reader, FAST)) == (1, 2, 2, 0)


def test_what_was_given_up_is_shown_also_when_its_request_is_kept_no_more(stored, tmp_path):
    writer, reader = stored
    writer.traces(traces(lost(1, "cancelled"), lost(2, "rejected")))
    without_requests(tmp_path)

    assert counts(minute(reader, ANSWERED)) == (0, 0, 0, 2)
    assert minute(reader, ANSWERED).state is SliceState.NO_TRAFFIC


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("requests")
    with writing(path) as writer:
        files = [OVERLOAD / "all-spans.bin", OVERLOAD / "client.jsonl"]
        list(import_files(files, writer, labels={"service": "vllm-tiny"}))
        writer.settle()
    reader = StoreReader(path)
    yield path, reader
    reader.close()


@pytest.mark.parametrize(
    "limits", [{"ttft": "0.5"}, {"ttft": "1.5", "e2e": "12"}, {"tpot": "0.02"}]
)
@pytest.mark.parametrize("source", ["span", "client"])
def test_real_requests_are_judged_one_by_one(recorded, limits, source):
    path, reader = recorded
    legs = [leg for leg in legs_in(path) if dict(leg.labels)["source"] == source]
    fine = [leg for leg in legs if leg.outcome == "ok"]
    kept = [
        leg
        for leg in fine
        if all(
            (value := getattr(leg, f"{metric}_s")) is not None and value <= float(threshold)
            for metric, threshold in limits.items()
        )
    ]
    window = Window(since_s=int(NOW_S) // 60 * 60 - 600, until_s=int(NOW_S) // 60 * 60)

    counted = tally(reader.slices(goodput({"source": source}, **limits), window))

    assert counted.total == len(fine) > 100
    assert counted.good_low == len(kept)
    if source == "span":
        assert counted.good_high == len(kept)


def test_both_halves_of_a_request_are_one(tmp_path):
    roles = {"vllm-prefill": "prefill", "vllm-decode": "decode"}
    services = dict.fromkeys(roles, "chat")
    with writing(tmp_path, roles=roles, services=services, now=lambda: NOW_S + 7200) as writer:
        list(import_files([RECORDED / "vllm-disagg" / "all-spans.bin"], writer))
        writer.settle()
    halves = {}
    for leg in legs_in(tmp_path):
        halves.setdefault(leg.trace_id, {})[leg.kind] = leg
    ttfts = [
        (pair["decode"].start_at_ns - pair["prefill"].start_at_ns) / 1e9 + pair["decode"].ttft_s
        for pair in halves.values()
    ]
    ends = [pair["decode"].end_at_ns // 10**9 for pair in halves.values()]
    window = Window(since_s=min(ends) // 60 * 60 - 60, until_s=max(ends) // 60 * 60 + 60)
    reader = StoreReader(tmp_path)

    answered = tally(reader.slices(ANSWERED, window))
    fast = tally(reader.slices(goodput(ttft="0.2"), window))
    reader.close()

    assert (answered.good_low, answered.total) == (40, 40)
    assert fast.good_low == fast.good_high == sum(ttft_s <= 0.2 for ttft_s in ttfts)


REQUEST = st.fixed_dictionaries(
    {
        "ttft": st.sampled_from([0.1, 0.999, 1.0, 1.001, 4.0]),
        "tpot": st.sampled_from([0.01, 0.0499, 0.0501, 0.3]),
        "tokens": st.sampled_from([1, 11]),
        "how": st.sampled_from(["ok", "ok", "ok", "failed", "cancelled"]),
        "at_s": st.integers(0, 119),
    }
)


def truth(requests):
    """(good, total) by minute."""
    found = {}
    for each in requests:
        if each["how"] == "cancelled":
            continue
        good = each["how"] == "ok" and each["ttft"] <= 1.0
        good = good and (each["tokens"] == 1 or each["tpot"] * 10 / 10 <= 0.05)
        was = found.get(each["at_s"] // 60, (0, 0))
        found[each["at_s"] // 60] = (was[0] + good, was[1] + 1)
    return found


def spans_of(requests):
    return [
        request(n, ttft=each["ttft"], tpot=each["tpot"], tokens=each["tokens"], at_s=each["at_s"])
        if each["how"] == "ok"
        else lost(n, each["how"], at_s=each["at_s"])
        for n, each in enumerate(requests, 1)
    ]


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(REQUEST, min_size=1, max_size=25))
def test_kept_requests_are_exact_and_tiles_alone_contain_the_truth(tmp_path_factory, requests):
    path = tmp_path_factory.mktemp("law")
    window = Window(since_s=T, until_s=T + 120)
    with writing(path) as writer:
        writer.traces(traces(*spans_of(requests)))
        reader = StoreReader(path)
        exact, single = reader.slices(FAST, window), reader.slices(goodput(ttft="1"), window)
        latency = LatencyIndicator(metric="ttft", threshold_s=Fraction(1))
        alone = reader.slices(latency, window)
        without_requests(path)
        coarse = StoreReader(path).slices(FAST, window)
        reader.close()

    expected = truth(requests)
    for place, (one, other) in enumerate(zip(exact, coarse, strict=True)):
        good, total = expected.get(place, (0, 0))
        assert (one.good_low, one.good_high, one.total) == (good, good, total)
        assert other.good_low <= good <= other.good_high <= other.total == total
    assert single == alone
