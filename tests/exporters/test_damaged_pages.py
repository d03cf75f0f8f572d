"""Pages of every engine cut off anywhere, with lines lost, moved and twisted: never a lie."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.engine.describe import describe
from exporters.engine.engines import WANTED
from exporters.engine.failure import ScrapeError
from exporters.engine.otlp import export_request
from exporters.engine.own_page import OwnPage
from exporters.engine.target import TargetState
from exporters.engine.text import PageParser
from tests.exporters.pages_of import SECOND_NS
from tests.paths import RECORDED, SHARED

OWN = {
    path.stem: path.read_text()
    for folder in ("engines", "dynamo")
    for path in sorted((RECORDED / folder).glob("*.prom"))
}
PUBLIC = {path.stem: path.read_text() for path in sorted(SHARED.glob("data/engines/*.prom"))}
PAGES = {**PUBLIC, **OWN}
WILD = st.sampled_from(
    ["0", "-1", "NaN", "+Inf", "-Inf", "1e308", "1e-320", "0.5", "9007199254740993", "x", "", "1 2"]
)
TROUBLES = {"failed_scrapes", "refused_families"}
ROLES = st.sampled_from(["", "both", "prefill", "decode"])


@st.composite
def twisted(draw, text):
    """A page of which a part was lost, moved or changed."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["lose", "double", "swap", "value", "label", "other"])):
            case "lose":
                del lines[at : at + draw(st.integers(1, 30))]
                lines = lines or [""]
            case "double":
                lines.insert(at, draw(st.sampled_from(lines)))
            case "swap":
                other = draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case "value":
                lines[at] = f"{lines[at].rpartition(' ')[0]} {draw(WILD)}"
            case "label":
                lines[at] = lines[at].replace('="', f'="{draw(WILD)}', 1)
            case _:
                lines.insert(at, draw(st.sampled_from(OTHER_LINES)))
    if draw(st.booleans()):
        lines = draw(st.permutations(lines)) if len(lines) < 200 else lines[::-1]
    return "\n".join(lines) + draw(st.sampled_from(["", "\n"]))


OTHER_LINES = sorted({line for text in PAGES.values() for line in text.splitlines()[:400:7]})


def check(reading):
    """Nothing negative, nothing that is no number, and everything can be sent and shown."""
    assert all(0 <= one.by < 2**60 for one in reading.increments)
    assert all(0 <= one.value < 2**60 for one in reading.levels)
    for one in reading.latencies:
        low, high = one.distribution.low, one.distribution.high
        assert (low >= 0).all()
        assert (high >= 0).all()
        assert low.sum() == high.sum() > 0
        mean_s = one.distribution.mean_s
        assert mean_s is None or (0 <= mean_s < math.inf)
    export_request(reading).SerializeToString()
    page = OwnPage()
    page.update(reading)
    assert list(page.collect())
    assert describe([reading])


def read(state, parser, text, at_s):
    try:
        page = parser.parse(text)
    except ScrapeError as failure:
        return state.failed(failure, at_s * SECOND_NS)
    return state.observe(page, at_s * SECOND_NS)


@given(st.data(), st.sampled_from(sorted(PAGES)), ROLES)
def test_a_page_cut_off_anywhere_says_nothing_that_is_not_on_it(data, name, role):
    text = PAGES[name]
    cut = text[: data.draw(st.integers(0, len(text)))]
    labels = tuple({"service": "chat", "role": role}.items())
    whole = TargetState(labels, from_zero=True)
    torn = TargetState(labels, from_zero=True)
    parser = PageParser(WANTED.__contains__)

    full, part = read(whole, parser, text, 2), read(torn, parser, cut, 2)

    check(part)
    for one in part.latencies:
        same = [x.distribution.n for x in full.latencies if x.metric == one.metric]
        assert one.distribution.n <= sum(same) or one.metric == "e2e", "torn pages invent nothing"


@given(st.data(), st.sampled_from(sorted(PAGES)), ROLES, st.booleans())
def test_no_damage_to_any_engines_page_makes_a_lie_or_an_error(data, name, role, from_zero):
    state = TargetState(tuple({"service": "chat", "role": role}.items()), from_zero=from_zero)
    parser = PageParser(WANTED.__contains__)

    for at_s in (2, 3, 5):
        check(read(state, parser, data.draw(twisted(PAGES[name])), at_s))


@given(st.lists(st.sampled_from(sorted(PAGES)), min_size=2, max_size=4), ROLES)
def test_an_address_that_serves_one_engine_after_the_other_makes_no_lie(names, role):
    state = TargetState(tuple({"service": "chat", "role": role}.items()))
    parser = PageParser(WANTED.__contains__)

    for at_s, name in enumerate(names, start=1):
        check(read(state, parser, PAGES[name], at_s))


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_same_page_twice_counts_nothing_twice(name):
    state = TargetState((("service", "chat"),))
    parser = PageParser(WANTED.__contains__)

    first, second = (read(state, parser, PAGES[name], at_s) for at_s in (1, 2))

    assert not first.latencies
    assert not second.latencies
    assert not any(one.by for one in second.increments if one.metric not in TROUBLES)
