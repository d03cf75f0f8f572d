"""Replicas taken together: whatever is asked, the tiles of a crowd say what those of its series say."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.crowds import Crowds, names_a_place
from collector.query import Selection, Window
from collector.reader import StoreReader
from collector.settings import TierRetention
from collector.store import file_of
from domain.distribution import add_all
from domain.labels import labels_of, project
from tests.collector.storing import NOW_S, rows, span, traces, writing

HOUR = int(NOW_S) // 3600 * 3600
DAY_S = 86_400
E2E = "gen_ai__latency__e2e"

request = st.tuples(
    st.integers(0, 3),  # replica
    st.sampled_from(["a", "b"]),  # model
    st.floats(0.001, 60),
    st.integers(0, 4 * 3600),  # ago
)
edge = st.integers(0, 5 * 3600)


def told(number, each):
    replica, model, value_s, ago_s = each
    return traces(
        span(
            number, end_s=HOUR - ago_s, gen_ai__request__model=model, **{E2E: value_s},
        ),
        **{"service.name": "chat", "service.instance.id": f"r{replica}"},
    )  # fmt: skip


def answers(reader, window, **asked):
    """Everything that a latency says, bit by bit."""
    found = reader.latency("e2e", Selection(window=window, **asked))
    return {
        (each.labels, point.since_s): (
            point.distribution.low.tolist(),
            point.distribution.high.tolist(),
            point.distribution.sum_s,
            point.failed,
            each.sources,
        )
        for each in found
        for point in each.points
    }


def added_up(reader, window, **asked):
    """The same, from each replica: the tiles of crowds cannot tell these."""
    by = tuple(asked.pop("by", ()))
    found = {}
    for labels, said in _by_replica(reader, window, by=(*by, "replica"), **asked):
        for point in said.points:
            parts, failed, sources = found.setdefault(
                (project(labels, by), point.since_s), ([], [], set())
            )
            parts.append(point.distribution)
            failed.append(point.failed)
            sources |= said.sources
    whole = {
        key: (add_all(parts), sum(failed), sources)
        for key, (parts, failed, sources) in found.items()
    }
    return {
        key: (each.low.tolist(), each.high.tolist(), pytest.approx(each.sum_s), failed, sources)
        for key, (each, failed, sources) in whole.items()
    }


def _by_replica(reader, window, **asked):
    found = reader.latency("e2e", Selection(window=window, **asked))
    return [(each.labels, each) for each in found]


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    first=st.lists(request, min_size=1, max_size=25),
    late=st.lists(request, max_size=6),
    ends=st.tuples(edge, edge).filter(lambda each: each[0] != each[1]),
    step_s=st.sampled_from([None, 60, 600, 3600]),
)
def test_a_crowd_says_what_its_series_say(tmp_path_factory, first, late, ends, step_s):
    path = tmp_path_factory.mktemp("crowd")
    window = Window(since_s=HOUR - max(ends), until_s=HOUR - min(ends) + 10)
    asked = [{}, {"by": ("service",)}, {"by": ("model",)}, {"where": labels_of({"model": "a"})}]
    with writing(path) as writer:
        for number, each in enumerate(first, 1):
            writer.traces(told(number, each))
        writer.settle()
        for number, each in enumerate(late, 100):  # these tiles are dirty, or rolled again
            writer.traces(told(number, each))
        reader = StoreReader(path)
        fast = [answers(reader, window, step_s=step_s, **more) for more in asked]
        plain = [added_up(reader, window, step_s=step_s, **more) for more in asked]
        writer.settle()
        settled = [answers(reader, window, step_s=step_s, **more) for more in asked]
        reader.close()

    assert fast == plain
    assert settled == plain  # and whichever tiers tell it


def test_what_comes_when_its_fine_tiles_are_gone_reaches_the_crowd_too(tmp_path):
    window = Window(since_s=HOUR - 3 * DAY_S, until_s=HOUR - DAY_S)
    with writing(tmp_path, retention=TierRetention(tier_10s_s=3600)) as writer:
        writer.retain()
        for number in (1, 2, 3):
            old = (number, "a", float(number), 2 * DAY_S)
            writer.traces(told(number, old))
        reader = StoreReader(tmp_path)
        ((_, (low, _, sum_s, _, _)),) = answers(reader, window).items()
        reader.close()

    assert (sum(low), sum_s) == (3, 6.0)
    assert rows(tmp_path, "SELECT n FROM crowd_60") == [(3,)]


def test_crowds_are_let_go_with_the_tiles_of_their_series(tmp_path):
    clock = [float(HOUR)]
    kept = TierRetention(tier_10s_s=3600, tier_1m_s=3600)
    with writing(tmp_path, now=lambda: clock[0], retention=kept) as writer:
        writer.traces(told(1, (0, "a", 1.0, 60)))
        writer.settle()
        assert rows(tmp_path, "SELECT n FROM crowd_60") == [(1,)]
        clock[0] += 2 * DAY_S
        writer.retain()

    assert rows(tmp_path, "SELECT n FROM crowd_60") == []
    assert rows(tmp_path, "SELECT n FROM crowd_3600") == [(1,)]


def test_a_question_without_replicas_reads_as_many_rows_as_there_are_crowds(tmp_path):
    with writing(tmp_path) as writer:
        for number in range(1, 41):
            writer.traces(told(number, (number, "a", 1.0, 600)))
        writer.settle()

    with closing(sqlite3.connect(file_of(tmp_path))) as connection:
        of_series, of_crowds = (
            connection.execute(f"SELECT count(*) FROM {table}_60 WHERE metric = 5").fetchone()[0]  # noqa: S608
            for table in ("histogram", "crowd")
        )
    assert (of_series, of_crowds) == (40, 1)


def test_a_crowd_is_called_by_the_first_of_its_series():
    crowds = Crowds()
    crowds.learn({4: labels_of({"service": "a", "replica": "1"})})
    crowds.learn(
        {
            6: labels_of({"service": "b", "replica": "1"}),
            7: labels_of({"service": "a", "node": "n"}),
        }
    )

    assert crowds.of == {4: 4, 6: 6, 7: 4}
    assert len(crowds) == 2


@pytest.mark.parametrize(("names", "place"), [(("service", "model"), False), (("replica",), True)])
def test_only_a_place_tells_a_crowd_apart(names, place):
    assert names_a_place(names) is place
    assert not names_a_place(np.array([]).tolist())
