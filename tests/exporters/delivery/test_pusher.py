"""Exports on their way: in order, none lost that there is room for, none sent for ever."""

import asyncio
import gzip
import threading

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)

from exporters.delivery.pusher import Pusher
from exporters.engine.scrape import http_client
from tests.exporters.delivery import outboxes
from tests.exporters.delivery.outboxes import OWNER, drained, opened
from tests.exporters.fake_engine import answering, serving

OK = ExportMetricsServiceResponse().SerializeToString()


@pytest.fixture(params=["disk", "memory"])
def outbox(request, tmp_path):
    """Makes an outbox with exports of these names: everything here holds with a spool and without."""
    boxes = []

    def make(*names, **limits):
        folder = tmp_path / "spool" if request.param == "disk" else None
        boxes.append(opened(folder, *names, **limits))
        return boxes[-1]

    yield make
    for box in boxes:
        box.close()


def names_in(requests):
    return [outboxes.names_in(body) for _, _, body in requests]


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
            await pusher.close()

    with serving(answer) as collector:
        asyncio.run(drive(collector))
        return collector.requests


def test_exports_arrive_in_order_and_compressed(outbox):
    box = outbox("a", "b", "c")

    requests = pushed(box, answering(OK), until=lambda: box.counts["sent"] == 3)

    assert [name for names in names_in(requests) for name in names] == ["a", "b", "c"]
    path, headers, _ = requests[0]
    assert path == "/v1/metrics"
    assert headers["content-type"] == "application/x-protobuf"
    assert headers["content-encoding"] == "gzip"
    assert "authorization" not in headers


@pytest.mark.parametrize("status", [400, 401])
def test_what_is_answered_is_cut_and_our_token_is_not_written_down(outbox, caplog, status):
    box, told = outbox("a"), b"who is Bearer sesame? " + b"x" * 1000
    answer = scripted((status, {}, told), (200, {}, OK))

    pushed(
        box,
        answer,
        until=lambda: box.counts["sent"] or box.counts["http_400"],
        token="sesame",  # noqa: S106 - of nobody
    )

    said = caplog.records[0].getMessage()
    assert "who is Bearer ***? xxx" in said
    assert len(said) < 400


def test_a_token_goes_along(outbox):
    box, token = outbox("a"), "sesame"

    requests = pushed(box, answering(OK), until=lambda: box.counts["sent"], token=token)

    assert requests[0][1]["authorization"] == "Bearer sesame"


@pytest.mark.parametrize(
    "status", [301, 307, 401, 403, 404, 405, 408, 415, 429, 500, 502, 503, 504]
)
def test_whatever_speaks_of_the_way_and_not_of_the_export_is_tried_again(status, outbox):
    box = outbox("a", "b")

    requests = pushed(
        box,
        scripted((status, [], b"login first"), (status, [], b""), (200, [], OK)),
        until=lambda: box.counts["sent"] == 2,
    )

    assert names_in(requests) == [["a", "b"]] * 3
    assert not box.lost()


@pytest.mark.parametrize("status", [429, 503])
def test_a_collector_that_is_busy_gets_the_same_export_again(status, outbox):
    box = outbox("a")

    requests = pushed(
        box,
        scripted((status, [], b""), (status, [], b""), (200, [], OK)),
        until=lambda: box.counts["sent"] == 1,
    )

    assert names_in(requests) == [["a"]] * 3
    assert box.counts["retried"] == 2
    assert len(box) == sum(box.held_bytes()) == 0


@pytest.mark.parametrize("status", [400, 413, 422])
def test_an_export_that_is_refused_is_dropped_counted_and_told(status, outbox):
    box = outbox("a")

    requests = pushed(
        box, scripted((status, [], b"no"), (200, [], OK)), until=lambda: box.counts["sent"] == 1
    )

    assert names_in(requests) == [["a"], ["stagewatch_exports_dropped_total"]]
    assert outboxes.told_in(requests[1][2]) == {("chat", "refused"): 1}
    assert box.lost() == {(OWNER, "refused"): 1}
    assert len(box) == 0


def test_a_collector_that_refuses_all_is_not_told_of_it_for_ever(outbox):
    box = outbox("a", "b")

    async def flush(collector):
        async with http_client() as client:
            pusher = Pusher(box, client, f"{collector.root}/v1/metrics", timeout_s=1)
            return await pusher.flush(5.0)

    with serving(answering(b"no", status=400)) as collector:
        assert asyncio.run(flush(collector)) == 0

    assert len(collector.requests) <= 6  # both, one by one, and once more to tell of each
    assert drained(box) == ([], {})
    assert box.lost() == {(OWNER, "refused"): 2}


def test_a_server_error_that_sticks_to_one_export_holds_up_the_others_only_for_a_while(outbox):
    box = outbox("bad", "b")

    def broken(request):
        bad = b"bad" in gzip.decompress(request.server.requests[-1][2])
        answering(b"" if bad else OK, status=500 if bad else 200)(request)

    requests = pushed(box, broken, until=lambda: box.counts["sent"] == 2)

    assert box.lost() == {(OWNER, "refused"): 1}
    assert 20 < len(requests) < 50
    assert names_in(requests)[-2:] == [["b"], ["stagewatch_exports_dropped_total"]]


def test_one_bad_export_takes_no_good_one_with_it(outbox):
    box = outbox("a", "bad", "c")

    def picky(request):
        body = request.server.requests[-1][2]
        bad = b"bad" in gzip.decompress(body)
        answering(b"" if bad else OK, status=400 if bad else 200)(request)

    requests = pushed(
        box, picky, until=lambda: box.counts["sent"] >= 2 and box.counts["http_400"] == 1
    )

    assert names_in(requests)[:4] == [["a", "bad", "c"], ["a"], ["bad"], ["c"]]


