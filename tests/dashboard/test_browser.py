"""The pages in a real Chromium: steady, quiet and ready at hand."""

import re
from contextlib import ExitStack

import pytest

from tests.dashboard.browsing import looking, marks, until
from tests.dashboard.serving import serving

pytestmark = marks


@pytest.fixture(scope="module")
def site():
    """Pages that refresh each second, so that a test sees many of them."""
    with serving("night", refresh_s=1.0, cache_s=0) as served:
        yield served


@pytest.fixture
def look(chromium, site):
    """Open an address, once or several times."""
    site.show("night")
    with ExitStack() as stack:
        yield lambda path, **more: stack.enter_context(looking(chromium, site.url, path, **more))


def refreshed(page, times=2):
    """Wait until so many refreshes have been answered."""
    for _ in range(times):
        with page.expect_response(lambda answer: "_dash-update-component" in answer.url):
            pass
    page.wait_for_timeout(100)  # the answer is drawn


def test_the_first_screen_of_a_telephone_says_what_is_wrong(look):
    page = look("/", width=360, height=740)
    sentence = page.get_by_text("chat-ttft pages since 02:09 UTC")
    sentence.wait_for()
    box = sentence.bounding_box()

    assert box["y"] + box["height"] < 740


def test_the_tab_carries_the_state(look):
    page = look("/")

    until(page, "document.title === '▲1 chat-ttft'")


def test_a_link_opens_the_same_page_and_back_goes_back(look, site):
    page = look("/?from=now-6h")
    page.locator("section[aria-labelledby=services-title] a", has_text="chat").click()
    page.wait_for_selector("h1:has-text('chat')")
    assert page.url == f"{site.url}/service/chat?from=now-6h"

    page.go_back()
    page.wait_for_selector("h2:has-text('Services')")
    assert page.url == f"{site.url}/?from=now-6h"


def test_a_refresh_changes_values_in_place_and_opens_and_closes_nothing(look):
    page = look("/service/chat")
    page.wait_for_selector(".js-plotly-plot .xaxislayer-above")
    page.evaluate("document.querySelector('.js-plotly-plot').dataset.mark = 'same'")
    page.locator("summary").first.click()
    refreshed(page)

    assert page.evaluate("document.querySelector('.js-plotly-plot').dataset.mark") == "same"
    assert page.locator("details").first.get_attribute("open") is not None


def test_a_drag_zooms_all_charts_pauses_says_so_and_live_resumes(look):
    page = look("/service/chat")
    page.wait_for_selector(".js-plotly-plot .nsewdrag")
    box = page.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    middle = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.3, middle)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, middle, steps=8)
    page.mouse.up()
    page.wait_for_selector("text=Paused")

    assert re.search(r"from=[\d:TZ-]+&to=", page.url)
    until(
        page,
        "[...document.querySelectorAll('.js-plotly-plot')].every(chart => {"
        " const [a, b] = chart.layout.xaxis.range.map(each => +new Date(each));"
        " return b - a < 30 * 60000 })",
    )
    ranges = page.evaluate("document.querySelector('.js-plotly-plot').layout.xaxis.range")
    page.wait_for_timeout(3500)  # three refreshes would have come
    assert page.evaluate("document.querySelector('.js-plotly-plot').layout.xaxis.range") == ranges

    page.keyboard.press("l")
    page.wait_for_selector(".live")
    assert "from=" not in page.url


def test_stages_are_coloured_as_in_the_bar_beside_them(look):
    page = look("/service/chat")
    page.wait_for_selector(".js-fill")
    drawn = page.evaluate(
        "[...document.querySelectorAll('.js-fill')].map(e => getComputedStyle(e).fill)"
    )
    bar = page.evaluate(
        "[...document.querySelectorAll('.charts.wide .stage-bar .piece')]"
        ".map(e => getComputedStyle(e).backgroundColor)"
    )

    assert drawn == bar


def test_the_theme_follows_the_system_until_the_reader_chooses(look):
    page = look("/", scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.evaluate(background) == "rgb(26, 27, 30)"

    page.get_by_label("Light or dark").click()
    assert page.evaluate(background) == "rgb(255, 255, 255)"

    page.reload()
    page.wait_for_selector("main")
    assert page.evaluate(background) == "rgb(255, 255, 255)"

    page.keyboard.press("t")
    assert page.evaluate(background) == "rgb(26, 27, 30)"


def test_keys_do_what_the_list_says(look, site):
    page = look("/service/chat")
    page.keyboard.press("?")
    assert page.locator("dialog#keys").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog#keys").is_visible()

    page.keyboard.press("3")
    page.wait_for_selector(".time [aria-current]:has-text('6 h')")
    page.keyboard.press("g")
    page.keyboard.press("f")
    page.wait_for_selector("h2:has-text('Services')")
    assert page.url == f"{site.url}/?from=now-6h"

    page.keyboard.press("/")
    page.keyboard.type("code?")
    until(page, "location.search.includes('find=code')")
    assert not page.locator("dialog#keys").is_visible()


def test_the_first_tab_is_the_way_past_the_header(look):
    page = look("/")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    assert page.url.endswith("#main")


def test_a_store_that_goes_and_comes_back_is_a_banner_that_comes_and_goes(look, site):
    page = look("/")
    site.reader.broken = True
    page.wait_for_selector("text=The data could not be read")
    assert "chat-ttft pages since" in page.locator("main").inner_text()

    site.reader.broken = False
    page.wait_for_selector("text=The data could not be read", state="detached")


def test_a_page_that_nobody_looks_at_asks_for_nothing(look, site):
    page = look("/")
    refreshed(page, times=1)
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
    page.wait_for_timeout(1500)
    asked = site.reader.asked
    page.wait_for_timeout(2500)

    assert site.reader.asked == asked


def test_motion_is_as_reduced_as_the_reader_wants(look):
    page = look("/", reduced_motion="reduce")
    moving = page.evaluate(
        "[...document.querySelectorAll('*')].filter(e =>"
        " parseFloat(getComputedStyle(e).transitionDuration) > 0.01).length"
    )

    assert moving == 0


_STATES = """() => [...document.querySelectorAll("main .state")].map((each) => {
  const style = getComputedStyle(each.querySelector(".shape"));
  const word = each.querySelector(":scope > span:last-child").textContent.replace(/^[0-9]+ /, "");
  return [each.className, each.querySelector(".shape").textContent, style.color, style.backgroundImage !== "none", word];
})"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_healthy_no_traffic_and_not_observed_look_different_from_each_other(look, scheme):
    page = look("/", scheme=scheme)
    seen = {kind: tuple(looks) for kind, *looks, _ in page.evaluate(_STATES)}

    assert len(seen) == 5, "the night has one promise in each state"
    assert len({looks[0] for looks in seen.values()}) == 5
    assert len({looks[1] for looks in seen.values()}) == 5
    assert [kind for kind, looks in seen.items() if looks[2]] == ["state state-not-observed"]
