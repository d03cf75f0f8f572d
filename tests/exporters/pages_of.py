"""Pages through the whole path that a sidecar takes, from text to readings."""

import pytest

from domain.distribution import add_all
from exporters.engine.engines import WANTED
from exporters.engine.pages import read_pages, readings
from exporters.engine.target import TargetState
from exporters.engine.text import PageParser
from tests.paths import RECORDED, SHARED

__all__ = [
    "CASES",
    "ENGINES",
    "NOTHING_YET",
    "SECOND_NS",
    "engine_page",
    "from_start",
    "increments",
    "latency",
    "level",
    "page",
    "read_folder",
    "scrapes",
    "total",
]

CASES = RECORDED / "cases-engines"
ENGINES = RECORDED / "engines"
SECOND_NS = 1_000_000_000
NOTHING_YET = "vllm:engine_sleep_state 1.0\n"
"""A page of an engine that is up and has no family of ours yet."""


def page(text):
    return PageParser(WANTED.__contains__).parse(text)


def engine_page(name):
    """The text of an engine's page: ours from the tree, a public one from beside it if there."""
    for folder in (ENGINES, SHARED / "data" / "engines"):
        if (path := folder / f"{name}.prom").exists():
            return path.read_text()
    return pytest.skip(f"{name} is public material and not here")


def from_start(text, *, role="", **labels):
    """All that one page says since its engine started."""
    told = {"service": "chat", "replica": "r0", "role": role, **labels}
    state = TargetState(tuple(sorted(told.items())), from_zero=True)
    return state.observe(page(text), 1_796_000_000 * SECOND_NS)


def scrapes(*texts, role="", **labels):
    """One reading per page, a second apart, from the second page on."""
    told = {"service": "chat", "replica": "r0", "role": role, **labels}
    state = TargetState(tuple(sorted(told.items())))
    parser = PageParser(WANTED.__contains__)
    found = [
        state.observe(parser.parse(text), number * SECOND_NS)
        for number, text in enumerate(texts, start=1)
    ]
    return found[1:]


def latency(reading, metric):
    """The one pair of that metric; None where the reading has none."""
    found = [one.distribution for one in reading.latencies if one.metric == metric]
    assert len(found) <= 1
    return found[0] if found else None


def level(reading, metric):
    found = [one.value for one in reading.levels if one.metric == metric]
    assert len(found) <= 1
    return found[0] if found else None


def increments(reading, metric, by=None):
    """Increment of a counter by the value of one label, or in all; None where it says nothing."""
    found = [one for one in reading.increments if one.metric == metric]
    if by is None:
        return sum(one.by for one in found) if found else None
    return {dict(one.labels).get(by, ""): one.by for one in found}


def read_folder(folder, pattern="[0-9][0-9]-*.prom", **labels):
    """All readings of a recorded folder."""
    return list(readings(read_pages(sorted(folder.glob(pattern))), {"service": "chat", **labels}))


def total(readings_, metric):
    """All pairs of a metric added up."""
    return add_all(
        one.distribution for each in readings_ for one in each.latencies if one.metric == metric
    )
