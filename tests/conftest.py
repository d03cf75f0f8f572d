"""What every test may ask for."""

import os

import pytest
from hypothesis import settings

from tests.paths import ROOT

settings.register_profile("dev", max_examples=50, deadline=None)
settings.register_profile("ci", max_examples=200, deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.fixture
def golden():
    """Compare with a reviewed file; `make golden` rewrites it for review."""

    def compare(name, text):
        path = ROOT / "tests" / "golden" / name
        if os.environ.get("UPDATE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        assert text == path.read_text()

    return compare
