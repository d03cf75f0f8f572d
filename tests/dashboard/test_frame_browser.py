"""The frame in a real Chromium: time, filters, files, banner, access behind a real nginx, and axe."""

import csv
import re
import shutil
import time

import pytest
from axe_playwright_python.sync_playwright import Axe

from alerts.access import Access
from alerts.access_settings import AuthSettings
from alerts.change import Change
from domain.labels import labels_of
from tests.dashboard.serving import serving
from tests.exporters.probe.proxy import nginx

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_MS = 75_000
TOKENS = [{"token": "s-responder", "role": "responder", "name": "ada"}]

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
    with serving("night", refresh_s=1.0, cache_s=0) as served:
        now_s = int(time.time())
        served.reader.world.told.append(
            Change(
                at_s=now_s - 900, kind="deploy", title="v42", labels=labels_of({"service": "chat"})
            )
        )
        yield served


@pytest.fixture
def look(chromium, site):
    """Open an address; at the end nothing may have been complained about."""
    contexts, complaints = [], []

    def opened(path, *, url=site.url, wait="main .table, main .empty", **more):
        context = chromium.new_context(timezone_id="Europe/Berlin", **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url + path)
        page.wait_for_selector(wait)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def test_a_time_is_chosen_in_words_and_a_wrong_one_is_refused_in_words(look):
    page = look("/service/chat")
    page.keyboard.press("w")
    page.locator("#when-from").fill("yesterday")
    page.locator("#when-from").press("Enter")
    assert "“yesterday” is no time" in page.locator("#when-wrong").inner_text()

    page.locator("#when-from").fill("2026-03-01 13:00")
    page.locator("#when-to").fill("2026-03-01T12:30Z")
    page.locator("#when-to").press("Enter")
    page.wait_for_selector("text=Paused")
    assert page.url.endswith("from=2026-03-01T12:00:00Z&to=2026-03-01T12:30:00Z")


def test_a_filter_a_split_and_last_week_stand_in_the_address(look):
    page = look("/service/chat")
    page.locator("#filter").fill("region=eu-west-1")
    page.locator("#filter").press("Enter")
    page.wait_for_selector(".chip:has-text('eu-west-1')")
    page.locator("h2:has-text('Latency')").click()
    page.keyboard.press("c")
    page.wait_for_selector("text=nothing is kept of a week ago")

    assert "where=region%3Deu-west-1" in page.url
    assert "compare=week" in page.url
    assert page.locator("#filter").input_value() == ""


def test_what_changed_is_a_mark_on_the_chart_and_a_row_in_words(look):
    page = look("/service/chat")
    page.wait_for_selector(".js-plotly-plot .annotation-text:has-text('deploy')")

    assert "v42" in page.locator("section[aria-labelledby=changed] table").inner_text()


def test_a_chart_is_taken_along_as_numbers_and_as_a_picture(look, tmp_path):
    page = look("/service/chat?from=now-15m")
    page.wait_for_selector(".js-plotly-plot .xaxislayer-above")
    figure = page.locator("figure").first
    with page.expect_download() as numbers:
        figure.get_by_role("button", name="The values of this chart as a file").click()
    with page.expect_download() as picture:
        figure.get_by_role("button", name="This chart as a picture").click()

    numbers.value.save_as(tmp_path / "chart.csv")
    picture.value.save_as(tmp_path / "chart.png")
    with (tmp_path / "chart.csv").open() as file:
        assert {row["series"] for row in csv.DictReader(file)} == {"P99", "P50"}
    assert (tmp_path / "chart.png").read_bytes()[:4] == b"\x89PNG"
    assert picture.value.suggested_filename == "stagewatch-service-chat-ttft.png"


def test_a_server_that_is_away_is_a_banner_that_goes_when_it_comes_back(look):
    page = look("/")
    before = page.locator("main").inner_text()
    page.context.set_offline(True)
    page.wait_for_selector("#offline:has-text('has not answered since')")
    assert page.locator("main").inner_text().split()[:3] == before.split()[:3]

    page.context.set_offline(False)
    page.wait_for_selector("#offline", state="hidden")


def test_a_page_left_open_does_not_grow(look):
    page = look("/service/chat")
    page.wait_for_selector(".js-plotly-plot .xaxislayer-above")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def heap_and_nodes():
        session.send("HeapProfiler.collectGarbage")
        told = {
            each["name"]: each["value"]
            for each in session.send("Performance.getMetrics")["metrics"]
        }
        return told["JSHeapUsedSize"], told["Nodes"]

    for _ in range(3):
        with page.expect_response(lambda answer: "_dash-update-component" in answer.url):
            pass
    begun = heap_and_nodes()
    for _ in range(12):
        with page.expect_response(lambda answer: "_dash-update-component" in answer.url):
            pass
    ended = heap_and_nodes()

    # why: twelve refreshes of a page of five charts are 12 h at the usual pace if 1 % is lost each
    assert ended[0] < begun[0] * 1.15
    assert ended[1] < begun[1] * 1.15


@pytest.mark.parametrize("path", ["/", "/service/chat?by=role&compare=week"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(look, path, scheme):
    page = look(path, color_scheme=scheme)
    if "service" in path:
        page.wait_for_selector(".js-plotly-plot .xaxislayer-above")
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]})

    told = [
        (each["id"], node["html"][:120])
        for each in found.response["violations"]
        for node in each["nodes"]
    ]
    assert told == []
    assert len(found.response["passes"]) > 10


def test_behind_a_real_nginx_with_a_prefix_one_signs_in_reads_and_signs_out(look, tmp_path):
    access = Access(AuthSettings(tokens=TOKENS, anonymous="nobody", proxies=["127.0.0.1"]))
    told = (
        "proxy_set_header X-Forwarded-Prefix /llm/watch; proxy_set_header X-Forwarded-Host $http_host; "
        "proxy_set_header X-Forwarded-For $remote_addr;"
    )
    with (
        serving("night", refresh_s=1.0, access=access, gated=True) as served,
        nginx(tmp_path / "nginx", served.url, told) as front,
    ):
        page = look("/llm/watch/service/chat?from=now-6h", url=front, wait="main.sign-in")
        page.get_by_label("Token").fill("s-responder")
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector(".js-plotly-plot .xaxislayer-above")
        assert page.url == f"{front}/llm/watch/service/chat?from=now-6h"
        page.wait_for_selector("#who:has-text('You are ada (responder).')")

        page.locator("#fleet-link").click()
        page.wait_for_selector("h2:has-text('Services')")
        assert page.url == f"{front}/llm/watch/?from=now-6h"
        hrefs = page.evaluate(
            "[...document.querySelectorAll('a[href]')].map(a => a.getAttribute('href'))"
        )
        assert [href for href in hrefs if not re.match(r"/llm/watch/|#|https?:", href)] == []

        page.get_by_role("button", name="Sign out").click()
        page.wait_for_selector("main.sign-in")
