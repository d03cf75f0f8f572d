"""A fleet at night, its reader, and the pages drawn from them."""

import pytest

from dashboard.viewer import Viewer
from tests.dashboard.browsing import with_chromium
from tests.dashboard.memory import MemoryLedger, MemoryReader
from tests.dashboard.worlds import WORLDS

NOW_S = 1_772_367_000 + 17  # 2026-03-01 12:10:17 UTC


@pytest.fixture(scope="session")
def worlds():
    return {name: make(NOW_S) for name, make in WORLDS.items()}


@pytest.fixture
def reader(worlds):
    """Of the night; a test may ask for another world by `reader.world = worlds[...]`."""
    return MemoryReader(worlds["night"])


@pytest.fixture
def ledger(reader):
    return MemoryLedger(reader)


@pytest.fixture
def viewer():
    return Viewer(now_s=NOW_S, host="watch.example")


@pytest.fixture(scope="module")
def chromium():
    """A module's own: what Playwright leaves running in its thread is no company for asyncio."""
    with with_chromium() as browser:
        yield browser
