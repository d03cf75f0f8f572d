"""Pages through the whole path that a sidecar takes, from text to readings."""

from domain.distribution import add_all
from exporters.engine.pages import read_pages, readings
from exporters.engine.target import TargetState
from exporters.engine.text import PageParser
from exporters.engine.vllm import wanted
from tests.paths import RECORDED

__all__ = [
    "CASES",
    "ENGINES",
    "NOTHING_YET",
    "SECOND_NS",
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
NOTHING_YET = 'python_info{version="3.12"} 1.0\n'
"""A page of a process that is up and has no family of ours yet."""


def page(text):
    return PageParser(wanted().__contains__).parse(text)


def scrapes(*texts, role="", **labels):
    """One reading per page, a second apart, from the second page on."""
    told = {"service": "chat", "replica": "r0", "role": role, **labels}
    state = TargetState(tuple(sorted(told.items())))
    parser = PageParser(wanted().__contains__)
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
