"""A new process that goes on where the last one was: the same numbers, whenever that one ended."""

import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.engine.checkpoint import pages_in
from exporters.engine.run import _watch
from exporters.engine.settings import EngineSettings
from tests.exporters.pages_of import SECOND_NS, increments, latency
from tests.exporters.test_target import histogram, started

URL = "http://engine:8000/metrics"
NOW_NS = 1_790_000_000 * SECOND_NS


class Process:
    """One process's look at a target: pages in, readings and what to remember out."""

    def __init__(self, memo=None, *, url=URL, now_ns=NOW_NS):
        settings = EngineSettings(targets=[{"url": url, "service": "chat", "replica": "r0"}])
        self.watch = _watch(settings.targets[0], settings)
        for at_ns, text in pages_in(memo, url, now_ns=now_ns):
            self.watch._digest(text, at_ns)
        self.memo = memo

    def look(self, text, at_ns):
        self.watch.memo = None
        reading = self.watch._digest(text, at_ns)
        self.memo = self.memo if self.watch.memo is None else self.watch.memo
        return reading


def tokens(n, more=""):
    return f'vllm:generation_tokens_total{{model_name="m"}} {n}\n{more}'


def seen(texts, killed_after=()):
    """What all readings say together, by a process that is killed after these pages."""
    process, counted = Process(), {}
    for place, text in enumerate(texts):
        reading = process.look(text, NOW_NS + place * SECOND_NS)
        for metric in ("generation_tokens", "requests_started"):
            counted[metric] = counted.get(metric, 0) + (increments(reading, metric) or 0)
        pair = latency(reading, "ttft")
        counted["ttft"] = counted.get("ttft", 0) + (pair.n if pair is not None else 0)
        if place in killed_after:
            process = Process(process.memo, now_ns=NOW_NS + place * SECOND_NS + 1)
    return counted


def test_the_growth_across_a_kill_is_counted_once():
    texts = [tokens(n, histogram([0.2] * n)) for n in (3, 5, 9, 10)]

    assert seen(texts, killed_after=(0, 1, 2)) == seen(texts)
    assert seen(texts)["generation_tokens"] == seen(texts)["ttft"] == 7


def test_an_engine_that_restarted_meanwhile_begins_at_zero():
    texts = [tokens(100, started(50)), tokens(7, started(99))]

    assert seen(texts, killed_after=(0,)) == seen(texts)
    assert seen(texts)["generation_tokens"] == 7


@pytest.mark.parametrize("cut", [3, 40, 120, 200, 400])
def test_a_page_that_was_cut_off_is_no_place_to_begin(cut):
    def whole(n):
        return histogram([0.2] * n) + tokens(n)

    texts = [whole(3), whole(5), whole(6)[:cut], whole(8), whole(9)]

    for killed_after in ((1,), (2,), (3,), (1, 2, 3)):
        assert seen(texts, killed_after=killed_after) == seen(texts)
    assert seen(texts)["generation_tokens"] == 6


def test_a_series_that_is_missing_for_a_page_keeps_its_place():
    other = 'vllm:generation_tokens_total{model_name="b"} '
    texts = [tokens(3, f"{other}1000\n"), tokens(4), tokens(5, f"{other}1002\n")]

    assert seen(texts, killed_after=(1,)) == seen(texts)
    assert seen(texts)["generation_tokens"] == 4


def test_a_gauge_that_goes_is_no_reason_to_keep_more_pages():
    process = Process()
    kind = "# TYPE vllm:num_requests_running gauge\n"
    running = 'vllm:num_requests_running{model_name="m"} 1\n'
    process.look(tokens(1, kind + running), NOW_NS)
    process.look(tokens(2, kind), NOW_NS + SECOND_NS)

    assert len(pages_in(process.memo, URL, now_ns=NOW_NS + 2 * SECOND_NS)) == 1


def test_no_more_than_a_few_pages_are_kept():
    process = Process()
    process.look(tokens(1, 'vllm:prompt_tokens_total{model_name="m"} 1\n'), NOW_NS)
    for place in range(1, 30):
        process.look(tokens(place), NOW_NS + place * SECOND_NS)
        assert len(pages_in(process.memo, URL, now_ns=NOW_NS + place * SECOND_NS)) <= 8


def memo_of(*texts):
    process = Process()
    for place, text in enumerate(texts):
        process.look(text, NOW_NS + place * SECOND_NS)
    return process.memo


def test_what_a_page_before_the_one_cut_off_had_is_not_forgotten():
    whole = started(50) + histogram([0.2] * 5) + tokens(5)
    texts = [whole, whole, started(50) + "# TYP", started(50) + tokens(5), whole]

    assert seen(texts, killed_after={3}) == seen(texts)
    assert seen(texts)["ttft"] == 0


@pytest.mark.parametrize("after_s", [601, 86_400, -1])
def test_a_page_of_long_ago_or_of_the_future_is_no_place_to_begin(after_s):
    memo = memo_of(tokens(1))

    assert not pages_in(memo, URL, now_ns=NOW_NS + after_s * SECOND_NS)
    assert pages_in(memo, URL, now_ns=NOW_NS + SECOND_NS) == [(NOW_NS, tokens(1))]


def test_the_page_of_another_address_is_no_place_to_begin():
    assert not pages_in(memo_of(tokens(1)), "http://other/metrics", now_ns=NOW_NS + 1)


def test_several_engines_behind_one_address_are_not_remembered():
    memo = memo_of(tokens(100, started(50)), tokens(7, started(20)))

    assert memo == b""


@pytest.mark.parametrize(
    "memo",
    [
        None,
        b"",
        b"null",
        b"[]",
        b'{"url": 1}',
        b"\xff\n",
        b'{"url": "http://engine:8000/metrics", "pages": [[1, 5]]}\nabcde',
        b'{"url": "http://engine:8000/metrics", "pages": [[1e400, 5]]}\nabcde',
        json.dumps({"url": URL, "pages": [["x", 9]]}).encode() + b"\n" + zlib.compress(b"x"),
    ],
)
def test_a_memo_that_is_none_is_no_place_to_begin(memo):
    assert pages_in(memo, URL, now_ns=NOW_NS) == ()


steps = st.tuples(
    st.integers(0, 5),
    st.sampled_from(["whole", "whole", "cut", "no histogram", "odd", "restart", "html"]),
    st.integers(0, 300),
)


@given(st.lists(steps, min_size=2, max_size=9), st.sets(st.integers(0, 9)))
def test_kills_change_no_number_whatever_the_pages_are(steps, killed_after):
    texts, n, at_s = [], 5, 50
    for by, how, cut in steps:
        n, at_s = (by, at_s + 10) if how == "restart" else (n + by, at_s)
        text = started(at_s) + histogram([0.2] * n) + tokens(n)
        match how:
            case "cut":
                text = text[: len(started(at_s)) + cut]
            case "no histogram":
                text = started(at_s) + tokens(n)
            case "odd":
                text = text.replace('le="0.25"} ', 'le="0.25"} x')
            case "html":
                text = "<html>"
        texts.append(text)

    assert seen(texts, killed_after=killed_after) == seen(texts)
