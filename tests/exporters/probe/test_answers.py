"""What servers really answer, and what becomes of it: whole, broken, odd and hostile answers."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.request import Outcome
from tests.exporters.probe.asking import ask, ask_again, asked_with, target_of
from tests.exporters.probe.raw_server import RawServer, streamed
from tests.exporters.probe.streaming_server import StreamingServer
from tests.paths import RECORDED


@pytest.fixture(scope="module")
def server():
    with StreamingServer(first_token_s=0.03, gap_s=0.004, tokens=12) as running:
        yield running


def test_a_whole_answer_is_ok_and_everything_is_known_of_it(server):
    done = asked_with(server)

    assert (done.outcome, done.status, done.finish_reason) == (Outcome.OK, 200, "length")
    assert (done.prompt_tokens, done.output_tokens, done.streamed_tokens) == (20, 12, 12)
    assert done.chunk_tokens == (1,) * 12
    assert done.first_byte_s < done.ttft_s < done.e2e_s
    assert done.e2e_s == done.lasted_s
    assert done.tpot_s == pytest.approx(sum(done.gaps_s) / 11)
    assert done.itl_max_s == max(done.gaps_s)
    assert (done.reason, done.trouble, done.notes) == ("", "", ())


def test_what_we_ourselves_waited_for_a_processor_is_known(server):
    waited_s = asked_with(server).waited_s

    assert waited_s is None or waited_s >= 0


def test_a_text_completion_is_measured_like_a_chat(server):
    done = ask(target_of(server.url, kind="openai-completions"))

    assert done.url.endswith("/v1/completions")
    assert (done.ok, done.output_tokens, done.chunks) == (True, 12, 12)


def test_the_role_chunk_is_the_first_byte_and_no_token(server):
    done = asked_with(server, first_token_s=0.2)

    assert done.first_byte_s < 0.1
    assert done.ttft_s >= 0.2


def test_thought_is_a_token(server):
    done = asked_with(server, reasoning=12)

    assert done.ttft_s is not None
    assert done.chunks == 12


def test_a_tool_call_is_a_token(server):
    assert asked_with(server, tool=True).chunks == 12


def test_thought_that_is_billed_and_not_sent_stretches_no_tpot(server):
    done = asked_with(server, hidden_thought=100)

    assert (done.output_tokens, done.streamed_tokens) == (112, 12)
    assert done.tpot_s == pytest.approx(sum(done.gaps_s) / 11)
    assert "100 tokens of thought were billed and not sent" in done.notes


def test_several_tokens_in_a_chunk_are_counted_where_the_server_counts_along(server):
    done = asked_with(server, tokens_per_chunk=3)

    assert done.chunk_tokens == (3, 3, 3, 3)
    assert done.tpot_s == pytest.approx(sum(done.gaps_s) / 11)


def test_a_server_that_only_counts_at_the_end_is_asked_for_less(server):
    done = asked_with(server, usage="refused")

    assert (done.ok, done.output_tokens, done.chunk_tokens) == (True, 12, None)
    assert done.chunks == 12


def test_a_server_that_does_not_count_has_its_chunks_counted_and_that_is_said(server):
    done = asked_with(server, usage="never")

    assert (done.output_tokens, done.counted_tokens, done.prompt_tokens) == (12, False, None)
    assert "12 chunks are taken for as many" in done.notes[0]


def test_a_one_token_answer_has_no_gaps_and_no_tpot(server):
    done = asked_with(server, tokens=1)

    assert (done.output_tokens, done.gaps_s, done.tpot_s, done.itl_max_s) == (1, (), None, None)
    assert done.ok


def test_a_server_that_does_not_stream_has_an_e2e_and_nothing_else(server):
    done = asked_with(server, unary=True)

    assert (done.ok, done.reason) == (True, "no_stream")
    assert (done.ttft_s, done.tpot_s, done.gaps_s) == (None, None, ())
    assert done.e2e_s > 0.07


def test_keep_alive_comments_are_no_tokens(server):
    done = asked_with(server, comments=5, first_token_s=0.1)

    assert done.chunks == 12
    assert done.ttft_s >= 0.1


def test_events_cut_into_single_bytes_and_ended_the_other_way_are_the_same_events(server):
    done = asked_with(server, piece_bytes=1, line_end="\r\n", word="naïve€", tokens=3)

    assert (done.ok, done.chunks, done.output_tokens) == (True, 3, 3)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ({"error_after": 5}, "error_event"),
        ({"finish_reason": ""}, "no_finish"),
        ({"finish_reason": "", "done": False}, "no_finish"),
        ({"finish_reason": "abort"}, "error_finish"),
        ({"cut_after_s": 0.05}, "cut_off"),
        ({"cut_after_s": 0.05, "cut": "reset"}, "cut_off"),
        ({"garbage": "<html>so sorry</html>"}, "garbage"),
        ({"garbage": "data: <html>\n\n"}, "garbage"),
        ({"garbage": ":\n"}, "garbage"),
        ({"huge_line_bytes": 2_000_000}, "too_large"),
        ({"status": 500, "body": "boom"}, "http_500"),
        ({"status": 429}, "http_429"),
    ],
)
def test_a_200_that_is_no_whole_answer_is_failed_like_a_500(server, plan, reason):
    done = asked_with(server, **plan)

    assert (done.outcome, done.reason) == (Outcome.FAILED, reason)
    assert done.e2e_s is None
    assert done.lasted_s is not None
    assert server.url in done.trouble


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_request_that_is_wrong_in_itself_is_rejected(server, status):
    done = asked_with(server, status=status, body='{"error": {"message": "no such model"}}')

    assert (done.outcome, done.reason) == (Outcome.REJECTED, f"http_{status}")
    assert "no such model" in done.trouble


def test_a_redirect_is_not_followed_and_names_its_place(server):
    done = asked_with(server, status=307, extra_headers={"location": "https://elsewhere"})

    assert (done.outcome, done.reason) == (Outcome.REJECTED, "redirect")
    assert "https://elsewhere" in done.trouble


def test_an_answer_that_never_ends_is_given_up_in_time(server):
    done = asked_with(server, timeout_s=0.3, hang_after=4)

    assert (done.outcome, done.reason) == (Outcome.FAILED, "timeout")
    assert "no end within 0.3 s; 4 chunks had come until then" in done.trouble
    assert 0.25 <= done.lasted_s < 0.6
    assert 0 < done.idle_s < done.lasted_s


def test_a_kept_connection_is_used_again_and_has_no_handshake(server):
    first, second = ask_again(2, target_of(server.url), kept=True)

    assert (first.reused, second.reused) == (False, True)
    assert first.connect_s is not None
    assert (second.connect_s, second.dns_s, second.tls_s, second.address) == (None, None, None, "")
    assert second.ok


def test_a_kept_connection_that_was_closed_meanwhile_is_made_anew():
    with StreamingServer(keep_alive=False, tokens=3) as closing:
        done = ask_again(3, target_of(closing.url), kept=True)

    assert all(each.ok for each in done)
    assert [each.reused for each in done] == [False, False, False]


def test_the_request_carries_its_trace_so_that_the_engines_span_joins(server):
    done = ask(target_of(server.url))

    told = server.truth()[-1]["headers"]
    assert told["traceparent"] == f"00-{done.trace_id.hex()}-{done.span_id.hex()}-01"
    assert told["accept-encoding"] == "identity"


def test_settings_add_to_the_body_take_out_of_it_and_fill_in_the_prompt(server):
    body = {"max_tokens": None, "max_completion_tokens": 7, "extra": {"asks": ["{prompt}"]}}

    ask(target_of(server.url, body=body))

    asked = server.truth()[-1]["asked"]
    assert "max_tokens" not in asked
    assert asked["max_completion_tokens"] == 7
    assert asked["extra"]["asks"][0] == asked["messages"][0]["content"]


def test_chunks_that_show_nothing_leave_the_first_token_unknown_and_say_so():
    """A recording: Dynamo whose tokenizer could not decode; six tokens, every delta empty."""
    recorded = (RECORDED / "dynamo" / "odd-stream" / "response-stream.txt").read_bytes()
    with RawServer(*streamed(recorded)) as raw:
        done = ask(target_of(raw.url))

    assert (done.ok, done.reason, done.ttft_s) == (True, "no_content", None)
    assert (done.output_tokens, done.prompt_tokens) == (6, 7)
    assert "none shows text" in done.trouble


def test_a_recorded_stream_of_a_real_frontend_is_read():
    recorded = (RECORDED / "dynamo" / "response-stream.txt").read_bytes()
    with RawServer(*streamed(recorded)) as raw:
        done = ask(target_of(raw.url))

    assert done.ok
    assert done.chunks == done.output_tokens


def test_a_compressed_answer_that_nobody_asked_for_is_named():
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-type: text/event-stream\r\n\r\n"
    with RawServer(head, b"\x1f\x8b") as raw:
        done = ask(target_of(raw.url))

    assert done.reason == "encoding"


def test_hints_before_the_answer_are_not_the_answer():
    hints = b"HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n"
    body = b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n'
    with RawServer(hints, *streamed(body)) as raw:
        done = ask(target_of(raw.url))

    assert (done.ok, done.status) == (True, 200)


def test_who_answers_is_remembered():
    head = b"HTTP/1.1 200 OK\r\nserver: nginx/1.22\r\nvia: 1.1 edge\r\ncontent-length: 2\r\n\r\n{}"
    with RawServer(head) as raw:
        done = ask(target_of(raw.url))

    assert done.server == "nginx/1.22 1.1 edge"


@pytest.mark.parametrize(
    "pieces",
    [
        (b"SSH-2.0-OpenSSH_9\r\n",),
        (b"",),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 100_000,),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzzz\r\n",),
        (b"HTTP/1.1 999 OK\r\n\r\n",),
        (b"HTTP/2 200\r\n\r\n",),
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",),
        streamed(b"data: " + b"[" * 50_000 + b"\n\n"),
        streamed(b'data: {"choices": {"delta": 7}}\n\ndata: {"choices": [7, null]}\n\n'),
        streamed(b'{"choices": "x"}', content_type="application/json"),
        streamed(b" " * 5_000_000, content_type="application/json"),
    ],
)
def test_a_hostile_answer_is_an_exchange_with_a_reason(pieces):
    with RawServer(*pieces) as raw:
        done = ask(target_of(raw.url), timeout_s=5)

    assert not done.ok
    assert done.reason in {"garbage", "cut_off", "too_large", "no_finish", "http_999"}
    assert len(done.trouble) < 600


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_whatever_raise(data, after_a_head):
    pieces = streamed(data) if after_a_head else (data,)
    with RawServer(*pieces) as raw:
        done = ask(target_of(raw.url), timeout_s=3)

    assert done.outcome is not Outcome.OK
    assert done.reason


@pytest.mark.parametrize(
    "sent", [b"SSH-2.0-OpenSSH_9.2\r\n\r\n", b"\x15\x03\x01\x00\x02\x02F\r\n\r\n"]
)
def test_who_speaks_another_language_and_hangs_up_is_not_said_to_have_broken_off(sent):
    with RawServer(sent) as server:
        done = ask(target_of(server.url))

    assert done.reason == "garbage"


def test_an_answer_that_finishes_without_a_token_or_a_count_is_told_as_such():
    finished = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n'
    with RawServer(*streamed(finished)) as server:
        done = ask(target_of(server.url))

    assert (done.ok, done.reason, done.ttft_s, done.chunks) == (True, "no_content", None, 0)
