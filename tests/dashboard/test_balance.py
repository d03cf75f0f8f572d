"""The balance page: the last verdict, its table, earlier weeks with what came, and the decision."""

import re
import socket
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest
import uvicorn
from fastapi import FastAPI

from alerts.access import Access
from dashboard.app import attach
from dashboard.balance import BalancePage
from dashboard.theme import LOOKS
from dashboard.url import BALANCE, View
from dashboard.viewer import Viewer
from review.html_page import html_page
from review.report import report
from review.shelf import Decision, Kept, Shelf
from review.timetable import Standing
from review.track_record import realised
from stagewatch.review_api import review_router
from tests.dashboard.browsing import CHROMIUM, PATIENCE_MS, overflow, until
from tests.dashboard.incidents import quiet_night
from tests.dashboard.reading import attributes, text
from tests.review.test_report import VERDICTS, recorded

NOW_S = 1_790_900_000
WEEK_S = 7 * 86_400
HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def shelf(tmp_path):
    return Shelf(tmp_path / "reviews")


def two_weeks(shelf):
    """A week that said move, and the one after it that compared itself with it."""
    first = recorded("keep")
    earlier = shelf.keep(replace(first, track_record=None))
    record = realised(first.advice, first.split, first.observed, first.advice.demand_per_s)
    later = replace(
        recorded("move"), until_s=first.until_s + WEEK_S, at_s=first.at_s + WEEK_S,
        track_record=record, service=HOSTILE,
    )  # fmt: skip
    shelf.decide(earlier.id, Decision(done=True, why=HOSTILE, author="ada", at_s=NOW_S - 60))
    return shelf.keep(later), earlier


def drawn(shelf, *, may_act=True):
    viewer = Viewer(now_s=NOW_S, may_act=may_act)
    page = BalancePage(shelf)
    view = View(alone=BALANCE)
    content = page.content(None, None, view, viewer)
    return content, page.page(view, content)


def test_what_runs_and_a_torn_file_stand_on_the_page(shelf, tmp_path):
    two_weeks(shelf)
    torn = tmp_path / "reviews" / "20260101-0123456789.json"
    torn.write_text("{")
    shelf.timetable.write(Standing(ran_for_s=1.0, running="chat: 3P:5D", done=4, of=20))

    _, page = drawn(shelf)

    assert "running: chat: 3P:5D, 4 of 20" in text(page)
    assert f"{torn} is left out" in text(page)


def test_a_failed_run_and_the_next_one_stand_on_the_page_before_any_review(shelf):
    shelf.timetable.write(Standing(ran_for_s=1.0, next_s=NOW_S + WEEK_S, failed="no requests"))

    _, page = drawn(shelf)

    assert "the last scheduled review failed: no requests" in text(page)
    assert "The next review is due" in text(page)


@pytest.mark.parametrize("empty", [True, False])
def test_without_a_review_the_page_says_the_command(shelf, empty):
    _, page = drawn(None if empty else shelf)

    assert "stagewatch review --from now-7d --to now" in text(page)


@pytest.mark.parametrize("name", VERDICTS)
def test_each_verdict_is_a_word_a_shape_and_a_sentence(shelf, name):
    shelf.keep(recorded(name))
    content, page = drawn(shelf)

    assert recorded(name).verdict.says in text(page)
    assert str(VERDICTS[name]) in text(page)
    assert content.title[0] in {look.symbol for look in LOOKS.values()}


def test_the_table_is_that_of_the_report_and_the_advised_row_is_marked(shelf):
    shelf.keep(recorded("move"))
    content, _ = drawn(shelf)

    rows = attributes(content.regions["alternatives"], "className")
    assert rows.count("advised") == 1
    assert "2P:6D" in text(content.regions["alternatives"])


def test_a_review_that_recommends_nothing_shows_gates_and_no_table(shelf):
    shelf.keep(recorded("gate"))
    content, page = drawn(shelf)

    assert content.regions["alternatives"] is None
    assert "holds it back" in text(page)
    assert "Plan" not in text(page)


def test_earlier_weeks_stand_with_what_was_foretold_and_what_came(shelf):
    two_weeks(shelf)
    content, _ = drawn(shelf)

    told = text(content.regions["earlier"])
    assert "100.00 % (100.00 to 100.00)" in told
    assert "inside" in told
    assert HOSTILE in told


def test_who_may_only_look_sees_no_buttons(shelf):
    shelf.keep(recorded("move"))

    assert attributes(drawn(shelf)[0].regions["decision"], "data-send")
    assert not attributes(drawn(shelf, may_act=False)[0].regions["decision"], "data-send")


@contextmanager
def serving(shelf, folder):
    night = quiet_night(folder)
    app = FastAPI(docs_url=None, redoc_url=None)
    app.state.access = Access()
    app.include_router(review_router(shelf, clock=lambda: float(NOW_S)))
    attach(
        app, night.reader, night.ledger, access=app.state.access, shelf=shelf, cache_s=0,
        now=lambda: float(NOW_S),
    )  # fmt: skip
    listener = socket.create_server(("127.0.0.1", 0))
    http = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        http.should_exit = True
        thread.join()


@pytest.mark.parametrize("name", VERDICTS)
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_every_report_prints_to_two_pages(chromium, tmp_path, name):
    path = tmp_path / f"{name}.html"
    path.write_text(html_page(report(Kept(id="20260930-0123456789", review=recorded(name)))))
    page = chromium.new_page()
    page.goto(path.as_uri())

    printed = page.pdf(prefer_css_page_size=True)

    page.close()
    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 2


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_responder_decides_on_the_page_and_reads_it_on_a_telephone(chromium, shelf, tmp_path):
    latest, _ = two_weeks(shelf)
    with serving(shelf, tmp_path) as url:
        page = chromium.new_context(viewport={"width": 360, "height": 780}).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(url)
        page.wait_for_selector("main")
        page.keyboard.press("g")
        page.keyboard.press("b")
        page.wait_for_selector(".page-balance .balance")
        assert overflow(page) == 0

        page.fill("textarea[name=author]", "ada")
        page.fill("textarea[name=reason]", "the canary went well")
        page.click("text=Not done")
        until(page, "document.body.textContent.includes('ada') && "
              "document.body.textContent.includes(': the canary went well')")  # fmt: skip

        decision = shelf.one(latest.id).decision
        assert (decision.done, decision.why, decision.author) == (
            False, "the canary went well", "ada",
        )  # fmt: skip
        page.goto(f"{url}/api/v1/reviews/{latest.id}/report.html")
        assert overflow(page) == 0
        assert page.locator("h1").inner_text() == latest.review.verdict.says
        page.context.close()
