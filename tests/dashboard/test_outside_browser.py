"""Requests, one request, probes and status in a real Chromium: with data, without, hostile, by keyboard."""

import re
import socket
import threading
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI

from collector.reader import StoreReader
from collector.store import open_store
from dashboard.app import attach
from dashboard.vitals import ReceiverState, Vitals
from tests.dashboard.browsing import looking, marks, overflow
from tests.dashboard.memory import MemoryLedger, MemoryReader
from tests.dashboard.outside_scene import HOSTILE, NOW, SLOWEST, scene, trace_id
from tests.dashboard.worlds import WORLDS

pytestmark = marks
ONE = f"/requests/{trace_id(SLOWEST)}"
READY = "main section .table:visible, main .empty:visible"


class Trouble:
    def vitals(self):
        pager = ReceiverState(name=HOSTILE, failing=True, waiting=2, waiting_since_s=NOW - 600)
        return Vitals(evaluates=True, heartbeat=None, receivers=[pager])


@contextmanager
def serving(folder):
    reader = StoreReader(folder, now=lambda: float(NOW))
    api = FastAPI(docs_url=None, redoc_url=None)
    ledger = MemoryLedger(MemoryReader(WORLDS["healthy"](NOW)))
    attach(api, reader, ledger, now=lambda: float(NOW), witness=Trouble())
    listener = socket.create_server(("127.0.0.1", 0))
    http = uvicorn.Server(uvicorn.Config(api, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        http.should_exit = True
        thread.join(timeout=10)
        listener.close()
        reader.close()


@pytest.fixture(scope="module")
def sites(tmp_path_factory):
    """In trouble under hostile names, and without anything."""
    full, empty = (tmp_path_factory.mktemp(name) for name in ("full", "empty"))
    scene(full, trouble=True, hostile=True)
    open_store(empty).close()
    with serving(full) as one, serving(empty) as other:
        yield {"full": one, "empty": other}


@pytest.mark.parametrize(
    ("path", "scheme", "words"),
    [
        ("/requests", "dark", "160 requests in the last 1 h"),
        (ONE, "light", "Longest: queue, 6.4 s"),
        ("/probes", "light", "10 of 60 probes failed"),
        ("/status", "dark", "cannot be told"),
    ],
)
def test_each_page_tells_its_trouble_under_any_name_on_a_telephone(
    chromium, sites, path, scheme, words
):
    with looking(chromium, sites["full"], path, width=360, scheme=scheme, ready=READY) as page:
        said = page.locator("main").inner_text()

        assert words in said
        assert HOSTILE[:30] in said
        assert page.locator("main img").count() == 0
        assert overflow(page) == 0
        assert HOSTILE not in page.title()


def test_empty_pages_say_the_command_and_keys_lead_from_one_to_the_next(chromium, sites):
    with looking(chromium, sites["empty"], "/requests", width=360, ready=READY) as page:
        assert "--otlp-traces-endpoint" in page.locator("main .empty").inner_text()
        page.keyboard.press("g")
        page.keyboard.press("p")
        page.wait_for_selector("main.page-probes .empty")
        assert "stagewatch exporter probe --target" in page.locator("main .empty").inner_text()
        page.keyboard.press("g")
        page.keyboard.press("u")
        page.wait_for_selector("main.page-status .table")
        assert "nobody notices when Stagewatch itself stops" in page.locator("main").inner_text()
        page.keyboard.press("g")
        page.keyboard.press("r")
        page.wait_for_selector("main.page-requests .empty")
        assert overflow(page) == 0


def test_fields_and_links_make_an_address_that_shows_the_same(chromium, sites):
    with looking(chromium, sites["full"], "/requests", ready=READY) as page:
        page.fill("textarea[name=over]", "1")
        page.press("textarea[name=over]", "Enter")
        page.wait_for_url("**/requests?over=1")
        page.wait_for_function("document.querySelectorAll('main tbody tr[role=row]').length > 0")
        page.wait_for_selector("text=1 of 160 requests")
        page.click("nav[aria-label=Status] a:has-text('failed')")
        page.wait_for_selector("text=None of them is like that")
        page.reload()
        page.wait_for_selector("text=None of them is like that")
        assert page.input_value("textarea[name=over]") == "1"


def test_a_press_on_a_dot_opens_its_request_and_on_a_step_its_requests(chromium, sites):
    with looking(chromium, sites["full"], "/requests?over=5", ready=READY) as page:
        dot = page.locator('[id*="cloud"] .points path').first
        dot.wait_for()
        box = dot.bounding_box()
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_selector('[id*="cloud"] .hoverlayer .hovertext')
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_url(f"**{ONE}")
        page.wait_for_selector(".waterfall")
        widths = page.eval_on_selector_all(
            ".waterfall .piece", "every => every.map(each => each.getBoundingClientRect().width)"
        )
        assert max(widths) == widths[2], "the queue is the longest"

        page.go_back()
        drag = page.locator('[id*="bands"] .nsewdrag')
        drag.wait_for()
        place = drag.bounding_box()
        page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        page.wait_for_selector(
            '[id*="bands"] .hoverlayer .legend, [id*="bands"] .hoverlayer .hovertext'
        )
        page.mouse.click(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
        page.wait_for_url(re.compile(r"/requests\?.*from=2026.*&to=2026"))
