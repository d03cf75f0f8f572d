"""Requests as columns: the same ones as one by one, the newest first, and how far back they go."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.legs import OUTCOMES
from collector.query import Window
from collector.reader import StoreReader
from collector.request_cloud import Joined, columns
from collector.segment_cache import Segments
from collector.snapshot import Snapshots
from domain.request_columns import REQUEST_VALUES
from tests.collector.storing import writing
from tests.dashboard.outside_scene import NOW, SLOWEST, requests, together, trace_id

HOUR = Window(since_s=NOW - 3600, until_s=NOW)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two replicas; of some requests a client told too. Written in six groups."""
    path = tmp_path_factory.mktemp("cloud")
    exports = [*requests(120), *requests(60, replica="r1", seed=2, first=1000)]
    for group in range(6):
        with writing(path, now=lambda: float(NOW)) as writer:
            writer.traces(together(exports[group::6]))
            writer.settle()
    return path


@pytest.fixture(scope="module")
def reader(folder):
    made = StoreReader(folder, now=lambda: float(NOW))
    yield made
    made.close()


def value(request, name):
    known = {"ttft": request.client_ttft_s, "e2e": request.client_e2e_s}
    found = getattr(request, name if name.endswith("tokens") else f"{name}_s")
    return known.get(name) if found is None else found


@settings(max_examples=25, deadline=None)
@given(
    st.tuples(st.integers(0, 3500), st.integers(60, 3600)),
    st.sampled_from([(), (("replica", "r1"),), (("source", "client"),), (("service", "nobody"),)]),
)
def test_columns_are_the_requests_one_by_one(reader, ago, where):
    window = Window(since_s=NOW - ago[0] - ago[1], until_s=NOW - ago[0])

    found = reader.request_columns(window, where=where)
    alone = reader.requests(window, where=where, limit=1000)

    assert list(found.trace_ids) == [each.trace_id for each in alone]
    assert list(found.labels) == [each.labels for each in alone]
    assert [OUTCOMES[each] for each in found.outcome] == [each.outcome for each in alone]
    assert found.reaches_s is None
    for name in REQUEST_VALUES:
        expected = [value(each, name) for each in alone]
        told = [None if np.isnan(each) else float(each) for each in found.values[name]]
        assert told == pytest.approx(expected)


def test_what_is_too_much_is_left_out_from_the_oldest_on_and_said(folder):
    snapshots = Snapshots(folder)
    with snapshots.open() as snapshot:
        found = columns(snapshot, Segments(), Joined(), HOUR, (), most_matching=40)
        whole = columns(snapshot, Segments(), Joined(), HOUR, ())
    snapshots.close()

    assert found.reaches_s is not None
    assert 0 <= len(found.end_at_s) < len(whole.end_at_s)
    assert found.trace_ids == whole.trace_ids[: len(found.trace_ids)]
    assert all(each >= found.reaches_s - 1 for each in found.end_at_s)


def test_a_window_without_requests_is_empty_and_whole(reader):
    found = reader.request_columns(Window(since_s=NOW - 9000, until_s=NOW - 8000))

    assert len(found.trace_ids) == len(found.end_at_s) == len(found.values["ttft"]) == 0
    assert found.reaches_s is None


def test_a_request_is_joined_once_however_often_it_is_asked_for(folder):
    joined = Joined()
    snapshots = Snapshots(folder)
    with snapshots.open() as snapshot:
        first = columns(snapshot, Segments(), joined, HOUR, ())
        known = dict(joined._known)
        second = columns(snapshot, Segments(), joined, HOUR, ())
    snapshots.close()

    assert len(known) == 61  # a third of 180, and the slowest
    assert {key: id(rows) for key, rows in joined._known.items()} == {
        key: id(rows) for key, rows in known.items()
    }
    assert first.trace_ids == second.trace_ids


def test_one_trace_tells_its_request_and_everybody_who_saw_it(reader):
    (traced,) = reader.traced(bytes.fromhex(trace_id(SLOWEST)))

    assert sorted(str(leg.kind) for leg in traced.legs) == ["client", "server"]
    assert traced.request == reader.request(bytes.fromhex(trace_id(SLOWEST)))
    assert reader.traced(b"\xaa" * 16) == []
