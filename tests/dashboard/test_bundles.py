"""Scripts and styles: packed once, told apart by version, and Plotly in a quarter of its bytes."""

import ast
import gzip
import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from plotly.offline import get_plotlyjs_version

import dashboard
from dashboard.bundles import PLOTLY
from tests.dashboard.serving import server

FOLDER = Path(dashboard.__file__).parent


@pytest.fixture
def client(reader):
    with TestClient(server(reader)) as client:
        yield client


def scripts(client):
    return re.findall(r'src="(/[^"]+)"', client.get("/service/chat").text)


def test_every_script_of_the_page_is_packed_and_kept_by_the_browser(client):
    found = [each for each in scripts(client) if "start.js" not in each]

    assert len(found) > 8
    for each in found:
        answer = client.get(each)
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert answer.headers["content-type"].startswith(
            ("text/javascript", "application/javascript")
        )


def test_it_is_the_same_file_the_second_time_and_to_whoever_takes_it_unpacked(client):
    first, second, plain = (
        client.get("/assets/stagewatch.js", headers={"accept-encoding": wanted})
        for wanted in ("gzip", "gzip", "identity")
    )

    assert first.content == second.content == plain.content
    assert plain.content == (FOLDER / "assets" / "stagewatch.js").read_bytes()
    assert "content-encoding" not in plain.headers
    assert first.headers["etag"] == plain.headers["etag"]


def test_what_has_no_version_is_asked_for_again_and_not_sent_again(client):
    first = client.get("/assets/start.js")
    again = client.get("/assets/start.js", headers={"if-none-match": first.headers["etag"]})

    assert first.headers["cache-control"] == "no-cache"
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    "path", ["/assets/nothing.js", "/assets/../app.py", "/assets/%2e%2e/app.py"]
)
def test_what_is_no_file_is_not_kept(client, path):
    assert client.get(path).status_code == 404
    assert client.get(path).status_code == 404


def test_files_carry_the_same_policy_as_pages(client):
    for path in ("/assets/stagewatch.js", PLOTLY):
        assert "script-src 'self'" in client.get(path).headers["content-security-policy"]


def test_plotly_is_its_basic_bundle_of_the_very_version_that_is_installed(client):
    """When this fails: npm pack plotly.js-basic-dist-min@VERSION, and its file here, gzip -9n."""
    (packed,) = (FOLDER / "plotly").glob("*.js.gz")
    answer = client.get(PLOTLY)

    assert packed.name == f"plotly-basic-{get_plotlyjs_version()}.min.js.gz"
    assert answer.content == gzip.decompress(packed.read_bytes())
    assert f"plotly.js (basic - minified) v{get_plotlyjs_version()}" in answer.text[:200]
    assert len(packed.read_bytes()) < 400_000
    assert "MIT License" in (FOLDER / "plotly" / "LICENSE").read_text()


def test_all_that_we_draw_is_in_the_basic_bundle():
    literals = (
        {key.value: value for key, value in zip(node.keys, node.values, strict=True)
         if isinstance(key, ast.Constant)}
        for path in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Dict)
    )  # fmt: skip
    drawn = {each["type"].value for each in literals if {"type", "x", "y"} <= each.keys()}

    assert drawn == {"scatter", "bar"}


def test_it_works_under_a_prefix_too(reader):
    with TestClient(server(reader, prefix="/watch/")) as client:
        assert client.get(f"/watch{PLOTLY}").headers["content-encoding"] == "gzip"
        assert "/watch/assets/stagewatch.js" in client.get("/watch/").text
