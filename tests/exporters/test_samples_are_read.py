"""Every sample that was brought along is read by a test: one that nobody reads proves nothing."""

import pytest

from tests.exporters.gpu import test_recorded_gpus as gpus
from tests.paths import RECORDED, SHARED

ROOT = RECORDED.parent
NOTES = {"LICENSES.md", "README.md", "SOURCES.md", "condense.py"}
TESTS = {
    path: path.read_text()
    for path in ROOT.rglob("test_*.py")
    if path.name != "test_samples_are_read.py"
}
CLOUDWATCH = sorted(
    path.name for path in (RECORDED / "cloudwatch").iterdir() if path.name not in NOTES
)


@pytest.mark.parametrize("name", CLOUDWATCH)
def test_a_cloudwatch_sample_is_named_by_a_test(name):
    assert [path.name for path, text in TESTS.items() if f'"{name}"' in text]


@pytest.mark.skipif(not gpus.GPU.exists(), reason=f"no public GPU captures in {SHARED}/data/gpu")
def test_every_gpu_capture_is_one_of_those_that_the_recorded_tests_go_through():
    there = {path for path in gpus.GPU.rglob("*") if path.is_file() and path.name not in NOTES}
    read = {*gpus.EXPORTER, *gpus.TEXTS, *gpus.PAGES, *gpus.XML, gpus.GPU / "profiles.json"}

    assert there == read
    assert all((len(gpus.EXPORTER), len(gpus.TEXTS), len(gpus.PAGES), len(gpus.XML)))
