"""What surrounds every page, and the pieces that pages are made of."""

import pytest
from dash import dcc, html

from collector.query import Window
from dashboard.content import Content
from dashboard.frame import SPANS_S, base, common_regions, frame, tab_title, trouble
from dashboard.parts import Cell, badge, clock, meter, name_text, sentence, table
from dashboard.theme import State
from dashboard.url import ALONE, View
from tests.dashboard.reading import attributes, find_all, text


def regions(view, viewer, newest_at_s=None):
    return common_regions(view, viewer, newest_at_s=newest_at_s, title="x")


def test_one_interval_drives_a_page():
    (tick,) = find_all(base(refresh_ms=30_000), dcc.Interval)

    assert tick.interval == 30_000


def test_the_first_thing_on_a_page_is_the_way_past_its_header():
    first = find_all(base(refresh_ms=1), html.A)[0]

    assert (first.children, first.href) == ("Skip to the content", "#main")


def test_the_list_of_keys_is_a_dialog_with_a_name():
    dialog, when = find_all(base(refresh_ms=1), html.Dialog)

    assert getattr(dialog, "aria-labelledby") == "keys-title"
    assert "g f" in text(dialog)
    assert getattr(when, "aria-labelledby") == "when-title"


def test_a_page_has_one_header_one_main_and_one_footer(viewer):
    shown = Content(title="x", regions=regions(View(), viewer))
    page = frame(View(), shown, [html.H1("Fleet")])

    assert [len(find_all(page, kind)) for kind in (html.Header, html.Main, html.Footer)] == [
        1,
        1,
        1,
    ]


@pytest.mark.parametrize("span_s", SPANS_S)
def test_the_time_that_is_shown_is_marked(viewer, span_s):
    shown = regions(View(span_s=span_s), viewer)["time"]

    (current,) = [each for each in find_all(shown, html.A) if hasattr(each, "aria-current")]
    assert text(current) in {"15 min", "1 h", "6 h", "24 h", "7 d"}


def test_a_live_page_says_how_old_its_data_are(viewer):
    assert "live data 12 s old" in text(regions(View(), viewer, viewer.now_s - 12)["time"])
    assert "live no data yet" in text(regions(View(), viewer)["time"])


def test_a_page_that_stands_still_says_from_when_to_when(viewer):
    window = Window(since_s=viewer.now_s - 617, until_s=viewer.now_s - 17)
    told = text(regions(View(fixed=window), viewer)["time"])

    assert "Paused   12:00:00  to  12:10:00" in told


def test_earlier_and_later_move_by_half_a_window(viewer):
    window = Window(since_s=viewer.now_s - 3600, until_s=viewer.now_s)
    links = find_all(regions(View(fixed=window), viewer)["time"], html.A)
    (earlier,) = [each.href for each in links if getattr(each, "id", "") == "earlier"]

    moved = View.from_link("/", earlier.partition("?")[2])
    assert moved.fixed == Window(since_s=viewer.now_s - 5400, until_s=viewer.now_s - 1800)


def test_a_service_page_says_where_it_is(viewer):
    where, others = regions(View(service="chat"), viewer)["brand"]

    assert text(where) == "Stagewatch / chat"
    assert text(others).split() == [
        "Alerts", "Silences", "Requests", "GPUs", "Endpoints", "Probes", "Balance", "Status",
    ]  # fmt: skip


def test_the_ways_to_the_fleet_the_gpus_and_the_endpoints_keep_the_time(viewer):
    shown = regions(View(service="chat", span_s=900, by="model"), viewer)

    assert attributes(shown["brand"], "href") == [f"/{page}?from=now-15m" for page in ("", *ALONE)]


def test_the_page_one_is_on_is_marked(viewer):
    marked = attributes(regions(View(alone="gpus"), viewer)["brand"], "aria-current")
    fleet = attributes(regions(View(), viewer)["brand"], "aria-current")

    assert len(marked) == len(fleet) == 1


@pytest.mark.parametrize(
    ("states", "title"),
    [
        ({}, "Stagewatch"),
        ({"a": State.HEALTHY}, "● Stagewatch"),
        ({"a": State.HEALTHY, "b": State.PAGE, "c": State.PAGE}, "▲2 b"),
        ({"a": State.NO_TRAFFIC, "b": State.NOT_OBSERVED}, "?1 b"),
    ],
)
def test_the_tab_names_the_worst_state_how_often_and_where(states, title):
    assert tab_title(states) == title


def test_trouble_says_when_what_and_that_the_rest_is_older(viewer):
    told = text(trouble(RuntimeError("no such file"), viewer=viewer)["banner"])

    assert "at 12:10:17" in told
    assert "no such file" in told
    assert "What you see below is older." in told
    assert "RuntimeError" in text(trouble(RuntimeError(), viewer=viewer)["banner"])


@pytest.mark.parametrize("state", State)
def test_a_state_is_a_shape_and_a_word(state):
    shape, word = badge(state).children

    assert getattr(shape, "aria-hidden") == "true"
    assert text(word) == str(state)


def test_an_instant_is_utc_on_hover(viewer):
    assert clock(viewer, viewer.now_s).title == "2026-03-01 12:10:17 UTC"


@pytest.mark.parametrize(
    ("share", "width"), [(None, "0.0%"), (-3.0, "0.0%"), (0.584, "58.4%"), (7.0, "100.0%")]
)
def test_a_meter_stays_between_its_ends(share, width):
    bar = meter(share, label="58.4 % left", state=State.TICKET)

    assert bar.children.style == {"width": width}
    assert getattr(bar, "aria-label") == "58.4 % left"


def test_a_name_keeps_its_own_direction_and_a_sentence_keeps_ours():
    assert isinstance(name_text("שלום"), html.Bdi)
    assert sentence("שלום is quiet").dir == "ltr"


def test_long_words_are_cut_and_say_so():
    assert len(text(name_text("x" * 500))) == 61
    assert name_text("x" * 500).title == "x" * 500
    assert text(sentence("y" * 5000)).endswith("…")


def test_a_table_has_a_caption_heads_and_a_name_for_each_row():
    shown = table("Services", ("Name", "Age"), [[Cell("chat"), Cell("3 s", number=True)]])

    assert text(find_all(shown, html.Caption)) == "Services"
    assert [head.scope for head in find_all(shown, html.Th)] == ["col", "col", "row"]
    (cell,) = find_all(shown, html.Td)
    assert (getattr(cell, "data-label"), cell.className) == ("Age", "number")


def test_a_row_with_too_few_cells_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        table("Services", ("Name", "Age"), [[Cell("chat")]])