def test_a_busy_collector_in_the_middle_of_single_exports_loses_none(outbox):
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

    pushed(box, moody, until=lambda: box.counts["sent"] >= 2)

    assert seen[:4] == [["a", "bad", "c"], ["a"], ["bad"], ["c"]]
    assert "c" in seen[4]


def test_a_busy_collector_that_says_at_once_loses_none_in_the_middle_of_single_exports(outbox):
    box = outbox("a", "bad", "c")
    busy = ["a"]

    def moody(request):
        names = names_in([request.server.requests[-1]])[0]
        if "bad" in names:
            answering(b"", status=400)(request)
        elif busy and names == busy:
            busy.clear()
            answering(b"", status=503, headers=[("retry-after", "0")])(request)
        else:
            answering(OK)(request)

    requests = pushed(box, moody, until=lambda: box.counts["sent"] >= 3)

    arrived = [name for names in names_in(requests)[3:] for name in names]
    assert {"a", "c"} <= set(arrived)


def test_nobody_listening_is_tried_again(outbox):
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


@pytest.mark.parametrize(("header", "expected_s"), [("7", 7.0), ("0", 0.1), ("99999", 300.0)])
def test_retry_after_is_honoured_within_reason(header, expected_s, outbox):
    box = outbox("a")

    async def try_once(collector):
        async with http_client() as client:
            pusher = Pusher(box, client, f"{collector.root}/v1/metrics", timeout_s=1)
            return await pusher.send_some()

    with serving(answering(b"", status=429, headers=[("retry-after", header)])) as collector:
        assert asyncio.run(try_once(collector)) == expected_s


def test_an_outage_before_it_is_not_held_against_an_export_that_meets_one_server_error(outbox):
    box = outbox("a", "b")
    away = [(503, [], b"")] * 25

    pushed(
        box,
        scripted(*away, (500, [], b"starting"), (500, [], b"starting"), (200, [], OK)),
        until=lambda: box.counts["sent"] == 2,
    )

    assert not box.lost()


def test_answers_are_not_asked_for_in_a_form_that_we_do_not_read(outbox):
    box = outbox("a")

    requests = pushed(box, answering(OK), until=lambda: box.counts["sent"])

    assert requests[0][1]["accept-encoding"] == "identity"


def test_a_collector_that_never_answers_is_given_up_within_the_deadline(outbox):
    box = outbox("a")

    pushed(
        box,
        lambda request: request.server.closing.wait(),
        until=lambda: box.counts["retried"] >= 1,
        timeout_s=0.1,
    )

    assert len(box) == 1


def test_what_is_being_taken_when_all_ends_still_waits(outbox):
    box = outbox("a")
    taking, go_on, take = threading.Event(), threading.Event(), box.take

    def slowly(max_bytes):
        taken = take(max_bytes)
        taking.set()
        go_on.wait(20)
        return taken

    async def ended_meanwhile():
        box.take = slowly
        async with http_client() as client:
            pusher = Pusher(box, client, "http://127.0.0.1:9/v1/metrics", timeout_s=1.0)
            sending = asyncio.create_task(pusher.send_some())
            await asyncio.to_thread(taking.wait, 20)
            sending.cancel()
            go_on.set()
            await asyncio.gather(sending, return_exceptions=True)

    asyncio.run(ended_meanwhile())

    assert len(box) == 1
    assert len(take(1000)) == 1


def test_rejected_points_are_counted(outbox):
    told = ExportMetricsPartialSuccess(rejected_data_points=3, error_message="too old")
    answer = ExportMetricsServiceResponse(partial_success=told).SerializeToString()
    box = outbox("a")

    pushed(box, answering(answer), until=lambda: box.counts["sent"] == 1)

    assert box.counts["rejected_points"] == 3


def test_an_answer_that_is_no_otlp_does_no_harm(outbox):
    box = outbox("a")

    pushed(box, answering(b"\xff\xff thanks"), until=lambda: box.counts["sent"] == 1)

    assert len(box) == 0


def test_a_last_flush_sends_what_waits(outbox):
    box = outbox("a", "b")

    async def flush(collector):
        async with http_client() as client:
            pusher = Pusher(box, client, f"{collector.root}/v1/metrics", timeout_s=1)
            return await pusher.flush(2.0)

    with serving(answering(OK)) as collector:
        assert asyncio.run(flush(collector)) == 0


def test_what_is_under_way_at_the_end_is_waited_for_and_not_sent_twice(outbox):
    box = outbox("a")

    def slow(request):
        request.server.closing.wait(0.3)
        answering(OK)(request)

    async def end_in_the_middle(collector):
        async with http_client() as client:
            pusher = Pusher(box, client, f"{collector.root}/v1/metrics", timeout_s=5)
            running = asyncio.create_task(pusher.run())
            while not collector.requests:  # noqa: ASYNC110 - a server in a thread has no event
                await asyncio.sleep(0.01)
            running.cancel()
            box.put(outboxes.export("b"))
            return await pusher.flush(5.0)

    with serving(slow) as collector:
        assert asyncio.run(end_in_the_middle(collector)) == 0
        assert names_in(collector.requests) == [["a"], ["b"]]


@pytest.mark.parametrize(
    "answer", [answering(b"", status=503), lambda request: request.server.closing.wait()]
)
def test_a_last_flush_ends_in_time_and_says_how_much_is_left(answer, outbox):
    box = outbox("a", "b")

    async def flush(collector):
        async with http_client() as client:
            pusher = Pusher(box, client, f"{collector.root}/v1/metrics", timeout_s=10)
            async with asyncio.timeout(5):
                return await pusher.flush(0.2)

    with serving(answer) as collector:
        assert asyncio.run(flush(collector)) == 2
