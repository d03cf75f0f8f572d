"""First useful paint: from the start of a navigation until a table or chart with data is drawn.

Chromium with nothing in its cache, a server that is warm, the store of `benchmarks.month`. Two cores:
the browser has one of them, more or less, as it has on a machine that also serves.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import sync_playwright

from benchmarks import month
from benchmarks.pages import Clock, served
from dashboard.url import View

__all__ = ["main", "measured"]

BAR_MS = 1500.0
_ROUNDS = 5
_WATCH = """
(() => {
  const found = () => document.querySelector(
    'main table tbody tr td, main .js-plotly-plot .scatterlayer path, main .strip .layer');
  const look = () => {
    if (!found()) return;
    watcher.disconnect();
    requestAnimationFrame(() => setTimeout(() => { window.usefulAtMs = performance.now(); }));
  };
  const watcher = new MutationObserver(look);
  watcher.observe(document, { childList: true, subtree: true });
})();
"""


def main() -> int:
    """1 when a bar is missed."""
    with tempfile.TemporaryDirectory() as name:
        month.fill(Path(name))
        return measured(Path(name))


def measured(folder: Path) -> int:
    """Over a store that is there."""
    clock = Clock()
    missed = 0
    with served(folder, clock) as (port, alert), sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--headless=new"]
        )
        for name, link in _links(alert):
            took_ms = [
                _useful_ms(browser, f"http://127.0.0.1:{port}{link}") for _ in range(_ROUNDS)
            ]
            middle_ms = median(took_ms[1:])
            missed += middle_ms > BAR_MS
            verdict = "ok" if middle_ms <= BAR_MS else "MISSED"
            print(
                f"{name:32} {middle_ms:6.0f} ms = {middle_ms / BAR_MS:4.2f} of the bar,"
                f" worst {max(took_ms):6.0f} ms  {verdict}",
                flush=True,
            )
        browser.close()
    return int(missed > 0)


def _links(alert: str) -> Iterator[tuple[str, str]]:
    service = View(service=month.service(0))
    past = month.NOW_S - 7200, month.NOW_S - 3600
    yield "fleet", "/"
    yield "fleet, an hour that is past", View().between(*past).link()
    yield "service", service.link()
    yield "service, an hour that is past", service.between(*past).link()
    yield "alert", f"/alerts/{alert}"


def _useful_ms(browser: Any, url: str) -> float:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    try:
        page = context.new_page()
        page.add_init_script(_WATCH)
        page.goto(url, wait_until="commit")
        for _ in range(600):
            at_ms = page.evaluate("window.usefulAtMs || 0")
            if at_ms:
                return float(at_ms)
            page.wait_for_timeout(50)
        raise RuntimeError(f"nothing useful was drawn at {url}")
    finally:
        context.close()


if __name__ == "__main__":
    sys.exit(main())
