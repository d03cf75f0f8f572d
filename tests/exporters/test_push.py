"""Exports on their way: in order, none lost that there is room for, none sent for ever."""

import asyncio
import gzip
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, ResourceMetrics, ScopeMetrics

from exporters.engine import push
from exporters.engine.push import Outbox, Pusher
from exporters.engine.scrape import http_client
from tests.exporters.fake_engine import answering, serving

OK = ExportMetricsServiceResponse().SerializeToString()


def export(name):
    scope = ScopeMetrics(metrics=[Metric(name=name)])
    resource = ResourceMetrics(scope_metrics=[scope])
    return ExportMetricsServiceRequest(resource_metrics=[resource]).SerializeToString()


def names_in(requests):
    found = []
    for _, _, body in requests:
        request = ExportMetricsServiceRequest.FromString(gzip.decompress(body))
        found.append([each.scope_metrics[0].metrics[0].name for each in request.resource_metrics])
    return found


def outbox(*names, **limits):
    box = Outbox(**{"max_bytes": 1_000_000, "max_age_s": 3600, **limits})
    for name in names:
        box.put(export(name))
    return box


def scripted(*answers):
    """Answers in turn; the last one stays. Each is (status, headers, body)."""
    left = list(answers)

    def answer(request):
        status, headers, body = left.pop(0) if len(left) > 1 else left[0]
        answering(body, status=status, headers=headers)(request)

    return answer


def pushed(box, answer, *, until, token=None, timeout_s=5.0):
    """Runs a pusher until the condition holds; the requests that the collector saw."""

    async def drive(collector):
        async with http_client() as client:
            pusher = Pusher(
                box,
                client,
                f"{collector.root}/v1/metrics",
                timeout_s=timeout_s,
                token=token,
                first_wait_s=0.005,
                longest_wait_s=0.02,
            )
            task = asyncio.create_task(pusher.run())
            async with asyncio.timeout(20):
                while not until():  # noqa: ASYNC110 - counters are no events
                    await asyncio.sleep(0.005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    with serving(answer) as collector:
        asyncio.run(drive(collector))
        return collector.requests


def test_exports_arrive_in_order_and_compressed():
    box = outbox("a", "b", "c")

    requests = pushed(box, answering(OK), until=lambda: box.counts["sent"] == 3)

    assert [name for names in names_in(requests) for name in names] == ["a", "b", "c"]
    path, headers, _ = requests[0]
    assert path == "/v1/metrics"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["content-encoding"] == "gzip"
    assert "authorization" not in headers


def test_a_token_goes_along():
    box, token = outbox("a"), "sesame"

    requests = pushed(box, answering(OK), until=lambda: box.counts["sent"], token=token)

    assert requests[0][1]["authorization"] == "Bearer sesame"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_collector_that_is_busy_gets_the_same_export_again(status):
    box = outbox("a")

    requests = pushed(
        box,
        scripted((status, [], b""), (status, [], b""), (200, [], OK)),
        until=lambda: box.counts["sent"] == 1,
    )

    assert names_in(requests) == [["a"]] * 3
    assert box.counts["retried"] == 2
    assert len(box) == box.held_bytes == 0


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 415, 500, 307])
def test_an_export_that_is_refused_is_dropped_and_counted(status):
    box = outbox("a")

    requests = pushed(
        box, scripted((status, [], b"no")), until=lambda: box.counts[f"http_{status}"] == 1
    )

    assert len(requests) == 1
    assert len(box) == 0


def test_one_bad_export_takes_no_good_one_with_it():
    box = outbox("a", "bad", "c")

    def picky(request):
        body = request.server.requests[-1][2]
        bad = b"bad" in gzip.decompress(body)
        answering(b"" if bad else OK, status=400 if bad else 200)(request)

    requests = pushed(
        box, picky, until=lambda: box.counts["sent"] == 2 and box.counts["http_400"] == 1
    )

    assert names_in(requests) == [["a", "bad", "c"], ["a"], ["bad"], ["c"]]


def test_a_busy_collector_in_the_middle_of_single_exports_loses_none():
    box = outbox("a", "bad", "c")
    seen = []

    def moody(request):
        names = names_in([request.server.requests[-1]])[0]
        seen.append(names)
        if "bad" in names:
            answering(b"", status=400)(request)
        else:
            busy = names == ["c"] and seen.count(["c"]) == 1
            answering(b"" if busy else OK, status=503 if busy else 200)(request)

    pushed(box, moody, until=lambda: box.counts["sent"] == 2)

    assert seen == [["a", "bad", "c"], ["a"], ["bad"], ["c"], ["c"]]


