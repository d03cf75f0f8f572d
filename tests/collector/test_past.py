"""What is over is remembered, and never older than the store: late data, other questions, retention."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collector.past import OVER_S, STRIDE_S, Past
from collector.query import Selection, Window
from collector.reader import StoreReader
from collector.settings import TierRetention
from collector.store import file_of
from domain.labels import labels_of
from tests.collector.storing import (
    NOW_S,
    histogram_of,
    metrics,
    rows,
    span,
    traces,
    writing,
)

HOUR = int(NOW_S) // 3600 * 3600
WINDOW = Window(since_s=HOUR - 7200, until_s=HOUR - 3600)
E2E = "gen_ai__latency__e2e"


def told(number, ago_s, *, replica="r0", model="a", now_s=HOUR):
    request = span(number, end_s=now_s - ago_s, gen_ai__request__model=model, **{E2E: 1.0})
    return traces(request, **{"service.name": "chat", "service.instance.id": replica})


def asked(reader, window=WINDOW, **selection):
    """Both questions that are remembered, in full."""
    selected = Selection(window=window, **selection)
    latency = [
        (each.labels, point.since_s, point.distribution.low.tolist(), point.distribution.sum_s)
        for each in reader.latency("e2e", selected)
        for point in each.points
    ]
    stages = [
        (each.labels, each.e2e.low.tolist(), each.flow, [share.stage for share in each.stages])
        for each in reader.stages(selected)
    ]
    return latency, stages


QUESTIONS = [
    {},
    {"by": ("replica",)},
    {"by": ("model",), "step_s": 600},
    {"where": labels_of({"model": "a"})},
    {"where": labels_of({"model": "b"})},
    {"where": labels_of({"replica": "r1"}), "counted": False},
]
request = st.tuples(
    st.integers(0, 4 * 3600), st.sampled_from(["r0", "r1"]), st.sampled_from(["a", "b"])
)


@settings(max_examples=10, deadline=None)
@given(first=st.lists(request, min_size=1, max_size=8), late=st.lists(request, max_size=6))
def test_whatever_comes_and_whoever_asked_the_answer_is_the_one_of_the_store(
    tmp_path_factory, first, late
):
    path = tmp_path_factory.mktemp("past")
    with writing(path, now=lambda: float(HOUR)) as writer:
        for number, (ago_s, replica, model) in enumerate(first, 1):
            writer.traces(told(number, ago_s, replica=replica, model=model))
        remembering = StoreReader(path)
        for number, (ago_s, replica, model) in enumerate(late, 100):
            for question in QUESTIONS:
                asked(remembering, **question)
            writer.traces(told(number, ago_s, replica=replica, model=model))
            for question in QUESTIONS:
                fresh = StoreReader(path)
                assert asked(remembering, **question) == asked(fresh, **question)
                fresh.close()
        writer.settle()
        fresh = StoreReader(path)
        assert [asked(remembering, **each) for each in QUESTIONS] == [
            asked(fresh, **each) for each in QUESTIONS
        ]
        fresh.close()
        remembering.close()


def behind_its_back(path):
    """Takes tiles away without the writer."""
    with closing(sqlite3.connect(file_of(path))) as connection, connection:
        for table in ("histogram_10", "histogram_60", "crowd_60"):
            connection.execute(f"DELETE FROM {table} WHERE at_s < ?", (HOUR - 3600,))  # noqa: S608


def test_what_is_over_is_read_once_until_something_comes_late(tmp_path):
    with writing(tmp_path, now=lambda: float(HOUR)) as writer:
        writer.traces(told(1, 5000))
        writer.traces(told(2, 10))
        writer.settle()
        reader = StoreReader(tmp_path)
        first = asked(reader)
        behind_its_back(tmp_path)
        assert asked(reader) == first
        writer.traces(told(3, 5))  # nothing came for that time
        assert asked(reader) == first
        writer.traces(told(4, 5100))
        ((_, e2e, *_),) = asked(reader)[1]
        reader.close()

    assert sum(e2e) == 1  # of what is there now


def test_what_may_still_change_is_read_each_time(tmp_path):
    window = Window(since_s=HOUR - 3600, until_s=HOUR)
    with writing(tmp_path, now=lambda: float(HOUR)) as writer:
        writer.traces(told(1, 2000))
        reader = StoreReader(tmp_path)
        assert sum(asked(reader, window)[0][0][2]) == 1
        for number in range(2, 6):
            writer.traces(told(number, OVER_S + 120 - number))  # not over yet, by its judge
            assert sum(asked(reader, window)[0][0][2]) == number
        reader.close()


def test_a_better_source_that_comes_just_after_the_past_still_hides_a_worse_one(tmp_path):
    """A page's tile gives way to spans of the minute after it: that minute must be over, too."""
    window = Window(since_s=HOUR - 3600, until_s=HOUR)
    edge_s = (HOUR - OVER_S - 60) // STRIDE_S * STRIDE_S
    page = Metric(name="stagewatch_ttft_seconds")
    histogram_of(page, [0.5], start_s=edge_s - 15, end_s=edge_s - 5)
    with writing(tmp_path, now=lambda: float(HOUR)) as writer:
        writer.metrics(metrics(page, **{"service.name": "chat"}))
        writer.traces(told(1, 5))
        reader, selection = StoreReader(tmp_path), Selection(window=window)
        assert [each.sources for each in reader.latency("ttft", selection)] == [{"page"}]
        late = span(2, end_s=edge_s + 40, gen_ai__latency__time_to_first_token=0.1)
        writer.traces(traces(late, **{"service.name": "chat"}))
        found = [each.sources for each in reader.latency("ttft", selection)]
        reader.close()

    assert found == [{"span"}]


def test_a_tier_that_was_let_go_makes_an_answer_be_asked_for_again(tmp_path):
    clock = [float(HOUR)]
    kept = TierRetention(tier_10s_s=3600)
    window = Window(since_s=HOUR - 7215, until_s=HOUR - 3645)
    with writing(tmp_path, now=lambda: clock[0], retention=kept) as writer:
        writer.traces(told(1, 7210))
        writer.traces(told(2, 5))
        reader = StoreReader(tmp_path)
        before = asked(reader, window)
        clock[0] += 86_400
        writer.retain()
        fresh = StoreReader(tmp_path)
        assert asked(reader, window) == asked(fresh, window)
        assert asked(reader, window) != before  # the window is wider now: minutes are the finest
        for each in (reader, fresh):
            each.close()


def test_the_count_outlives_the_writer_and_a_transaction_that_came_to_nothing(tmp_path):
    for number in (1, 3):
        with writing(tmp_path, now=lambda: float(HOUR)) as writer:
            writer.traces(told(number, 10))
            writer.traces(told(number + 1, 7200))

    assert rows(tmp_path, "SELECT value FROM meta WHERE key = 'late'") == [("2",)]
    assert rows(tmp_path, "SELECT value FROM meta WHERE key = 'closed_s'") == [
        (str(HOUR - OVER_S),)
    ]


@pytest.mark.parametrize(("things", "remembered"), [(0, 6), (1, 3), (5, 1), (9, 0)])
def test_what_is_remembered_is_bounded(things, remembered):
    past, made = Past(most=6), []

    def make(number):
        made.append(number)
        return [number] * things

    for number in range(7):
        past.get(number, "v", lambda n=number: make(n))
    made.clear()
    for number in reversed(range(7 - remembered, 7)):
        past.get(number, "v", lambda n=number: make(n))
    assert made == []
    past.get(6, "w", lambda: make(6))
    assert made == [6]
