"""What stands between a user and the model is named: who gathers, who cuts, who refuses, who sleeps.

With real servers, a real nginx and real seconds.
"""

import asyncio
import json
import time
from datetime import UTC, datetime

import pytest
from pydantic import SecretStr

from exporters.probe.asking import Asking
from exporters.probe.budget import Budget
from exporters.probe.client import exchange
from exporters.probe.finding import finding, lumps
from tests.exporters.probe.asking import PROMPT, ask, target_of
from tests.exporters.probe.proxy import nginx
from tests.exporters.probe.streaming_server import StreamingServer

# nginx's own defaults but for the size: it asks upstream by HTTP/1.0 and fills a buffer first
HOLDING = "proxy_buffering on; proxy_buffer_size 64k; proxy_buffers 8 64k;"


def asking(tmp_path, target, interval_s=60.0):
    budget = Budget(tmp_path / "spent.json", "UTC")
    return Asking(target, budget, interval_s=interval_s, clock=lambda: datetime.now(UTC))


def rounds(asking_, *, times=1, pause_s=0.0, **how):
    async def every():
        done = []
        for number in range(times):
            await asyncio.sleep(pause_s if number else 0)
            done.append(await asking_.round(**how))
        return done

    return asyncio.run(every())


def test_an_nginx_that_buffers_is_named_as_the_place(tmp_path):
    with StreamingServer(tokens=40, gap_s=0.01) as engine:
        gateway = nginx(tmp_path / "gateway", engine.url, "proxy_buffering off;")
        with gateway as inside, nginx(tmp_path / "edge", inside, HOLDING) as outside:
            target = target_of(None, path=[engine.url, inside, outside])
            (done,) = rounds(asking(tmp_path, target))

    assert done.up
    assert done.lumps.held
    assert done.lumps_begin == f"{outside}/v1/chat/completions"
    (note,) = done.notes
    assert "all 40 chunks came at once" in note
    assert f"It begins at {outside}/v1/chat/completions (nginx/" in note
    assert f"{inside}/v1/chat/completions behind it streams" in note


def test_the_middle_of_three_is_named_when_lumps_begin_there(tmp_path):
    with StreamingServer(tokens=40, gap_s=0.01) as engine:
        gateway = nginx(tmp_path / "gateway", engine.url, HOLDING)
        with gateway as inside, nginx(tmp_path / "edge", inside, "proxy_buffering off;") as outside:
            target = target_of(None, path=[engine.url, inside, outside])
            (done,) = rounds(asking(tmp_path, target))

    assert done.lumps_begin == f"{inside}/v1/chat/completions"


def test_an_engine_that_gathers_by_itself_is_no_proxys_fault(tmp_path):
    with (
        StreamingServer(tokens=40, gap_s=0.01, tokens_per_write=10) as engine,
        nginx(tmp_path / "edge", engine.url, "proxy_buffering off;") as outside,
    ):
        (done,) = rounds(asking(tmp_path, target_of(None, path=[engine.url, outside])))

    assert done.lumps_begin == f"{engine.url}/v1/chat/completions"
    assert "40 chunks came in 4 lumps" in done.notes[0]
    assert "where the path begins" in done.notes[0]


def test_a_proxy_that_does_not_buffer_is_not_accused(tmp_path):
    with (
        StreamingServer(tokens=40, gap_s=0.01) as engine,
        nginx(tmp_path / "edge", engine.url, "proxy_buffering off;") as outside,
    ):
        (done,) = rounds(asking(tmp_path, target_of(None, path=[engine.url, outside])))

    assert not done.lumps.held
    assert not done.inner
    assert not done.notes


