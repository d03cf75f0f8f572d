"""The first page that a woken person opens."""

from dataclasses import replace
from fractions import Fraction

import pytest
from dash import html

from collector.query import Replica, Selection
from dashboard import fleet, promises
from dashboard.measure import together
from dashboard.url import View
from domain.indicator import LatencyIndicator
from domain.labels import labels_of
from domain.objective import Objective
from tests.dashboard.reading import attributes, find_all, text
from tests.dashboard.worlds import HOSTILE


@pytest.fixture
def shown(reader, ledger, viewer):
    return fleet.content(reader, ledger, View(), viewer)


def rows(component):
    return find_all(find_all(component, html.Tbody), html.Tr)


def test_the_headline_counts_the_promises_worst_first(shown):
    assert text(shown.regions["state"]) == (
        "▲ 1 paging ◆ 1 with a ticket ? 1 not observed ○ 1 without traffic ● 2 kept of 6 promises"
    )


def test_the_tab_says_what_is_wrong(shown):
    assert shown.title == "▲1 chat-ttft"


def test_the_worst_promise_is_on_top_in_the_words_of_the_notification(shown):
    top, *_ = rows(shown.regions["promises"])

    assert "chat-ttft pages since 02:09 UTC: 1990 of 4800 requests" in text(top)
    assert top.className == "promise state-page"


def test_promises_stand_in_the_order_of_their_states(shown):
    marks = [row.className for row in rows(shown.regions["promises"])]

    assert [mark.removeprefix("promise state-") for mark in marks] == [
        "page", "ticket", "not-observed", "no-traffic", "healthy", "healthy",
    ]  # fmt: skip


def test_a_row_says_budget_burn_and_quantile_with_their_units(shown):
    top, *_ = rows(shown.regions["promises"])

    assert " spent " in text(top)
    assert " × " in text(top)
    assert "P99 TTFT ≤ 1.5 s" in text(top)


def test_a_coarse_source_shows_a_range(shown):
    row = rows(shown.regions["promises"])[1]

    assert "P96 E2E ≤ 9.5 s" in text(row)
    assert "9.93–" in text(row)


def test_no_traffic_and_not_observed_say_so_and_no_number(shown):
    unseen, silent = rows(shown.regions["promises"])[2:4]

    assert text(unseen).endswith("24 min old")
    assert "no traffic yet no traffic no values" in text(silent)


def test_all_quiet_is_a_sentence_before_the_table(reader, ledger, viewer, worlds):
    reader.world = worlds["healthy"]
    shown = fleet.content(reader, ledger, View(), viewer)

    assert text(shown.regions["state"]) == "● Every promise is kept: 4 of 4."
    assert len(rows(shown.regions["promises"])) == 4
    assert shown.title == "● Stagewatch"


def test_a_service_names_its_guilty_stage(shown):
    slowest = rows(shown.regions["services"])[0]

    assert text(slowest).startswith("chat 3 of 4")
    assert "queue +" in text(slowest)


def test_a_stage_bar_is_read_aloud_as_a_sentence(shown):
    labels = attributes(shown.regions["services"], "aria-label")

    assert any(label.startswith("mean time by stage: network ") for label in labels)


def test_a_service_that_has_gone_is_not_called_up(shown):
    (search,) = [row for row in rows(shown.regions["services"]) if "search" in text(row)]

    assert "0 of 2" in text(search)
    assert "25 min old" in text(search)


def test_a_replica_that_nobody_asks_is_neither_up_nor_down(reader, ledger, viewer, worlds):
    first, *rest = worlds["healthy"].replicas["chat"]
    told = worlds["healthy"].replicas | {"chat": [replace(first, up=None), *rest]}
    reader.world = replace(worlds["healthy"], replicas=told)
    shown = fleet.content(reader, ledger, View(), viewer)

    (chat,) = [row for row in rows(shown.regions["services"]) if text(row).startswith("chat")]
    assert text(chat).startswith("chat 2 of 2 and 1 that nobody asks")


