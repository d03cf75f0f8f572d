"""One row per series and period, the last word on it (cases CW6, CW12)."""

from collections import Counter
from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collector import endpoint_rows
from collector.endpoint_rows import EndpointRows, Row, merged
from collector.store import open_store
from domain.endpoint import PointState
from tests.collector.endpoint_points import T0, kept, key, point
from tests.collector.storing import rows, writing

VALUES = {"SampleCount": 4.0, "Sum": 8.0}


def clock(at_s=T0 + 600):
    return lambda: at_s


def test_cw6_a_corrected_value_is_one_row_with_a_second_revision(tmp_path):
    with writing(tmp_path, now=clock()) as writer:
        writer.endpoints([point(statistics={"Sum": 40.0})])
        writer.endpoints([point(statistics={"Sum": 47.0}, at_s=T0 + 180)])

    assert kept(tmp_path) == {("chat", "ModelLatency", T0): ({"Sum": 47.0}, None, 2, "poll")}


def test_the_same_reading_twice_changes_nothing(tmp_path):
    with writing(tmp_path, now=clock()) as writer:
        for _ in range(3):
            writer.endpoints([point(settled_s=T0 + 300)])
        counts = writer.counts()

    assert kept(tmp_path) == {("chat", "ModelLatency", T0): (VALUES, T0 + 300, 1, "poll")}
    assert counts["new_endpoint_points_total"] == 1
    assert counts["known_endpoint_points_total"] == 2


def test_a_reading_that_comes_late_by_the_spool_does_not_replace_a_younger_one(tmp_path):
    with writing(tmp_path, now=clock()) as writer:
        writer.endpoints([point(statistics={"Sum": 47.0}, at_s=T0 + 180)])
        writer.endpoints([point(statistics={"Sum": 40.0}, at_s=T0 + 70)])

    assert kept(tmp_path)["chat", "ModelLatency", T0][0] == {"Sum": 47.0}


def test_silence_becomes_a_value_when_one_comes_and_a_value_never_becomes_silence(tmp_path):
    with writing(tmp_path, now=clock()) as writer:
        writer.endpoints([point(statistics={}, settled_s=T0 + 300, at_s=T0 + 300)])
        silent = kept(tmp_path)
        writer.endpoints([point(at_s=T0 + 900, settled_s=T0 + 900)])
        writer.endpoints([point(statistics={}, at_s=T0 + 960, settled_s=T0 + 960)])

    assert silent == {("chat", "ModelLatency", T0): ({}, T0 + 300, 1, "poll")}
    assert kept(tmp_path) == {("chat", "ModelLatency", T0): (VALUES, T0 + 900, 2, "poll")}


def test_a_stream_and_a_poll_of_the_same_samples_complete_each_other(tmp_path):
    polled = {**VALUES, "p99": 3.0, "PR(:2)": 50.0}
    streamed = {**VALUES, "p99": 3.0, "Maximum": 3.5}
    with writing(tmp_path, now=clock()) as writer:
        writer.endpoints([point(statistics=polled, at_s=T0 + 120)])
        writer.endpoints(
            [point(statistics=streamed, at_s=T0 + 180, source="stream", service="llm-prod")]
        )

    assert kept(tmp_path) == {
        ("chat", "ModelLatency", T0): ({**polled, **streamed}, None, 1, "stream")
    }


def test_of_a_stream_that_saw_other_samples_no_good_count_is_left_over(tmp_path):
    polled = {**VALUES, "PR(:2)": 50.0}
    with writing(tmp_path, now=clock()) as writer:
        writer.endpoints([point(statistics=polled, at_s=T0 + 120)])
        grown = {"SampleCount": 5.0, "Sum": 9.0}
        writer.endpoints([point(statistics=grown, at_s=T0 + 180, source="stream")])

    assert kept(tmp_path)["chat", "ModelLatency", T0][0] == grown


