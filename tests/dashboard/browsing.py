"""A real Chromium on our pages: what a test opens, waits for and measures, and what it may not find.

axe-core 4 lies in the wheel of axe-playwright-python (MPL-2.0) and is handed to the page by the
debugger: nothing is fetched, and our policy against foreign scripts stays as it is.
"""

import shutil
from contextlib import contextmanager
from pathlib import Path

import axe_playwright_python
import pytest

from tests.paths import ROOT

__all__ = [
    "CHROMIUM",
    "PATIENCE_MS",
    "drawn",
    "go",
    "looking",
    "marks",
    "overflow",
    "unseemly",
    "until",
    "violations",
    "with_chromium",
]

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PATIENCE_MS = 75_000  # a lost answer is asked for again after 20 s; a loaded machine may lose two

marks = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]

_AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
_INSPECTION = (ROOT / "tests" / "dashboard" / "inspection.js").read_text()
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]
# why without these: axe does not see into drawings, and the rows of a table are of one manner
_LEFT_OUT = [[".main-svg"], ["tbody tr:nth-child(n+6)"]]
_READY = "main :is(.table, .empty, .notice, form, section, .headline):visible"


@contextmanager
def with_chromium():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--headless=new"]
        )
        yield browser
        browser.close()


@contextmanager
def looking(
    browser, url, path="/", *, width=1440, height=900, scheme="light", ready=_READY,
    forgiven=(), **more
):  # fmt: skip
    """A page; at the end nothing may have been complained about or fetched from elsewhere."""
    more = {"timezone_id": "Europe/Berlin"} | more
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, **more
    )
    wrong = []
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda asked: None if _own(asked.url, url) else wrong.append(asked.url))
    page.goto(url + path)
    page.wait_for_selector(ready)
    yield page
    context.close()
    left = [each for each in wrong if not any(one in each for one in forgiven)]
    assert left == [], f"complained about, or fetched from elsewhere: {left[:5]}"


def _own(address, url):
    return address.startswith((url, "data:", "blob:"))


def until(page, expression):
    """Ask again until it holds; Playwright's own way needs `eval`, which our policy forbids."""
    for _ in range(PATIENCE_MS // 100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"never came true: {expression}")


def go(page, path):
    """To another page as a link goes there: without loading anything anew."""
    if page.evaluate("location.pathname + location.search") == path:
        drawn(page)
        return
    pathname, _, search = path.partition("?")
    page.evaluate("document.getElementById('main').dataset.before = '1'")
    target = {"pathname": pathname, "search": f"?{search}" if search else ""}
    page.evaluate("target => window.dash_clientside.set_props('url', target)", target)
    until(page, "(e => e && !e.dataset.before)(document.getElementById('main'))")
    drawn(page)


def drawn(page):
    """Every chart that is on the page has its axes and is as wide as its place."""
    until(
        page,
        "!document.querySelector('.loading') && [...document.querySelectorAll('.dash-graph')]"
        ".every(each => each.querySelector('.xaxislayer-above')"
        " && Math.abs(each.querySelector('.main-svg').clientWidth - each.clientWidth) < 2)",
    )


def overflow(page):
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def unseemly(page):
    """What is cut off, lies over something else, or makes the page scroll sideways."""
    return page.evaluate(_INSPECTION)


def violations(page):
    """What axe-core finds, of any weight: rule, weight, and the first element."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(_AXE)
    found = page.evaluate(
        "async ([exclude, runOnly]) => {"
        " const found = await axe.run({ exclude }, { runOnly, resultTypes: ['violations'] });"
        " return found.violations.map(each => `${each.id} (${each.impact}): ${each.nodes[0].html.slice(0, 120)}`) }",
        [_LEFT_OUT, _RULES],
    )
    assert page.evaluate("axe.version").startswith("4.")
    return found
