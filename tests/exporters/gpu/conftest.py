"""Boards for every test here; without a compiler the tests say so and skip."""

import pytest

from tests.fake_nvml.library import FakeNvml, needs_gcc

HERE = __name__.rpartition(".")[0]


def pytest_collection_modifyitems(items):
    for item in items:
        if item.module.__name__.startswith(HERE) and {"fake", "boards"} & set(item.fixturenames):
            item.add_marker(needs_gcc)


@pytest.fixture
def boards(tmp_path):
    """Makes boards of a profile."""

    def make(profile="h100", count=8, **more):
        return FakeNvml(tmp_path, profile, count, **more)

    return make


@pytest.fixture
def fake(boards):
    """Eight H100."""
    return boards()
