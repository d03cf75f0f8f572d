"""The endpoints page in a real Chromium: serving and in trouble, on a telephone."""

import time

import pytest

from dashboard.viewer import Viewer
from tests.dashboard import test_browser
from tests.dashboard.browsing import marks, overflow
from tests.dashboard.test_endpoints import API, BEDROCK, CHAT, GATEWAY, MODEL, VARIANT, series

pytestmark = marks
site, look = test_browser.site, test_browser.look
HOSTILE = "<img src=x onerror=alert(1)>" + "endless" * 40


def world(trouble):
    """Endpoints of now: two that serve; in trouble one at its limit, one that nobody observes."""
    from datetime import UTC

    viewer = Viewer(now_s=int(time.time()), zone=UTC, prefix="/", host="x")
    calls = {"SampleCount": 40.0, "Sum": 90.0, "p50": 2.0, "p99": 3.0, "PR(:10)": 97.5}
    slow = {"SampleCount": 40.0, "Sum": 90.0, "Maximum": 29.01, "p50": 6.2, "p99": 29.0}
    yield series(viewer, *CHAT, "Invocations", "invocations", {"Sum": 40.0}, **VARIANT)
    yield series(viewer, *CHAT, "ModelLatency", "model_latency", calls, **VARIANT)
    yield series(viewer, *BEDROCK, "Invocations", "invocations", {"Sum": 9e6}, ModelId=HOSTILE)
    if trouble:
        name = "IntegrationLatency", "integration_latency"
        yield series(viewer, *GATEWAY, *name, slow, slow, **API)
        yield series(viewer, *GATEWAY, "5XXError", "server_errors", {"Sum": 4.0}, **API)
        silent = ("gone", "AWS/Bedrock", "Invocations", "invocations", {"Sum": 1.0})
        yield series(viewer, *silent, settled_s=9000, **MODEL)


@pytest.mark.parametrize(
    ("found", "scheme", "width"),
    [
        ("serving", "dark", 360),
        ("trouble", "light", 360),
    ],
)
def test_the_page_is_drawn_in_every_state_without_scrolling_sideways(
    look, site, found, scheme, width
):
    site.reader.world.endpoint_series = list(world(found == "trouble"))
    page = look("/endpoints", scheme=scheme, width=width)

    assert overflow(page) == 0
    said = page.locator("main").inner_text()
    assert HOSTILE[:40] in said
    assert page.locator("main img").count() == 0
    assert ("not observed" in said) == ("slowest calls ended at" in said) == (found == "trouble")
    widths = page.evaluate(
        "Array.from(document.querySelectorAll('tbody th')).map(h => h.offsetWidth)"
    )
    assert min(widths) >= 200, "a name is not squeezed into a column of letters"
