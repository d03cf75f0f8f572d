"""Every page in a real Chromium: with data, stale, empty and hostile; light and dark; wide and on a telephone."""

import pytest

from tests.dashboard.browsing import drawn, go, looking, marks, unseemly, until, violations
from tests.dashboard.scenes import HOSTILE_NAMES, PAGES, empty, full, stale

pytestmark = marks

WAYS = {
    "full": ((1440, "light"), (360, "dark")),
    "stale": ((1440, "dark"), (360, "light")),
    "empty": ((360, "light"), (1440, "dark")),
    "hostile": ((360, "dark"), (1440, "light")),
}
"""Each page is seen in each scene, each theme, each width; axe looks at both themes and widths."""

MARKUP = "<img src=x onerror="

_FOCUSED = """() => {
  const wanted = "a[href], button:not(:disabled), summary, input:not([type=hidden]), textarea, select";
  window.walked = [];
  document.addEventListener("focusin", (event) => {
    const style = getComputedStyle(event.target);
    const around = event.target.closest(".dash-input-container");
    const shown = [style, around && getComputedStyle(around)].some((each) => each && each.outlineStyle !== "none"
      && parseFloat(each.outlineWidth) >= 2);
    window.walked.push([event.target, shown]);
  });
  window.controls = [...document.querySelectorAll("#stagewatch :is(" + wanted + ")")].filter((each) => each.checkVisibility());
  return window.controls.length;
}"""
_MISSED = """() => {
  const name = (each) => each.outerHTML.slice(0, 100);
  const reached = new Set(window.walked.map(([each]) => each));
  return [
    ...window.controls.filter((each) => !reached.has(each)).map((each) => `not reached: ${name(each)}`),
    ...window.walked.filter(([each, shown]) => !shown && each.id !== "main").map(([each]) => `does not show it: ${name(each)}`),
  ];
}"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    return tmp_path_factory.mktemp("full")


@pytest.fixture(scope="module")
def fleet(filled):
    with full(filled, tokens=()).serving() as scene:  # whoever is on loopback may act
        yield scene


def made(name, folder, filled):
    if name == "stale":
        return stale(folder, filled)
    return empty(folder, tokens=()) if name == "empty" else full(folder, named=HOSTILE_NAMES)


@pytest.fixture
def scene(request, tmp_path, fleet, filled):
    if request.param == "full":
        yield fleet
        return
    with made(request.param, tmp_path, filled).serving() as served:
        yield served


def told(wrong):
    """A line each, so that whoever reads a failure reads all of it."""
    return "\n".join(f"{name}: {each}" for name, every in wrong.items() for each in every)


def seen(page, ways, *, thorough):
    """All that is wrong with a page that is open, in two ways of looking."""
    for place, (width, scheme) in enumerate(ways):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        drawn(page)
        wrong = unseemly(page) + (violations(page) if thorough or not place else [])
        yield from (f"{width} {scheme}: {each}" for each in wrong)


def misread(page):
    """A name is whole text wherever it stands, and turns nothing around it."""
    said = page.locator("main").inner_text()
    checks = {"markup is not text": MARKUP in said, "what follows is turned": "\u202e" not in said}
    return [wrong for wrong, holds in checks.items() if not holds]


def unhelpful(page):
    """A page without anything says what to do next: a command, a way on, or a form."""
    ways = "main :is(pre, form, .empty a, td code)"
    return [] if page.locator(ways).count() else ["does not say what to do next"]


def unwarned(page):
    """Nothing has come for 25 minutes: the page says so, and does not look alive."""
    banner = "role=status >> text=Nothing arrives any more"
    return [] if page.locator(banner).count() == 1 else ["looks alive"]


EXTRA = {"hostile": misread, "empty": unhelpful, "stale": unwarned}


@pytest.mark.parametrize(
    ("scene", "name"), [(name, name) for name in WAYS], indirect=["scene"], ids=str
)
def test_every_page_holds(chromium, scene, name):
    wrong = {}
    with looking(chromium, scene.url, forgiven=["404"]) as page:
        for each in PAGES[:-1]:
            go(page, scene.path(each))
            wrong[each] = list(seen(page, WAYS[name], thorough=name == "full"))
            wrong[each] += EXTRA.get(name, lambda _: [])(page)
        page.goto(scene.url + scene.path("Sign in"))
        wrong["Sign in"] = list(seen(page, WAYS[name], thorough=True))

    assert not told(wrong), told(wrong)


def test_every_control_of_every_page_is_reached_by_tab_and_shows_it(chromium, fleet):
    wrong = {}
    with looking(chromium, fleet.url) as page:
        for each in PAGES[:-1]:
            go(page, fleet.path(each))
            page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
            for _ in range(
                page.evaluate(_FOCUSED) + 8
            ):  # eight more: tables that scroll take the focus
                page.keyboard.press("Tab")
            wrong[each] = page.evaluate(_MISSED)

    assert not told(wrong), told(wrong)


ADDRESSES = {
    "Fleet": "?from=now-6h&where=region%3Deu-west-1&find=chat",
    "Service": "?from=now-6h&by=replica&where=region%3Deu-west-1&compare=week",
    "Alert": "",
    "Alerts": "?find=chat&kind=page",
    "Objective": "?from=now-6h",
    "Requests": "?from=now-6h&where=replica%3Dvllm-1&over=0.5&order=newest",
    "Request": "",
    "GPUs": "?from=now-15m",
    "Endpoints": "?from=now-6h",
    "Probes": "?from=now-6h&where=region%3Deu-west-1",
    "Balance": "",
    "Silences": "?match=objective%3Dchat-ttft",
    "Status": "?from=now-15m",
}
_SHOWN = "document.querySelector('main').innerText + document.querySelector('.time').innerText"


def settled(page):
    """What a form asks for by itself has been answered."""
    until(
        page,
        "[...document.querySelectorAll('main .preview')].every(each => / (open|every|some|Matches) /"
        ".test(` ${each.textContent}`) || each.textContent.includes('nothing'))",
    )


def test_a_copied_address_shows_every_page_as_it_was(chromium, fleet):
    different = {}
    with looking(chromium, fleet.url, fleet.path("Alerts")) as page:
        for each, query in ADDRESSES.items():
            go(page, fleet.path(each) + query)
            settled(page)
            address, before = page.url, page.evaluate(_SHOWN)
            with looking(chromium, fleet.url, address.removeprefix(fleet.url)) as other:
                drawn(other)
                settled(other)
                after = other.evaluate(_SHOWN)
            if (other.url, after) != (address, before):
                different[each] = [f"{address}: {before[:300]!r} became {after[:300]!r}"]

    assert not told(different), told(different)


def test_what_is_chosen_by_hand_stands_in_the_address(chromium, fleet):
    with looking(chromium, fleet.url, fleet.path("Service")) as page:
        drawn(page)
        page.keyboard.press("3")
        page.wait_for_selector(".time [aria-current]:has-text('6 h')")
        page.locator("#filter").fill("region=eu-west-1")
        page.locator("#filter").press("Enter")
        page.wait_for_selector(".chip:has-text('eu-west-1')")
        page.get_by_role("link", name="replica", exact=True).click()
        page.wait_for_selector(".choices [aria-current]:has-text('replica')")

        query = page.url.partition("?")[2]
        assert set(query.split("&")) == {"from=now-6h", "where=region%3Deu-west-1", "by=replica"}


@pytest.mark.parametrize("zone", ["Asia/Kathmandu", "America/St_Johns"])
def test_a_chart_tells_the_time_of_the_readers_clock(chromium, fleet, zone):
    with looking(chromium, fleet.url, fleet.path("Service"), timezone_id=zone) as page:
        drawn(page)
        axis = page.evaluate("document.querySelector('.js-plotly-plot')._fullLayout.xaxis.range")
        read_at = page.locator("footer time").first.inner_text()

        assert axis[1].split(" ")[1].startswith(read_at[:5])
