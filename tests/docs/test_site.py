"""The documentation as a site: built without a warning, whole, and nothing from elsewhere."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.slow

LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Reader(HTMLParser):
    """What a page names, what it links to, and what a browser would fetch for it."""

    def __init__(self):
        super().__init__()
        self.ids, self.links, self.loads = set(), [], []

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id":
                self.ids.add(value)
            elif (tag, name) in LOADS:
                self.loads.append(value)
            elif (tag, name) == ("a", "href"):
                self.links.append(value)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """`make docs`, into a folder of its own."""
    out = tmp_path_factory.mktemp("site")
    strict = ("-q", "-W", "--keep-going", "-n", "-b", "html")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *strict, "-d", out / "trees", "docs", out / "html"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return out / "html"


@pytest.fixture(scope="module")
def read(site):
    pages = {}
    for path in site.rglob("*.html"):
        pages[path] = Reader()
        pages[path].feed(path.read_text())
    return pages


def test_no_link_inside_is_dead(site, read):
    dead = []
    for page, found in read.items():
        for link in (*found.links, *found.loads):
            parts = urlsplit(link)
            if parts.scheme:
                continue
            there = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            known = there in read and (not parts.fragment or parts.fragment in read[there].ids)
            if not known and not (there.is_file() and there.suffix != ".html"):
                dead.append(f"{page.relative_to(site)}: {link}")

    assert dead == []
    assert len(read) > 60


def test_a_browser_fetches_nothing_from_elsewhere(site, read):
    loaded = {link for found in read.values() for link in found.loads}
    styles = "".join(path.read_text() for path in site.rglob("*.css"))

    assert {link for link in loaded if urlsplit(link).netloc} == set()
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", styles) == []


def test_the_search_knows_the_words_and_the_pages(site):
    text = (site / "searchindex.js").read_text()
    index = json.loads(text[text.index("(") + 1 : text.rindex(")")])

    assert "watch-a-vllm-server" in index["docnames"]
    assert "reference/runbook" in index["docnames"]
    assert "pagerduti" in index["terms"]  # by its stem
    assert 'role="search"' in (site / "index.html").read_text()


def test_it_is_dark_where_the_reader_is(site):
    assert "prefers-color-scheme: dark" in "".join(
        path.read_text().replace("scheme:dark", "scheme: dark") for path in site.rglob("*.css")
    )
    assert "theme-toggle" in (site / "index.html").read_text()


def test_the_parts_of_the_index_are_the_navigation(site):
    captions = re.findall(r'class="caption-text">([^<]+)<', (site / "index.html").read_text())

    assert list(dict.fromkeys(captions)) == [
        "Start",
        "Watch",
        "Promise and be paged",
        "At 3 a.m.",
        "Rebalance",
        "Fit in",
        "Reference",
        "Understand",
    ]
