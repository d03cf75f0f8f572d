"""The pages in a real Chromium: steady, quiet, readable, and deaf to hostile names."""

import re
import shutil
from urllib.parse import quote

import pytest

from tests.dashboard.serving import serving
from tests.dashboard.worlds import HOSTILE

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_MS = 75_000  # a lost answer is asked for again after 20 s; a loaded machine may lose two

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]


@pytest.fixture(scope="module")
def chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--headless=new"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def site():
    """Pages that refresh each second, so that a test sees many of them."""
    with serving("night", refresh_s=1.0, cache_s=0) as served:
        yield served


@pytest.fixture
def look(chromium, site):
    """Open an address; at the end nothing may have been complained about or fetched elsewhere."""
    site.show("night")
    contexts, complaints, foreign = [], [], []

    def opened(path, *, width=1440, height=900, scheme="light", **more):
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme,
            timezone_id="Europe/Berlin", **more,
        )  # fmt: skip
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on(
            "console", lambda said: complaints.append(said.text) if said.type == "error" else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: _note(asked.url, site.url, foreign))
        page.goto(site.url + path)
        page.wait_for_selector("main .table, main .empty, main .notice")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []
    assert foreign == []


def _note(url, own, foreign):
    if not url.startswith((own, "data:", "blob:")):
        foreign.append(url)


def refreshed(page, times=2):
    """Wait until so many refreshes have been answered."""
    for _ in range(times):
        with page.expect_response(lambda answer: "_dash-update-component" in answer.url):
            pass
    page.wait_for_timeout(100)  # the answer is drawn


def until(page, expression):
    """Ask again until it holds; Playwright's own way needs `eval`, which our policy forbids."""
    for _ in range(PATIENCE_MS // 100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never came true: {expression}")


def overflow(page):
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


@pytest.mark.parametrize("world", ["night", "healthy", "empty", "unpromised"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_fleet_page_is_drawn_in_every_state(look, site, world, scheme):
    site.show(world)
    page = look("/", scheme=scheme)

    assert page.locator("main").is_visible()
    assert overflow(page) == 0


@pytest.mark.parametrize("service", ["chat", "batch", "code", "search", "voice", "nobody"])
def test_the_service_page_is_drawn_in_every_state(look, service):
    page = look(f"/service/{service}")
    page.wait_for_selector(".js-plotly-plot .xaxislayer-above")

    assert page.locator(".js-plotly-plot").count() == 5
    assert overflow(page) == 0


@pytest.mark.parametrize("path", ["/", "/service/chat", "/service/batch?by=replica"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_telephone_shows_every_page_without_scrolling_sideways(look, path, scheme):
    page = look(path, width=360, height=740, scheme=scheme)

    assert overflow(page) == 0


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


def test_a_copied_address_shows_the_same_view(look):
    page = look("/service/chat?by=model&from=now-15m&where=region%3Deu-west-1")

    assert page.locator(".time [aria-current]").inner_text() == "15 min"
    assert page.locator(".choices [aria-current]").inner_text() == "model"
    assert "eu-west-1" in page.locator(".chip").inner_text()


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


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_text(look, site, name):
    site.show("hostile")
    page = look(f"/service/{quote(name, safe='')}")

    assert page.locator("h1").inner_text().strip().startswith(name[:60])
    assert page.locator("img").count() == 0
    assert overflow(page) == 0


def test_hostile_names_on_the_fleet_page_are_text(look, site):
    site.show("hostile")
    page = look("/", width=360, height=740)

    assert page.locator("img").count() == 0
    assert overflow(page) == 0


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


def test_every_control_can_be_reached_by_tab_and_shows_it(look):
    page = look("/service/chat")
    page.wait_for_selector(".js-plotly-plot .xaxislayer-above")
    wanted = page.locator("#stagewatch :is(a[href], button, summary):visible").count()
    reached = set()
    for _ in range(3 * wanted):  # round and round: the page refreshes meanwhile
        if len(reached) >= wanted:
            break
        page.keyboard.press("Tab")
        place = page.evaluate(
            "(() => { const e = document.activeElement;"
            " const all = [...document.querySelectorAll('#stagewatch :is(a[href], button, summary)')];"
            " return [all.indexOf(e), getComputedStyle(e).outlineStyle] })()"
        )
        if place[0] >= 0:
            reached.add(place[0])
            assert place[1] == "solid"

    assert len(reached) >= wanted


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