def test_nobody_listening_is_tried_again():
    box = outbox("a")
    with serving(answering(OK)) as gone:
        url = f"{gone.root}/v1/metrics"

    async def try_twice():
        async with http_client() as client:
            pusher = Pusher(box, client, url, timeout_s=1, first_wait_s=0.01)
            return [await pusher.send_some() for _ in range(2)]

    first_s, second_s = asyncio.run(try_twice())

    assert 0.005 <= first_s <= 0.01
    assert 0.01 <= second_s <= 0.02
    assert len(box) == 1


@pytest.mark.parametrize(("header", "expected_s"), [("7", 7.0), ("0", 0.0), ("99999", 300.0)])
def test_retry_after_is_honoured_within_reason(header, expected_s):
    box = outbox("a")

    async def try_once(collector):
        async with http_client() as client:
            pusher = Pusher(box, client, f"{collector.root}/v1/metrics", timeout_s=1)
            return await pusher.send_some()

    with serving(answering(b"", status=429, headers=[("retry-after", header)])) as collector:
        assert asyncio.run(try_once(collector)) == expected_s


def test_retry_after_may_be_a_date():
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    earlier = format_datetime(datetime.now(UTC) - timedelta(seconds=60), usegmt=True)

    assert 50 < push._seconds_of(later) <= 60
    assert push._seconds_of(earlier) == 0
    assert push._seconds_of("soon") is None
    assert push._seconds_of("") is None


def test_a_collector_that_never_answers_is_given_up_within_the_deadline():
    box = outbox("a")

    pushed(
        box,
        lambda request: request.server.closing.wait(),
        until=lambda: box.counts["retried"] >= 1,
        timeout_s=0.1,
    )

    assert len(box) == 1


def test_rejected_points_are_counted():
    told = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    answer = ExportMetricsServiceResponse(partial_success=told).SerializeToString()
    box = outbox("a")

    pushed(box, answering(answer), until=lambda: box.counts["sent"] == 1)

    assert box.counts["rejected_points"] == 3


def test_an_answer_that_is_no_otlp_does_no_harm():
    box = outbox("a")

    pushed(box, answering(b"\xff\xff thanks"), until=lambda: box.counts["sent"] == 1)

    assert len(box) == 0


def test_a_full_queue_drops_the_oldest_and_counts_it():
    size = len(export("a"))
    box = outbox("a", "b", "c", max_bytes=2 * size)

    requests = pushed(box, answering(OK), until=lambda: box.counts["sent"] == 2)

    assert [name for names in names_in(requests) for name in names] == ["b", "c"]
    assert box.counts["queue_full"] == 1


def test_what_waited_too_long_is_dropped_and_counted():
    now = [0.0]
    box = outbox("a", max_age_s=10, clock=lambda: now[0])
    now[0] = 5.0
    box.put(export("b"))
    now[0] = 12.0

    taken = box.take(1_000_000)

    assert [each.body for each in taken] == [export("b")]
    assert box.counts["too_old"] == 1


def test_a_last_flush_sends_what_waits():
    box = outbox("a", "b")

    async def flush(collector):
        async with http_client() as client:
            pusher = Pusher(box, client, f"{collector.root}/v1/metrics", timeout_s=1)
            return await pusher.flush(2.0)

    with serving(answering(OK)) as collector:
        assert asyncio.run(flush(collector)) == 0


@pytest.mark.parametrize(
    "answer", [answering(b"", status=503), lambda request: request.server.closing.wait()]
)
def test_a_last_flush_ends_in_time_and_says_how_much_is_left(answer):
    box = outbox("a", "b")

    async def flush(collector):
        async with http_client() as client:
            pusher = Pusher(box, client, f"{collector.root}/v1/metrics", timeout_s=10)
            async with asyncio.timeout(5):
                return await pusher.flush(0.2)

    with serving(answer) as collector:
        assert asyncio.run(flush(collector)) == 2


@given(st.lists(st.one_of(st.integers(1, 400), st.sampled_from(["take", "back"])), max_size=60))
def test_the_queue_never_holds_more_than_it_may_and_keeps_its_order(acts):
    box = Outbox(max_bytes=1000, max_age_s=3600)
    taken, number, put = [], 0, []
    for act in acts:
        if act == "take":
            taken += box.take(300) if not taken else []
        elif act == "back":
            box.give_back(taken)
            taken = []
        else:
            number += 1
            put.append(number.to_bytes(4, "big") + b"x" * act)
            box.put(put[-1])
        assert box.held_bytes <= 1000
        assert box.held_bytes == sum(len(each.body) for each in box._waiting)
        order = [int.from_bytes(each.body[:4], "big") for each in (*taken, *box._waiting)]
        assert order == sorted(order)
        assert box.arrived.is_set() or not len(box)
