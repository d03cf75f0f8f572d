"""Alerts, silences and promises in a real Chromium: acting, previewing, reading on a telephone, by keys."""

import re

import pytest

from tests.dashboard.browsing import looking, marks, until
from tests.dashboard.incidents import NOW_S, bad_night, serving

pytestmark = marks


@pytest.fixture(scope="module")
def night(tmp_path_factory):
    found = bad_night(tmp_path_factory.mktemp("night"))
    found.silence("objective=search-ttft")
    found.silence("service=code", begins_s=3600, reason="rollout")
    with serving(found, refresh_s=1.0, cache_s=0) as url:
        found.url = url
        yield found


def test_a_telephone_shows_the_sentence_and_the_buttons_first(chromium, night):
    path = f"/alerts/{night.alert('chat-ttft').id}"
    with looking(chromium, night.url, path, width=360, height=780) as page:
        box = page.get_by_role("button", name="Acknowledge").bounding_box()

        assert box["y"] + box["height"] < 780


def test_somebody_takes_an_alert_with_the_keyboard_and_sees_it_at_once(chromium, night):
    told = night.alert("chat-ttft")
    with looking(chromium, night.url, f"/alerts/{told.id}") as page:
        page.get_by_label("Your name").focus()
        page.keyboard.type("grace")
        page.keyboard.press("Tab")
        page.keyboard.type("shedding load")
        page.keyboard.press("Enter")
        page.wait_for_selector("text=grace has it since")
        assert page.locator(".answer").inner_text() == "Done: acknowledge."

        page.reload()
        assert page.get_by_label("Your name").input_value() == "grace"
        page.get_by_role("button", name="Let go of it").click()
        page.get_by_role("button", name="Acknowledge").wait_for()

    entries = [(e.event, e.author) for e in night.ledger.alert(told.id).history]
    assert entries[-2:] == [("acknowledged", "grace"), ("unacknowledged", "grace")]


def test_a_refresh_takes_nothing_away_that_is_being_typed(chromium, night):
    with looking(chromium, night.url, f"/alerts/{night.alert('chat-ttft').id}") as page:
        page.get_by_label("What is being done").fill("half a sentence")
        for _ in range(3):
            with page.expect_response(lambda answer: "_dash-update-component" in answer.url):
                pass
        page.wait_for_timeout(200)

        assert page.get_by_label("What is being done").input_value() == "half a sentence"


def test_a_silence_of_an_alert_wants_a_reason_and_says_so(chromium, night):
    told = night.alert("batch-e2e", "ticket")
    with looking(chromium, night.url, f"/alerts/{told.id}", forgiven=["422"]) as page:
        page.get_by_role("button", name="Silence for 1 h").click()
        page.wait_for_selector(".answer.wrong")
        assert "reason" in page.locator(".answer").inner_text()

        page.get_by_label("What is being done").fill("a known load test")
        page.get_by_role("button", name="Silence for 1 h").click()
        page.wait_for_selector("text=Done: silence for 1 h.")

    (made,) = [s for s in night.ledger.silences(at_s=NOW_S) if s.reason == "a known load test"]
    assert [str(each) for each in made.matchers] == ["objective=batch-e2e", "severity=ticket"]
    assert made.ends_at_s - made.starts_at_s == 3600


def test_a_silence_is_previewed_while_it_is_typed_made_and_ended(chromium, night):
    path = "/silences?match=objective%3Dchat-ttft"
    with looking(chromium, night.url, path, forgiven=["422"]) as page:
        until(page, "document.querySelector('.preview').textContent.includes('every alert of 1')")
        page.get_by_label("What: one matcher").fill("nonsense")
        page.wait_for_selector(".preview.wrong")
        assert "matcher" in page.locator(".preview").inner_text()

        page.get_by_label("What: one matcher").fill("service=odd\nseverity=ticket")
        until(page, "document.querySelector('.preview').textContent.includes('some alerts of 1')")
        page.locator("textarea[name=reason]").fill("odd things <b>happen</b>")
        page.get_by_label("Your name").fill("ada")
        page.locator("select[name=duration_s]").select_option("8 h")
        page.get_by_role("button", name="Silence", exact=True).click()
        row = page.locator("tr", has_text="odd things <b>happen</b>")
        row.wait_for()
        assert "service=odd" in row.inner_text()

        row.get_by_role("button", name="End the silence").click()
        page.wait_for_selector("section[aria-labelledby=active-title] >> text=search-ttft")
        until(
            page,
            "![...document.querySelectorAll('section[aria-labelledby=active-title] tr')]"
            ".some(row => row.textContent.includes('odd things'))",
        )

    (made,) = [s for s in night.ledger.silences(at_s=NOW_S) if s.reason.startswith("odd things")]
    assert made.state(NOW_S + 1) == "expired"


def test_keys_lead_to_the_pages_and_links_lead_on(chromium, night):
    with looking(chromium, night.url, "/") as page:
        page.keyboard.press("g")
        page.keyboard.press("a")
        page.wait_for_selector("#open-title")
        page.keyboard.press("/")
        page.keyboard.type("chat")
        until(page, "location.search === '?find=chat'")
        page.keyboard.press("Escape")
        page.get_by_role("link", name="chat-ttft").first.click()
        page.wait_for_selector("h1 >> text=chat-ttft")
        page.get_by_role("link", name="The promise and its other rules").click()
        page.wait_for_selector("#rules-title")
        assert re.search(r"/objectives/chat-ttft$", page.url)

        page.keyboard.press("g")
        page.keyboard.press("s")
        page.wait_for_selector("#form-title")