@pytest.mark.slow
def test_cuts_at_29_and_30_seconds_are_each_named(tmp_path):
    """In real seconds, all at once: without a byte, in the middle, by a gateway's own answer."""
    plans = {
        "29, no byte": {"first_token_s": 60, "headers_s": 60, "cut_after_s": 29},
        "29, answered": {"headers_s": 60, "cut_after_s": 29, "cut": "504"},
        "30, tokens flow": {"gap_s": 0.5, "tokens": 200, "cut_after_s": 30},
        "30, reset": {"gap_s": 0.5, "tokens": 200, "cut_after_s": 30, "cut": "reset"},
        "27, nobody's": {"gap_s": 0.5, "tokens": 200, "cut_after_s": 27},
    }

    async def one(url, plan):
        target = target_of(url, headers={"x-plan": SecretStr(json.dumps(plan))})
        return await exchange(target, PROMPT, timeout_s=45)

    async def every(url, through):
        return await asyncio.gather(
            *(one(url, plan) for plan in plans.values()),
            one(through, {"hang_after": 4, "gap_s": 0.5}),
        )

    idle = "proxy_buffering off; proxy_read_timeout 30s;"
    with (
        StreamingServer() as server,
        nginx(tmp_path / "idle", server.url, idle) as through,
    ):
        *done, by_nginx = asyncio.run(every(server.url, through))

    found = dict(zip(plans, map(finding, done), strict=True))
    assert found["29, no byte"].reason == "cut_29s"
    assert "API Gateway's integration timeout" in found["29, no byte"].sentence
    assert found["29, answered"].reason == "cut_29s"
    assert "answered with 504 29.0" in found["29, answered"].sentence
    assert found["30, tokens flow"].reason == "cut_30s"
    assert "after the request" in found["30, tokens flow"].sentence
    assert found["30, reset"].reason == "cut_30s"
    assert found["27, nobody's"].reason == "cut_off"
    assert finding(by_nginx).reason == "cut_30s"
    assert "after the last byte, with 4 chunks" in finding(by_nginx).sentence


def test_a_429_is_named_and_its_retry_after_is_honoured(tmp_path):
    refusing = {"status": 429, "refuse": 1, "extra_headers": {"retry-after": "1"}}
    with StreamingServer(**refusing) as server:
        target = target_of(server.url, handshakes=0)
        refused, still, after = rounds(asking(tmp_path, target), times=3, pause_s=0.6)
        sent = len(server.truth())

    assert refused.found(refused.last).reason == "http_429"
    assert "asks to wait 1 s" in refused.notes[0]
    assert still.refused_as == "waiting"
    assert not still.asked
    assert after.up
    assert sent == 2


def test_a_429_without_a_word_of_when_is_left_alone_longer_each_time(tmp_path):
    with StreamingServer(status=429) as server:
        one = asking(tmp_path, target_of(server.url), interval_s=1.0)
        begun = [done.refused_as for done in rounds(one, times=6, pause_s=0.7)]

    assert begun == ["", "waiting", "waiting", "", "waiting", "waiting"]


def test_a_first_request_that_is_late_is_a_cold_start_when_the_next_is_not(tmp_path):
    with StreamingServer(cold_s=1.5) as server:
        first, second = rounds(asking(tmp_path, target_of(server.url)), times=2)

    assert [first.found(each).reason if first.found(each) else "ok" for each in first.asked] == [
        "cold_start",
        "ok",
    ]
    assert "the first token took 1.5" in first.notes[0]
    assert len(second.asked) == 1
    assert second.found(second.last) is None


def test_a_cold_start_after_an_idle_time_is_told_from_the_usual(tmp_path):
    with StreamingServer(cold_s=1.2, cold_idle_s=0.5) as server:
        one = asking(tmp_path, target_of(server.url))
        done = rounds(one, times=3)
        time.sleep(0.6)
        done += rounds(one)

    assert [bool(each.cold) for each in done] == [True, False, False, True]


def test_an_engine_that_is_always_slow_is_not_cold(tmp_path):
    with StreamingServer(first_token_s=1.3, tokens=3) as server:
        done = rounds(asking(tmp_path, target_of(server.url)), times=2)

    assert [len(each.asked) for each in done] == [2, 1]
    assert not done[0].notes


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (503, '{"error": "Model m is currently loading", "estimated_time": 20.0}'),
        (503, '{"message": "ModelNotReadyException"}'),
        (429, '{"message": "The model is not ready for inference"}'),
        (500, '{"error": {"message": "loading model"}}'),
    ],
)
def test_an_answer_that_says_it_is_still_loading_is_a_cold_start(status, body):
    with StreamingServer(status=status, body=body) as server:
        done = ask(target_of(server.url))

    assert finding(done).reason == "cold_start"


def test_lumps_of_an_answer_of_a_few_tokens_cannot_be_told():
    with StreamingServer(tokens=5, tokens_per_write=5) as server:
        done = ask(target_of(server.url))

    assert lumps(done).held is None
