"""One chunk, whoever made it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.probe.chunk import Chunk, read_chunk
from exporters.probe.failure import ProbeError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "delta",
                    "content",
                    "usage",
                    "error",
                    "token",
                    "message",
                    "details",
                    "prompt_tokens",
                    "completion_tokens",
                    "text",
                    "finish_reason",
                    "outputs",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


def read(**told):
    return read_chunk(json.dumps(told).encode(), "here")


def choice(delta, **more):
    return read(choices=[{"index": 0, "delta": delta, **more}])


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "a"},
        {"reasoning_content": "hm"},
        {"reasoning": "hm"},
        {"refusal": "no"},
        {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]},
        {"function_call": {"name": "f"}},
    ],
)
def test_text_thought_refusals_and_tool_calls_are_tokens(delta):
    assert choice(delta).shows


@pytest.mark.parametrize(
    "delta", [{}, {"role": "assistant"}, {"role": "assistant", "content": ""}, {"content": None}]
)
def test_a_role_or_an_empty_delta_is_no_token(delta):
    assert not choice(delta).shows
    assert choice(delta).deltas == 1


def test_a_text_completion_has_its_text_in_the_choice():
    chunk = read(choices=[{"text": "a", "finish_reason": "stop"}])

    assert (chunk.shows, chunk.finish_reason) == (True, "stop")


def test_usage_is_read_and_absent_usage_is_none():
    chunk = read(choices=[], usage={"prompt_tokens": 3, "completion_tokens": 0})

    assert (chunk.prompt_tokens, chunk.output_tokens, chunk.thought_tokens) == (3, 0, None)
    assert choice({"content": "a"}, usage=None).output_tokens is None


@pytest.mark.parametrize("count", [-1, True, 1.5, "7", None, 10**12, [], {}])
def test_what_can_be_no_count_is_none(count):
    assert read(choices=[], usage={"prompt_tokens": count}).prompt_tokens is None


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"error": {"message": "engine died", "code": 500}}, "engine died, 500"),
        ({"error": "overloaded"}, "overloaded"),
        ({"object": "error", "message": "bad", "type": "BadRequestError"}, "bad, BadRequestError"),
        ({"error": {"x": 1}}, "no message"),
    ],
)
def test_an_error_is_an_error_with_the_servers_words(told, said):
    assert read(**told).error == said


def test_tgi_says_its_tokens_one_by_one_and_the_reason_at_the_end():
    first = read(token={"id": 1, "text": "Hi"}, generated_text=None, details=None)
    last = read(
        token={"id": 2, "text": "!"},
        generated_text="Hi!",
        details={"finish_reason": "length", "generated_tokens": 2},
    )

    assert (first.shows, first.finish_reason) == (True, "")
    assert (last.finish_reason, last.output_tokens) == ("length", 2)


@pytest.mark.parametrize("data", [b"", b"  "])
def test_an_empty_event_is_a_sign_of_life_and_nothing_else(data):
    assert read_chunk(data, "here") == Chunk()


def test_the_mark_of_the_end_is_no_chunk_of_text():
    assert read_chunk(b" [DONE] ", "here") == Chunk(done=True)


@pytest.mark.parametrize(
    "data", [b"<html>", b"{", b"[]", b"7", b"[" * 100_000, b"9" * 10_000, b"\xff\xfe"]
)
def test_what_is_no_object_is_garbage_and_says_so(data):
    with pytest.raises(ProbeError) as caught:
        read_chunk(data, "here")

    assert caught.value.reason == "garbage"


@given(values)
def test_whatever_json_comes_it_is_a_chunk_or_garbage(told):
    data = json.dumps(told).encode()
    if not isinstance(told, dict):
        with pytest.raises(ProbeError):
            read_chunk(data, "here")
        return

    chunk = read_chunk(data, "here")

    assert chunk.output_tokens is None or chunk.output_tokens >= 0
    assert len(chunk.error) <= 300
