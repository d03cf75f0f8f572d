"""No dependency comes along under a licence that is not among ours; what comes along is listed."""

import json
import re
import subprocess
import sys

import pytest

from scripts.licences import RUN, SHIPPED, fits, licence, locked, shipped
from tests.paths import ROOT


def test_everything_that_is_shipped_is_under_one_of_our_licences():
    found = {name: licence(name) for name in shipped()}

    refused = {name: told for name, told in found.items() if told and not fits(told, SHIPPED)}
    assert refused == {}
    assert {"numpy", "dash", "boto3", "psycopg", "numba"} <= set(found)
    assert "pytest" not in found


def test_every_tool_that_only_we_run_is_free_too():
    found = {name: licence(name) for name in locked() - shipped()}

    assert {name: told for name, told in found.items() if told and not fits(told, RUN)} == {}
    assert found["pytest"] == "MIT"


@pytest.mark.parametrize(
    ("expression", "fine"),
    [
        ("MIT", True),
        ("MPL-2.0 AND (Apache-2.0 OR MIT)", True),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only", False),
        ("MIT AND AGPL-3.0-only", False),
        ("unknown", False),
        ("Proprietary", False),
    ],
)
def test_one_alternative_has_to_be_ours(expression, fine):
    assert fits(expression, SHIPPED) is fine


@pytest.mark.parametrize("lock", ["server", "image-sidecar"])
def test_the_bill_of_materials_lists_what_is_locked(lock, tmp_path):
    out = tmp_path / "sbom.json"
    path = ROOT / "requirements" / f"{lock}.txt"
    made = ("-W", "ignore", "-m", "cyclonedx_py", "requirements", path, "--no-validate")
    subprocess.run(
        [sys.executable, *made, "--pyproject", "pyproject.toml", "--output-reproducible", "-o", out],
        cwd=ROOT,
        check=True,
    )  # fmt: skip
    told = json.loads(out.read_text())

    pinned = set(re.findall(r"^([a-z0-9._-]+)==([^ ;\\]+)", path.read_text(), re.MULTILINE))
    assert {(each["name"], each["version"]) for each in told["components"]} == pinned
    assert all(each["externalReferences"][0]["hashes"] for each in told["components"])
    assert told["metadata"]["component"]["name"] == "stagewatch"
