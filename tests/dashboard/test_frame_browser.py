"""The frame in a real Chromium: time, filters, files, banner, and access behind a real nginx."""

import csv
import re
import time
from contextlib import ExitStack

import pytest

from alerts.access import Access
from alerts.access_settings import AuthSettings
from alerts.change import Change
from domain.labels import labels_of
from tests.dashboard.browsing import looking, marks
from tests.dashboard.serving import serving
from tests.exporters.probe.proxy import nginx

TOKENS = [{"token": "s-responder", "role": "responder", "name": "ada"}]

pytestmark = marks


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
    """Open an address, of this site or another."""
    with ExitStack() as stack:
        yield lambda path, *, url=site.url, **more: stack.enter_context(
            looking(chromium, url, path, **more)
        )


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
    page = look("/", forgiven=["ERR_INTERNET_DISCONNECTED", "did not respond"])
    before = page.locator("main").inner_text()
    page.context.set_offline(True)
    page.wait_for_selector("#offline:has-text('has not answered since')")
    assert page.locator("main").inner_text().split()[:3] == before.split()[:3]

    page.context.set_offline(False)
    page.wait_for_selector("#offline", state="hidden")


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
        page = look(
            "/llm/watch/service/chat?from=now-6h",
            url=front,
            ready="main.sign-in",
            forgiven=["401", "403"],
        )
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
