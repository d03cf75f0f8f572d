"""A disk that is full, read-only or limited: exports wait in memory, then on disk again."""

import os
import resource
import shutil
import subprocess
import sys

import pytest

from tests.exporters.delivery.outboxes import OWNER, drained, export, opened
from tests.paths import ROOT


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 256 KiB of its own; only root can make one."""
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    where = tmp_path / "small"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(where)], check=False
    )
    if mounted.returncode != 0:
        pytest.skip("this machine lets nobody mount a small disk")
    yield where
    subprocess.run(["umount", "-l", str(where)], check=True)


def names(since, until):
    return [f"export-{number}" for number in range(since, until)]


def put(box, since, until, **more):
    for name in names(since, until):
        box.put(export(name, size=2000, **more))


def test_a_full_disk_loses_nothing_that_memory_can_hold_and_is_used_again(small_disk, caplog):
    (small_disk / "of somebody else").write_bytes(b"x" * 150_000)
    box = opened(small_disk / "spool")
    put(box, 0, 60)
    on_disk, in_memory = box.held_bytes()
    assert on_disk > 50_000
    assert in_memory > 20_000
    assert box.counts["disk_failures"] > 0

    (small_disk / "of somebody else").unlink()
    put(box, 60, 61)

    assert box.held_bytes()[1] == 0
    assert drained(box) == (names(0, 61), {})
    assert len([line for line in caplog.messages if "takes no exports" in line]) == 1
    assert len([line for line in caplog.messages if line.endswith("spool again")]) == 1


def test_what_memory_cannot_hold_either_is_counted(small_disk):
    (small_disk / "of somebody else").write_bytes(b"x" * 150_000)
    box = opened(small_disk / "spool", memory_bytes=20_000)

    put(box, 0, 100)
    kept, told = drained(box)

    assert kept[0] == "export-0"
    assert kept[-1] == "export-99"
    assert len(kept) + told["chat", "spool_full"] == 100


def test_a_full_disk_keeps_what_was_there_through_a_kill(small_disk):
    box = opened(small_disk / "spool")
    put(box, 0, 20)
    (small_disk / "of somebody else").write_bytes(b"x" * 1000)
    try:
        with (small_disk / "the rest").open("wb", buffering=0) as rest:
            while True:
                rest.write(b"x" * 4096)
    except OSError:
        pass
    os.close(box._spool._lock)

    assert drained(opened(small_disk / "spool")) == (names(0, 20), {})


def test_a_memo_is_not_ahead_of_its_exports_when_the_disk_fills_up(small_disk):
    box = opened(small_disk / "spool")
    for number in range(60):
        box.put(export(f"export-{number}", at_ns=number, memo=b"%d" % number, size=2000))
        if number == 20:
            (small_disk / "of somebody else").write_bytes(
                b"x" * max(os.statvfs(small_disk).f_bavail * 4096 - 20_000, 0)
            )
    os.close(box._spool._lock)

    again = opened(small_disk / "spool")
    kept, _ = drained(again)

    assert len(kept) < 60
    assert again.memo(OWNER) == kept[-1].removeprefix("export-").encode()


def test_a_memo_of_exports_that_left_memory_is_forgotten(small_disk):
    box = opened(small_disk / "spool")
    box.put(export("first", at_ns=1, memo=b"1"))
    fill = small_disk / "of somebody else"
    fill.write_bytes(b"x" * (os.statvfs(small_disk).f_bavail * 4096))
    box.put(export("second", at_ns=2, memo=b"2", size=9000))
    assert drained(box)[0] == ["first", "second"]
    os.close(box._spool._lock)
    fill.unlink()

    assert opened(small_disk / "spool").memo(OWNER) is None


def test_a_disk_that_is_read_only_at_first_is_used_once_it_can_be(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    box = opened(small_disk / "spool", "a", "b")
    assert box.held_bytes()[1] > 0
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    box._try_at_s = 0.0
    box.put(export("c"))

    assert box.held_bytes()[1] == 0
    assert drained(box) == (["a", "b", "c"], {})


LIMITED = """
import resource, sys
from pathlib import Path
from tests.exporters.delivery.outboxes import drained, export, opened
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
box = opened(Path(sys.argv[1]))
for number in range(40):
    box.put(export(f"export-{number}", size=2000))
assert box.counts["disk_failures"], "the limit was never met"
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
box._try_at_s = 0.0
box.put(export("last"))
assert box.held_bytes()[1] == 0
kept, told = drained(box)
assert kept == [f"export-{number}" for number in range(40)] + ["last"], kept
assert not told
"""


@pytest.mark.parametrize("limit_bytes", [10, 100, 1500, 20_000])
def test_files_that_may_not_grow_are_no_reason_to_lose_anything(tmp_path, limit_bytes):
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY

    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path), str(limit_bytes)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
