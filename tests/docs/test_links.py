"""No link is dead, read on a git host."""

import re

import pytest

from tests.docs.reading import PAGES, anchors, links
from tests.paths import ROOT


def dead(page, link):
    """Why it leads nowhere, or nothing. The web is not asked."""
    if link.startswith(("http://", "https://", "mailto:")):
        return None
    path, _, anchor = link.partition("#")
    there = (page.parent / path).resolve() if path else page
    if not there.exists():
        return f"{link}: no such file"
    if anchor and there.suffix == ".md" and anchor not in anchors(there):
        return f"{link}: no such heading"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page):
    assert [why for link in links(page) if (why := dead(page, link))] == []


def test_a_link_to_nowhere_is_found():
    page = ROOT / "README.md"

    assert dead(page, "docs/nowhere.md") == "docs/nowhere.md: no such file"
    assert dead(page, "docs/write-an-objective.md#nowhere").endswith("no such heading")
    assert dead(page, "docs/write-an-objective.md#presets") is None


def test_every_page_is_listed_where_readers_look_for_it():
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in links(index)}
    written = {page for page in PAGES if page.is_relative_to(index.parent)}
    decisions = {page for page in written if page.parent.name == "decisions"}

    assert written - decisions - listed == {index}
    assert index.parent / "decisions" / "README.md" in listed


def test_every_page_of_a_task_says_what_is_next():
    tasks = [page for page in PAGES if page.parent.name == "docs" and page.name != "index.md"]
    last = {page.name: page.read_text().rstrip().rpartition("\n")[2] for page in tasks}

    assert [name for name, line in last.items() if not re.match(r"Next: .*\]\(", line)] == []
