"""The collector dies and comes back while somebody has a page open, with all of it in real processes."""

import threading
import time

import httpx
import pytest

from domain.labels import labels_of
from exporters.engine.otlp import export_request
from exporters.engine.reading import Level, Reading
from tests.dashboard.browsing import looking, marks, with_chromium
from tests.e2e.running import Stagewatch

pytestmark = marks

SOON = {"STAGEWATCH_DASHBOARD__REFRESH_S": "1", "STAGEWATCH_DASHBOARD__SILENT_S": "5"}
BANNER = "#stagewatch >> text=Nothing arrives any more"


class Sender:
    """One engine that says each second that it is up, to whichever collector there is."""

    def __init__(self):
        self.url = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _run(self):
        own = labels_of({"service": "chat", "replica": "r0", "source": "page"})
        level = Level(metric="up", labels=(), value=1.0)
        while not self._over.wait(1):
            reading = Reading(target=own, at_ns=time.time_ns(), up=True, levels=(level,))
            body = export_request(reading).SerializeToString()
            headers = {"Content-Type": "application/x-protobuf"}
            if self.url is not None:
                httpx.post(f"{self.url}/v1/metrics", content=body, headers=headers, timeout=5)


@pytest.fixture(scope="module")
def chromium():
    with with_chromium() as browser:
        yield browser


def test_a_collector_that_dies_is_a_banner_on_every_page_until_it_is_back(chromium, tmp_path):
    data = ("--data-dir", str(tmp_path))
    with (
        Sender() as sender,
        Stagewatch("collector", *data) as collector,
        Stagewatch("dashboard", *data, **SOON) as pages,
        looking(chromium, pages.pages_url) as page,
    ):
        sender.url = collector.otlp_url
        page.wait_for_selector("a:has-text('chat')")
        assert page.locator(BANNER).count() == 0

        sender.url = None
        collector.process.kill()
        page.wait_for_selector(BANNER)
        assert page.locator("main a:has-text('chat')").is_visible()
        for key, title in (("a", "main.page-alerts"), ("g", "main.page-gpus")):
            page.keyboard.press("g")
            page.keyboard.press(key)
            page.wait_for_selector(title)
            page.wait_for_selector(BANNER)

        with Stagewatch("collector", *data) as again:
            sender.url = again.otlp_url
            page.wait_for_selector(BANNER, state="detached")
            page.keyboard.press("g")
            page.keyboard.press("f")
            page.wait_for_selector("main a:has-text('chat')")
            assert page.evaluate("performance.getEntriesByType('navigation').length") == 1
