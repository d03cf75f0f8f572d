"""The report of a review: what was reviewed by eye for each verdict, and what must hold for any."""

import re
from dataclasses import replace
from html import escape, unescape
from html.parser import HTMLParser

import pytest

from review.html_page import html_page
from review.markdown import markdown
from review.report import report
from review.review_value import from_json, to_json
from review.shelf import Decision, Kept
from review.verdict import VerdictKind
from tests.paths import RECORDED

VERDICTS = {
    "keep": VerdictKind.DO_NOTHING,
    "move": VerdictKind.MOVE,
    "infeasible": VerdictKind.INFEASIBLE,
    "gate": VerdictKind.NO_RECOMMENDATION,
}
HOSTILE = "<script>alert(1)</script> | **x** \u202eevil\n# no heading"


def recorded(name):
    return from_json((RECORDED / "reviews" / f"{name}.json").read_text())


def kept(name, **more):
    return Kept(id="20260928-0123456789", review=recorded(name), **more)


@pytest.mark.parametrize("name", VERDICTS)
def test_the_page_of_each_verdict_is_the_reviewed_one_golden(golden, name):
    golden(f"reviews/{name}.html", html_page(report(kept(name))))


@pytest.mark.parametrize("name", VERDICTS)
def test_the_text_of_each_verdict_is_the_reviewed_one_golden(golden, name):
    golden(f"reviews/{name}.md", markdown(report(kept(name))))


@pytest.mark.parametrize(("name", "kind"), VERDICTS.items())
def test_the_verdict_stands_before_anything_it_rests_on(name, kind):
    told = kept(name)
    page, text = html_page(report(told)), markdown(report(told))

    assert told.review.verdict.kind is kind
    assert page.index(f"<h1>{escape(told.review.verdict.says)}</h1>") < page.index("<h2>")
    assert unescape(re.sub(r"\\", "", text.splitlines()[2])) == f"**{told.review.verdict.says}**"


@pytest.mark.parametrize("name", VERDICTS)
def test_a_recorded_review_reads_back_as_the_same_json(name):
    told = recorded(name)

    assert from_json(to_json(told)) == told


@pytest.mark.parametrize("name", VERDICTS)
def test_a_page_fetches_nothing_and_runs_nothing(name):
    page = html_page(report(kept(name)))

    found = _Tags()
    found.feed(page)
    assert not {"script", "link", "img", "iframe", "form"} & found.names
    assert not {"src", "href", "onload", "style"} & found.attributes
    assert not re.search(r"url\(|@import", page)
    assert "default-src 'none'" in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_a_gate_that_holds_tells_no_alternatives_and_no_plan():
    page = html_page(report(kept("gate")))

    assert "holds it back" in page
    assert "Alternatives" not in page
    assert "Plan" not in page


def test_triggers_are_called_reasons_and_no_step_of_the_plan_comes_from_one():
    told = kept("move")
    sections = {each.title: each for each in report(told).sections}

    assert "never actions" in next(title for title in sections if "Reasons" in title)
    assert sections["Plan, in safe order"].points == tuple(
        step.says for step in told.review.plan.steps
    )


def test_the_current_split_comes_first_and_then_what_is_advised():
    sections = {each.title: each for each in report(kept("move")).sections}
    (grid,) = sections["Alternatives"].grids

    assert [row[0] for row in grid.rows[:2]] == ["2P:6D", "3P:5D"]
    assert grid.strong == 1
    assert len(grid.rows) == len(kept("move").review.alternatives)


def test_without_prices_money_is_not_evaluated_and_nothing_is_guessed():
    told = kept("keep")
    bare = tuple(replace(each, money=None) for each in told.review.alternatives)
    page = markdown(report(replace(told, review=replace(told.review, alternatives=bare))))

    assert "no price is told" in page
    assert "USD" not in page


def test_a_decision_says_who_and_why():
    decision = Decision(done=False, why="the launch comes first", author="ada", at_s=1_790_800_000)

    page = html_page(report(kept("move", decision=decision)))

    assert "Not done, says ada (2026-09-30): the launch comes first" in page


def test_names_are_text_whatever_they_are_made_of():
    told = kept("move")
    workers = (replace(told.review.workers[0], name=HOSTILE), *told.review.workers[1:])
    odd = replace(told, review=replace(told.review, service=HOSTILE, workers=workers))
    page, text = html_page(report(odd)), markdown(report(odd))

    found = _Tags()
    found.feed(page)
    assert not {"script", "b", "img"} & found.names
    assert "<bdi>" in page
    assert "<script" not in text
    assert not [line for line in text.splitlines() if line.startswith("# no heading")]


class _Tags(HTMLParser):
    def __init__(self):
        super().__init__()
        self.names, self.attributes = set(), set()

    def handle_starttag(self, tag, attrs):
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}