def test_a_service_without_requests_has_no_latency(shown):
    (voice,) = [row for row in rows(shown.regions["services"]) if "voice" in text(row)]

    assert text(voice) == "voice 2 of 2 no traffic – – – – 7 s old"


def test_started_minus_finished_stands_beside_the_percentiles(shown):
    (head,) = find_all(shown.regions["services"], html.Thead)

    assert "Started − finished" in text(head)


def test_links_keep_the_time_that_is_shown(reader, ledger, viewer):
    shown = fleet.content(reader, ledger, View(span_s=6 * 3600), viewer)

    assert "/service/chat?from=now-6h" in attributes(shown.regions["services"], "href")


def test_finding_leaves_what_has_the_word_in_its_name(reader, ledger, viewer):
    shown = fleet.content(reader, ledger, View(find="CODE"), viewer)

    assert len(rows(shown.regions["promises"])) == 1
    assert text(rows(shown.regions["services"])[0]).startswith("code")
    assert shown.title == "▲1 chat-ttft"


def test_finding_nothing_says_so(reader, ledger, viewer):
    shown = fleet.content(reader, ledger, View(find="zebra"), viewer)

    assert text(shown.regions["promises"]) == "No promise has this in its name."
    assert text(shown.regions["services"]) == "No service has this in its name."


def test_an_empty_fleet_says_what_to_do_next(reader, ledger, viewer, worlds):
    reader.world = worlds["empty"]
    shown = fleet.content(reader, ledger, View(), viewer)

    told = text(shown.regions["services"])
    assert "Nothing was heard in the last 1 h" in told
    assert "--otlp-traces-endpoint http://watch.example:4317" in told
    assert "--endpoint http://watch.example:4318" in told
    assert "stagewatch demo" in told
    assert "p99 ttft <= 1.5s over 30d" in text(shown.regions["promises"])


def test_services_without_promises_are_shown_all_the_same(reader, ledger, viewer, worlds):
    reader.world = worlds["unpromised"]
    shown = fleet.content(reader, ledger, View(), viewer)

    assert text(shown.regions["state"]) == "No promise has been made yet."
    assert text(rows(shown.regions["services"])[0]).startswith("chat 2 of 2")
    assert shown.title == "Stagewatch"


def test_hostile_names_are_text_and_not_long(reader, ledger, viewer, worlds):
    reader.world = worlds["hostile"]
    shown = fleet.content(reader, ledger, View(), viewer)

    told = text(shown.regions["services"])
    assert HOSTILE[0] in told
    assert "x" * 60 + "…" in told
    assert "x" * 61 not in told
    assert len(find_all(shown.regions["services"], html.Bdi)) == len(HOSTILE)


def test_a_symbol_is_not_read_aloud_but_its_word_is(shown):
    (symbol,) = find_all(shown.regions["state"], html.Span)[1:2]

    assert getattr(symbol, "aria-hidden") == "true"


def test_the_state_is_announced_when_it_changes(shown):
    page = fleet.page(View(), shown)

    assert "polite" in attributes(page, "aria-live")


def test_every_cell_names_its_column_for_a_narrow_screen(shown):
    cells = find_all(shown.regions["promises"], html.Td)

    assert all(getattr(cell, "data-label") for cell in cells)


def promise(name, message):
    where = labels_of({"service": "chat"})
    indicator = LatencyIndicator(metric="ttft", threshold_s=Fraction(3, 2), where=where)
    return Objective(name=name, indicator=indicator, target=Fraction(99, 100)), message


WHY = (
    "Queue carries 94 % of what grew: now 7.01 s, 10.6 ms before, on all 3 replicas alike. "
    "Next: look at running and waiting requests per replica."
)


