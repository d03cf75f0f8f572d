"""How fast a service is, where the time goes, and which replica is worst."""

from dataclasses import replace

import numpy as np
import pytest
from dash import dcc, html

from collector.query import Flow, Replica, Unmeasured
from dashboard import service
from dashboard.breakdown import named_twice
from dashboard.flows import gone_wrong, unfinished_text
from dashboard.stages import how_to_measure
from dashboard.url import View
from domain.labels import labels_of
from domain.request import Stage
from tests.dashboard.reading import attributes, find_all, text
from tests.dashboard.worlds import HOSTILE

REPLICAS = 4


@pytest.fixture
def show(reader, ledger, viewer):
    def at(name, **more):
        return service.content(reader, ledger, View(service=name, **more), viewer)

    return at


def rows(component):
    return find_all(find_all(component, html.Tbody), html.Tr)


def test_the_headline_is_the_sentence_of_the_notification(show):
    shown = show("chat")

    assert text(shown.regions["badge"]) == "▲ page"
    assert text(shown.regions["state"]).startswith("chat-ttft pages since 02:09 UTC")
    assert shown.title == "▲1 chat-ttft"


def test_a_sentence_is_not_said_twice(show):
    assert "pages since" not in text(show("chat").regions["promises"])


def test_a_kept_promise_is_said_first(show):
    shown = show("code")

    assert text(shown.regions["state"]).startswith("Every promise is kept: 1 of 1. Half of the")
    assert shown.title == "● code"


def test_a_service_that_fell_silent_says_for_how_long(show):
    shown = show("search")

    assert text(shown.regions["badge"]) == "? not observed"
    assert text(shown.regions["state"]) == "Nothing has been heard of this service for 25 min."


def test_a_service_nobody_asks_is_not_called_healthy(show):
    shown = show("voice")

    assert text(shown.regions["badge"]) == "○ no traffic"
    assert text(shown.regions["state"]) == "Nobody asked for anything in the last 1 h."


def test_a_service_nobody_has_heard_of_says_where_to_look(show):
    shown = show("nobody")

    assert "Nothing was heard of this service in the last 1 h." in text(shown.regions["state"])
    assert "/service/nobody?from=now-1d" in attributes(shown.regions["state"], "href")
    assert "--once" in text(shown.regions["state"])


def test_four_latencies_and_the_stages_are_drawn(show):
    assert list(show("chat").charts) == ["ttft", "itl", "tpot", "e2e", "stack"]


def test_an_exact_source_is_drawn_as_lines(show):
    traces = show("chat").charts["ttft"]["data"]

    assert {trace["name"] for trace in traces} == {"P99", "P50"}
    assert all(trace["mode"] == "lines" for trace in traces)


def test_a_coarse_source_is_drawn_as_ranges_with_a_word(show):
    shown = show("batch")

    assert all(trace["fill"] == "toself" for trace in shown.charts["ttft"]["data"])
    assert "range: the engine's buckets do not say more" in text(shown.regions["caption-ttft"])
    assert "range" in text(shown.regions["facts"])


def test_the_promise_stands_on_its_chart_only(show):
    charts = show("chat").charts

    assert len(charts["ttft"]["layout"]["shapes"]) == 1
    assert charts["itl"]["layout"]["shapes"] == []


def test_what_nobody_observed_is_hatched_and_a_gap(show):
    figure = show("code").charts["ttft"]

    (hatched,) = [trace for trace in figure["data"] if trace["type"] == "bar"]
    lines = [trace for trace in figure["data"] if trace["type"] == "scatter"]
    assert hatched["width"] == [14 * 60_000]  # whole minutes of the quarter of an hour
    assert all(np.isnan(line["y"]).any() for line in lines)


def test_what_nobody_asked_is_named_and_not_hatched(show):
    figure = show("voice").charts["ttft"]

    assert figure["data"] == []
    assert figure["layout"]["annotations"][0]["text"] == "no traffic"


def test_the_guilty_stage_is_marked_and_its_growth_told(show):
    regions = show("chat").regions

    (guilty,) = [row for row in rows(regions["stages"]) if row.className == "guilty"]
    assert text(guilty).startswith("queue")
    assert "Grew most queue +" in text(regions["facts"])


def test_a_stage_that_nobody_measures_says_how_to_measure_it(show):
    assert "Not measured: network: send client spans; KV transfer" in text(
        show("batch").regions["stages"]
    )


def test_replicas_stand_worst_first_and_a_down_one_on_top(show):
    table = rows(show("chat").regions["breakdown"])

    assert len(table) == REPLICAS
    assert text(table[0]).startswith("vllm-chat-0 ▲ down")
    assert all(" ● up " in text(row) for row in table[1:])


def test_a_replica_shows_running_waiting_cache_and_unfinished(show):
    (head,) = find_all(show("chat").regions["breakdown"], html.Thead)

    assert text(head).endswith("Running Waiting KV cache Started − finished")


def test_splitting_draws_one_line_a_group(show):
    shown = show("chat", by="model")

    names = {trace["name"] for trace in shown.charts["ttft"]["data"]}
    assert names == {"llama-3.1-8b", "llama-3.3-70b"}
    assert "P99 by model" in text(shown.regions["caption-ttft"])
    assert len(rows(shown.regions["breakdown"])) == 2


