"""Links that people send each other at night."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.query import Window
from dashboard.url import GROUPINGS, MAX_SPAN_S, View
from domain.labels import LABEL_NAMES, labels_of

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
names = words.map(str.strip).filter(lambda name: "/" not in name or name.strip("/") == name)
windows = st.tuples(st.integers(0, 4_000_000_000), st.integers(60, MAX_SPAN_S)).map(
    lambda pair: Window(since_s=pair[0], until_s=pair[0] + pair[1])
)
views = st.builds(
    View,
    service=words,
    span_s=st.integers(60, MAX_SPAN_S),
    by=st.sampled_from(["", *GROUPINGS]),
    where=st.dictionaries(st.sampled_from(LABEL_NAMES), words, max_size=3).map(labels_of),
    find=words,
)
still = st.builds(View, service=words, fixed=windows)


def opened(link):
    path, _, query = link.partition("?")
    return View.from_link(path, query)


@given(views)
def test_a_copied_link_shows_the_same_view(view):
    assert opened(view.link()) == view


@given(still)
def test_a_link_to_a_window_that_stands_still_shows_that_window(view):
    assert opened(view.link()) == view


@given(views)
def test_a_link_survives_the_question_mark_of_the_address_bar(view):
    assert View.from_link(view.path(), "?" + view.query()) == view


@given(words, words)
def test_any_address_opens_some_page(path, query):
    assert isinstance(View.from_link(path, query), View)


@given(st.lists(st.tuples(st.sampled_from(["from", "to", "by", "where", "find"]), words)))
def test_any_value_of_a_known_field_opens_some_page(pairs):
    query = "&".join(f"{name}={value}" for name, value in pairs)

    assert isinstance(View.from_link("/", query), View)


def test_a_link_of_grafana_opens_the_same_time_and_the_values_that_are_chosen_alone():
    link = (
        "/service/chat?from=1790000000123&to=1790003600999&var-service=chat&var-model=llama"
        "&var-role=$__all&var-replica=a&var-replica=b&var-stagewatch=http://x&var-region=All"
    )

    view = opened(link)

    assert view == View(
        service="chat",
        fixed=Window(since_s=1_790_000_000, until_s=1_790_003_600),
        where=(("model", "llama"),),
    )


def test_what_our_own_link_asks_for_goes_before_a_variable_of_grafana():
    assert opened("/service/chat?var-replica=a&where=replica=b").where == (("replica", "b"),)


@given(st.lists(st.tuples(st.sampled_from([f"var-{name}" for name in LABEL_NAMES]), words)))
def test_any_variable_opens_some_page(pairs):
    query = "&".join(f"{name}={value}" for name, value in pairs)

    assert isinstance(View.from_link("/probes", query), View)


def test_an_old_link_with_an_unknown_field_still_opens():
    assert opened("/?by=replica&colour=blue") == View(by="replica")


def test_a_link_names_only_what_is_out_of_the_ordinary():
    assert View().link() == "/"
    assert View(service="chat").link() == "/service/chat"
    assert View(span_s=6 * 3600).link() == "/?from=now-6h"


def test_a_service_may_be_called_anything():
    assert opened(View(service="a/b?c=d&e#f").link()).service == "a/b?c=d&e#f"


@pytest.mark.parametrize(
    "query",
    ["from=now-6h", "from=now-360m", "from=now-21600s", "from=now-6h&to=now"],
)
def test_a_span_may_be_written_in_any_unit(query):
    assert View.from_link("/", query).span_s == 21_600


@pytest.mark.parametrize(
    "query",
    [
        "from=2026-03-01T12:00:00Z&to=2026-03-01T13:00:00Z",
        "from=2026-03-01T13:00:00%2B01:00&to=2026-03-01T14:00:00%2B01:00",
        "from=1772366400&to=1772370000",
    ],
)
def test_an_instant_may_be_written_in_any_zone_or_as_seconds(query):
    window = View.from_link("/", query).window(now_s=0)

    assert window == Window(since_s=1_772_366_400, until_s=1_772_370_000)


@pytest.mark.parametrize(
    "query",
    ["from=now-1s", "from=yesterday", "from=now-999999999d", "from=9&to=3", "to=2026-03-01"],
)
def test_a_window_that_makes_no_sense_is_the_last_hour(query):
    assert View.from_link("/", query) == View()


def test_a_moving_window_ends_now_and_a_fixed_one_does_not():
    view = View(span_s=900)

    assert view.window(now_s=10_000) == Window(since_s=9_100, until_s=10_000)
    assert view.between(1_000, 2_000).window(now_s=10_000) == Window(since_s=1_000, until_s=2_000)
    assert not view.between(1_000, 2_000).live


def test_a_filter_can_be_set_and_lifted():
    view = View(service="chat").only("role", "decode")

    assert view.where == (("role", "decode"),)
    assert view.only("role", "") == View(service="chat")


def test_a_page_of_less_than_a_minute_cannot_be_built():
    with pytest.raises(ValueError, match="a minute"):
        View(span_s=59)
    with pytest.raises(ValueError, match="split by"):
        View(by="colour")


def test_a_zoom_closer_than_a_minute_is_a_minute():
    assert View().between(1_000, 1_005).window(0) == Window(since_s=1_000, until_s=1_060)