def test_a_poll_knows_the_services_name_and_a_stream_only_guesses(tmp_path):
    with writing(tmp_path, now=clock()) as writer:
        writer.endpoints([point(service="llm-prod", source="stream")])
        writer.endpoints([point(T0 + 60, service="chat")])
        writer.endpoints([point(T0 + 120, service="llm-prod", source="stream")])

    assert {service for service, *_ in kept(tmp_path)} == {"chat"}
    assert len(kept(tmp_path)) == 3


def test_another_period_of_the_same_minute_is_another_row(tmp_path):
    hour = T0 // 3600 * 3600
    with writing(tmp_path, now=clock()) as writer:
        writer.endpoints([point(hour), point(hour, of=key(period_s=3600))])

    assert rows(tmp_path, "SELECT count(*) FROM endpoint_point") == [(2,)]
    assert rows(tmp_path, "SELECT count(*) FROM endpoint_series") == [(1,)]


def test_series_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(endpoint_rows, "_MOST_SERIES", 2)
    with writing(tmp_path, now=clock()) as writer:
        outcomes = [writer.endpoints([point(of=key(EndpointName=f"e{n}"))]) for n in range(4)]
        again = writer.endpoints([point(T0 + 60, of=key(EndpointName="e1"))])

    assert [outcome.rejected for outcome in outcomes] == [0, 0, 1, 1]
    assert "more than 2 series" in outcomes[3].message
    assert again.rejected == 0


def test_a_restarted_writer_goes_on_with_the_same_series(tmp_path):
    for minute in range(2):
        with writing(tmp_path, now=clock()) as writer:
            writer.endpoints([point(T0 + 60 * minute)])

    assert rows(tmp_path, "SELECT count(*) FROM endpoint_series") == [(1,)]


def test_a_transaction_that_came_to_nothing_leaves_no_numbers_behind(tmp_path):
    store = open_store(tmp_path)
    own = EndpointRows()
    with store.engine.connect() as connection:
        transaction = connection.begin()
        own.keep(connection, [point()], Counter())
        transaction.rollback()
        own.forget()
        with connection.begin():
            own.keep(connection, [point()], Counter())
    store.close()

    assert len(kept(tmp_path)) == 1


def test_points_are_let_go_with_the_minutes(tmp_path):
    day_s = 86_400
    with writing(tmp_path, now=clock(T0 + 15 * day_s)) as writer:
        writer.endpoints([point(), point(T0 + 14 * day_s, at_s=T0 + 14 * day_s + 70)])
        hour = T0 // 3600 * 3600
        writer.endpoints([point(hour, of=key(period_s=3600))])
        writer.retain()

    assert sorted(at for *_, at in kept(tmp_path)) == [hour, T0 + 14 * day_s]


ROWS = st.builds(
    Row,
    has_value=st.just(value=True),
    statistics=st.dictionaries(
        st.sampled_from(["SampleCount", "Sum", "p99", "PR(:2)"]),
        st.sampled_from([1.0, 2.0]),
        min_size=1,
    ),
    settled_at_s=st.none() | st.just(9.0),
    fetched_at_s=st.integers(0, 100).map(float),
) | st.builds(
    Row,
    has_value=st.just(value=False),
    statistics=st.just({}),
    settled_at_s=st.just(9.0),
    fetched_at_s=st.integers(0, 100).map(float),
)


@given(ROWS, ROWS)
def test_two_readings_end_the_same_in_either_order(one, other):
    if one.fetched_at_s == other.fetched_at_s:
        return

    both = [merged(*pair) for pair in permutations((one, other))]

    assert both[0].statistics == both[1].statistics
    assert both[0].settled_at_s == both[1].settled_at_s
    assert both[0].has_value == both[1].has_value


@given(ROWS, ROWS)
def test_a_reading_that_is_repeated_changes_nothing_more(one, other):
    once = merged(one, other)

    assert merged(once, other).revision == once.revision
    assert merged(once, other).statistics == once.statistics


def test_an_export_without_endpoints_leaves_no_rows(tmp_path):
    with writing(tmp_path, now=clock()) as writer:
        assert writer.metrics(ExportMetricsServiceRequest()).rejected == 0

    assert kept(tmp_path) == {}
    assert PointState.NO_DATA.value == "no data"