def test_what_two_promises_have_in_common_is_said_once(reader, ledger, viewer):
    first, second = (
        f"{name} pages since 02:09 UTC: 9 of 10 requests; the promise is at most 1 %. {WHY}"
        for name in ("ttft-of-users", "ttft")
    )
    reader.world = replace(
        reader.world, objectives=[promise("ttft-of-users", first), promise("ttft", second)]
    )

    shown = fleet.content(reader, ledger, View(), viewer)
    above, below = (text(row) for row in rows(shown.regions["promises"]))

    assert WHY in above
    assert WHY not in below
    assert "the promise is at most 1 %. The rest as for ttft-of-users, above." in below


def test_two_promises_that_blame_different_stages_say_so_both(reader, ledger, viewer):
    told = [
        promise("a", f"a pages since 02:09 UTC: 9 of 10. {WHY}"),
        promise("b", f"b pages since 02:09 UTC: 9 of 10. {WHY.replace('Queue', 'Prefill')}"),
    ]
    reader.world = replace(reader.world, objectives=told)

    shown = fleet.content(reader, ledger, View(), viewer)
    above, below = (text(row) for row in rows(shown.regions["promises"]))

    assert "Queue carries" in above
    assert "Prefill carries" in below


def test_a_badge_that_says_not_observed_needs_no_sentence(reader, ledger, viewer):
    reader.world = replace(reader.world, objectives=[promise("ttft", "ttft is not observed.")])

    shown = fleet.content(reader, ledger, View(), viewer)

    assert "ttft is not observed." not in text(shown.regions["promises"])


def test_rates_are_over_the_time_that_was_watched(reader, ledger, viewer):
    since_s = viewer.now_s - 600
    reader.world = replace(reader.world, since_s={"chat": since_s})

    shown = fleet.content(reader, ledger, View(), viewer)
    (chat,) = [row for row in rows(shown.regions["services"]) if text(row).startswith("chat")]
    (whole,) = [row for row in rows(shown.regions["services"]) if text(row).startswith("batch")]

    assert f"since {viewer.clock(since_s)}" in text(chat)
    assert "since" not in text(whole)


def test_all_rates_of_a_column_have_one_unit(reader, ledger, viewer):
    shown = fleet.content(reader, ledger, View(), viewer)

    told = " ".join(text(row) for row in rows(shown.regions["services"]))

    assert "/s" in told
    assert "/min" not in told


def test_replicas_under_two_names_are_not_called_unasked(reader, ledger, viewer):
    replicas = [
        Replica(
            labels=labels_of({"service": "chat", "replica": name}),
            last_seen_at_s=viewer.now_s,
            up=True if source == "page" else None,
            sources=frozenset({source}),
        )
        for name, source in (("10.0.0.1:8000", "page"), ("3f2a-77", "span"))
    ]
    reader.world = replace(reader.world, replicas={"chat": replicas})

    shown = fleet.content(reader, ledger, View(), viewer)
    told = " ".join(text(row) for row in rows(shown.regions["services"]))

    assert "1 of 1 and 1 under other names" in told
    assert "that nobody asks" not in told


def test_promises_of_many_services_say_what_each_alone_would_say(reader, ledger, viewer):
    view = View()
    window = view.window(viewer.now_s)
    standings = [
        each
        for each in ledger.standings()
        if isinstance(each.objective.indicator, LatencyIndicator)
    ]
    asked = reader.asked
    together_ = promises._Latencies(reader, window, standings)

    assert len({each.objective.indicator.where for each in standings}) > 2
    for each in standings:
        alone = reader.latency(
            each.objective.indicator.metric,
            Selection(window=window, where=each.objective.indicator.where),
        )
        found, told = together_.of(each.objective.indicator), together(alone)
        assert (found is None) == (told is None)
        if found is not None and told is not None:
            assert (found.low.tolist(), found.high.tolist()) == (
                told.low.tolist(),
                told.high.tolist(),
            )
    assert reader.asked > asked