def test_a_group_is_a_link_that_filters(show):
    links = attributes(show("chat", by="model").regions["breakdown"], "href")

    assert "/service/chat?by=model&where=model%3Dllama-3.1-8b" in links


def test_a_filter_is_shown_and_can_be_lifted(show):
    shown = show("chat", where=(("region", "us-east-1"),))

    assert "region  us-east-1 ×" in text(shown.regions["choices"])
    assert "Lift the filter region" in attributes(shown.regions["choices"], "aria-label")
    assert len(rows(shown.regions["breakdown"])) == 2


def test_a_fixed_window_says_that_it_is_paused_and_how_to_go_on(show, viewer):
    view = View(service="chat").between(viewer.now_s - 1200, viewer.now_s - 600)
    shown = show("chat", fixed=view.fixed)

    told = text(shown.regions["time"])
    assert "Paused" in told
    assert " Live " in told


def test_the_chart_keeps_its_zoom_while_the_view_is_the_same(show):
    first, second = (show("chat").charts["ttft"]["layout"] for _ in range(2))

    assert first["uirevision"] == second["uirevision"] == "/service/chat"


def test_a_chart_is_a_figure_with_a_name_and_a_table(show):
    shown = show("chat")
    page = service.page(View(service="chat"), shown)

    figures = find_all(page, html.Figure)
    assert len(figures) == len(find_all(page, dcc.Graph)) == 5
    assert all(getattr(figure, "aria-labelledby") for figure in figures)
    assert "the newest 12 of" in text(shown.regions["table-ttft"])


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_service_has_a_page_like_any_other(show, reader, worlds, name):
    reader.world = worlds["hostile"]
    shown = show(name)

    assert len(rows(shown.regions["breakdown"])) == 2
    assert shown.charts["ttft"]["data"]


def test_a_stack_ends_with_its_newest_value(show):
    traces = show("search").charts["stack"]["data"]

    stages = [trace for trace in traces if trace["type"] == "scatter"]
    assert not any(np.isnan(trace["y"][[0, -1]]).any() for trace in stages)


def test_beyond_a_day_silences_are_told_by_the_step(show):
    figure = show("chat", span_s=4 * 86_400).charts["ttft"]

    (hatched,) = [trace for trace in figure["data"] if trace["type"] == "bar"]
    assert hatched["width"][0] > 3 * 86_400_000


def test_a_window_of_a_week_is_no_finer_than_it_can_be_drawn(show):
    figure = show("chat", span_s=604_800).charts["ttft"]

    assert all(len(trace["x"]) <= 180 for trace in figure["data"])


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        ({}, ("≥ 10", "not counted", "cancelled and rejected: not counted")),
        ({"in_flight_before": 0}, ("10", "not counted", "cancelled and rejected: not counted")),
        ({"in_flight_before": 4}, ("10–14", "not counted", "cancelled and rejected: not counted")),
        ({"failed": 2, "cancelled": 5}, ("≥ 10", "2", "cancelled: 5, rejected: not counted")),
        ({"finished": 44}, ("not known", "not counted", "cancelled and rejected: not counted")),
        ({"started": None}, ("not counted", "not counted", "cancelled and rejected: not counted")),
    ],
)
def test_what_nobody_counted_is_a_word_and_no_zero(flow, said):
    told = {"started": 40, "finished": 30, "failed": None, "cancelled": None, "rejected": None}
    counted = Flow(**told | flow)

    assert (unfinished_text(counted), *gone_wrong(counted)) == said


def test_a_stage_that_is_missing_says_why_and_how_to_measure_it():
    assert how_to_measure(Stage.QUEUE, Unmeasured.NOT_REPORTED) == (
        "queue (the engine does not report it): send server spans, or run the engine sidecar"
    )
    assert how_to_measure(Stage.QUEUE) == "queue: send server spans, or run the engine sidecar"


def test_without_a_time_before_the_table_says_so(reader, ledger, viewer):
    view = View(service="chat", span_s=7200)  # all that there is

    shown = service.content(reader, ledger, view, viewer)

    assert text(shown.regions["stages"]).count("no data") == 5
    later = service.content(reader, ledger, View(service="chat"), viewer)
    assert "no data" not in text(later.regions["stages"])


def test_requests_are_counted_since_somebody_watched(reader, ledger, viewer):
    since_s = viewer.now_s - 600
    reader.world = replace(reader.world, since_s={"chat": since_s})

    shown = service.content(reader, ledger, View(service="chat"), viewer)

    assert f"finished since {viewer.clock(since_s)}" in text(shown.regions["facts"])


def replica(name, *sources):
    labels = labels_of({"service": "chat", "replica": name})
    return Replica(labels=labels, last_seen_at_s=0, up=None, sources=frozenset(sources))


def test_replicas_that_spans_and_sidecar_name_differently_are_asked_about():
    uuids = [replica("3f2a", "span"), replica("77bc", "span")]
    hosts = [replica("10.0.0.1:8000", "page")]

    assert named_twice([*uuids, *hosts]) == ("3f2a", "10.0.0.1:8000")
    assert named_twice([*uuids, replica("3f2a", "page", "span")]) is None
    assert named_twice(uuids) is None
    assert named_twice(hosts) is None
