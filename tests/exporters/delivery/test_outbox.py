"""What waits for a collector: through the end of the process, within its bytes, never uncounted."""

import os
import shutil
import stat
import subprocess
import sys

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from domain.errors import ConfigError
from exporters.delivery.outbox import Outbox
from tests.exporters.delivery.outboxes import OWNER, Clock, drained, export, names_in, opened
from tests.paths import ROOT

OTHER = (("replica", "r1"), ("service", "voice"), ("source", "page"))


def died(box):
    """What a killed process leaves: nothing is closed, only its lock is gone."""
    os.close(box._spool._lock)
    box._spool = None


def spool_files(folder):
    return sorted(folder.glob("*.spool"))


def disk_bytes(folder):
    return sum(path.stat().st_blocks * 512 for path in spool_files(folder))


def names(count):
    return [f"export-{number}" for number in range(count)]


def test_what_was_not_sent_waits_for_the_next_process(tmp_path):
    died(opened(tmp_path, *names(5)))

    with_rest = opened(tmp_path)
    with_rest.take(1)
    with_rest.settle()
    died(with_rest)

    assert drained(opened(tmp_path)) == (names(5)[1:], {})


def test_what_was_taken_but_not_answered_is_sent_again(tmp_path):
    box = opened(tmp_path, "a", "b")
    assert len(box.take(1_000_000)) == 2
    died(box)

    assert drained(opened(tmp_path)) == (["a", "b"], {})


def test_sent_files_go(tmp_path):
    box = opened(tmp_path, max_bytes=64 * 1024)
    for name in names(40):
        box.put(export(name, size=2000))
        drained(box)

    assert len(spool_files(tmp_path)) == 1
    assert len(box) == 0


def test_a_start_says_what_was_found(tmp_path, caplog):
    died(opened(tmp_path, "a", "b"))

    opened(tmp_path)

    (line,) = [line for line in caplog.messages if "wait to be sent" in line]
    assert line.startswith(f"{tmp_path}: 2 exports (")


def test_nobody_else_reads_the_exports(tmp_path):
    opened(tmp_path / "spool", "a")

    modes = {
        path.relative_to(tmp_path).parts[1:]: stat.S_IMODE(path.stat().st_mode)
        for path in (tmp_path / "spool").rglob("*")
    }
    assert stat.S_IMODE((tmp_path / "spool").stat().st_mode) == 0o700
    assert modes[spool_files(tmp_path / "spool")[0].name,] == 0o600


def test_two_processes_in_one_folder_are_one_clear_error(tmp_path):
    code = (
        "import sys; from pathlib import Path; from tests.exporters.delivery.outboxes import opened\n"
        "opened(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
    ) as first:
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(ConfigError, match=rf"process {first.pid}.*`spool_dir` of its own"):
            opened(tmp_path)
        first.stdin.close()

    opened(tmp_path, "a")


@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_a_full_outbox_drops_the_oldest_counts_it_and_tells_it(tmp_path, folder):
    where = tmp_path / "spool" if folder == "disk" else None
    box = opened(where, max_bytes=64 * 1024, memory_bytes=48 * 1024)

    for name in names(100):
        box.put(export(name, size=2000))
    held = len(box)
    kept, told = drained(box)

    assert kept == names(100)[-held:]
    assert 10 < held < 60
    assert box.lost() == {(OWNER, "spool_full"): 100 - held}
    assert told == {("chat", "spool_full"): 100 - held}


def test_the_disk_never_holds_more_than_it_may(tmp_path):
    box = opened(tmp_path, max_bytes=64 * 1024)

    for name in names(120):
        box.put(export(name, size=1500))
        assert disk_bytes(tmp_path) <= 64 * 1024


def test_an_export_larger_than_the_spool_is_dropped_alone(tmp_path):
    box = opened(tmp_path, "a", max_bytes=64 * 1024)

    box.put(export("huge", size=200_000))

    assert drained(box) == (["a"], {("chat", "spool_full"): 1})


def test_what_is_being_sent_is_not_dropped_under_way(tmp_path):
    box = opened(tmp_path, max_bytes=64 * 1024)
    for name in names(12):
        box.put(export(name, size=2000))
    taken = [names_in(record.packed)[0] for record in box.take(4000)]

    for name in names(100)[12:]:
        box.put(export(name, size=2000))
    for _ in taken:
        box.settle()
    box.release()
    rest, told = drained(box)

    assert taken == names(12)[: len(taken)]
    assert rest[-1] == "export-99"
    assert len(taken) + len(rest) + told["chat", "spool_full"] == 100


def test_losses_survive_the_process_that_had_them(tmp_path):
    box = opened(tmp_path, max_bytes=64 * 1024)
    for name in names(60):
        box.put(export(name, size=2000))
    died(box)

    kept, told = drained(opened(tmp_path, max_bytes=64 * 1024))

    assert len(kept) + told["chat", "spool_full"] == 60


def test_losses_that_are_dropped_themselves_are_told_again(tmp_path):
    box = opened(tmp_path, max_bytes=64 * 1024)
    for name in names(400):
        box.put(export(name, size=2000))

    kept, told = drained(box)

    assert len(kept) + told["chat", "spool_full"] == 400


@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_what_waited_too_long_is_dropped_and_counted(tmp_path, folder):
    clock = Clock()
    where = tmp_path / "spool" if folder == "disk" else None
    box = opened(where, "a", "b", max_age_s=10, now_ns=clock)
    clock.go(5)
    box.put(export("c"))
    clock.go(6)

    assert drained(box) == (["c"], {("chat", "too_old"): 2})


def test_age_is_that_of_the_oldest_and_bytes_are_counted_by_owner(tmp_path):
    clock = Clock()
    box = opened(tmp_path, "a", now_ns=clock)
    clock.go(30)
    box.put(export("b"))
    box.put(export("c", owner=OTHER))

    first, second = box.waiting(OWNER), box.waiting(OTHER)

    assert (first.exports, second.exports) == (2, 1)
    assert first.oldest_age_s == second.oldest_age_s == 30
    assert sum(box.held_bytes()) == first.size_bytes + second.size_bytes
    drained(box)
    assert box.waiting(OWNER).oldest_age_s == box.waiting(OWNER).exports == 0


@pytest.mark.parametrize("folder", ["disk", "memory"])
def test_a_sender_that_went_away_without_a_word_holds_nothing_back(tmp_path, folder):
    box = opened(tmp_path / "spool" if folder == "disk" else None, "a", "b")

    box.take(1)

    assert drained(box) == (["a", "b"], {})


def write_over(path, *, at, data=b"\xff\xff\xff"):
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def test_a_damaged_export_is_skipped_counted_once_and_said(tmp_path, caplog):
    died(opened(tmp_path, *names(9)))
    (path,) = spool_files(tmp_path)
    write_over(path, at=path.stat().st_size // 2)

    for _ in range(3):  # however often it begins
        died(opened(tmp_path))
    kept, told = drained(opened(tmp_path, "new"))

    assert len(kept) == 9
    assert kept[-1] == "new"
    assert told == {("chat", "corrupt"): 1}
    assert "1 are damaged and lost" in caplog.text


def test_a_damaged_export_found_late_is_counted_too(tmp_path):
    box = opened(tmp_path, *names(9))
    (path,) = spool_files(tmp_path)
    write_over(path, at=path.stat().st_size // 2)

    kept, told = drained(box)

    assert len(kept) == 8
    assert told == {("chat", "corrupt"): 1}


def test_a_missing_file_is_counted_by_how_many_exports_were_in_it(tmp_path):
    box = opened(tmp_path, max_bytes=64 * 1024)
    for name in names(12):
        box.put(export(name, size=2000))
    died(box)
    spool_files(tmp_path)[1].unlink()

    kept, told = drained(opened(tmp_path, "new", max_bytes=64 * 1024))

    assert len(kept) + told["chat", "corrupt"] == 13
    assert kept[0] == "export-0"


def test_a_file_that_vanishes_meanwhile_is_counted(tmp_path):
    box = opened(tmp_path, max_bytes=64 * 1024)
    for name in names(12):
        box.put(export(name, size=2000))
    for path in spool_files(tmp_path)[:2]:
        path.unlink()

    kept, told = drained(box)

    assert len(kept) + told["chat", "corrupt"] == 12


@pytest.mark.parametrize("cut", [1, 5, 13, 60])
def test_an_export_that_was_not_written_to_its_end_was_never_there(tmp_path, cut):
    died(opened(tmp_path, "a", "b"))
    (path,) = spool_files(tmp_path)
    whole = path.read_bytes()
    second = whole.index(b"SWX1", 4)
    path.write_bytes(whole[: second + cut])

    box = opened(tmp_path, "c")

    assert drained(box) == (["a", "c"], {})
    assert not box.lost()


@pytest.mark.parametrize("content", [b"", b"\0" * 12, b"\xff" * 12, b"12345678"])
def test_a_broken_note_of_what_was_sent_sends_again_and_loses_nothing(tmp_path, content):
    box = opened(tmp_path, "a", "b")
    box.take(1)
    box.settle()
    died(box)
    (tmp_path / "sent").write_bytes(content)

    kept, told = drained(opened(tmp_path))

    assert kept in (["b"], ["a", "b"])
    assert not told


def test_strange_files_in_the_folder_do_no_harm(tmp_path):
    died(opened(tmp_path, "a"))
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "xyz.spool").write_text("hello")
    (tmp_path / "00000000000000000077.spool").mkdir()
    (tmp_path / "00000000000000000099.spool").write_bytes(b"SWX1" * 999)

    kept, told = drained(opened(tmp_path, "b"))

    assert kept == ["a", "b"]
    assert told == {("chat", "corrupt"): 99}  # a file says by its name that there were as many


def test_exports_wait_in_memory_while_the_folder_cannot_be_made(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    box = opened(tmp_path / "file" / "spool", "a", "b")
    assert box.held_bytes()[0] == 0
    (tmp_path / "file").unlink()
    box._try_at_s = 0.0
    box.put(export("c"))

    assert box.held_bytes() == (sum(box.held_bytes()), 0)
    assert drained(box) == (["a", "b", "c"], {})
    assert len([line for line in caplog.messages if "takes no exports" in line]) == 1
    assert len([line for line in caplog.messages if "exports wait in" in line]) == 1


class AnyLife(RuleBasedStateMachine):
    """Whatever happens, in any order: each export is sent in its order or counted, once."""

    def __init__(self):
        super().__init__()
        self.put_names, self.arrived, self.told, self.flight = [], [], 0, []

    @initialize(on_disk=st.booleans())
    def begin(self, on_disk):
        import tempfile
        from pathlib import Path

        self.clock = Clock()
        self.root = Path(tempfile.mkdtemp())
        self.folder = self.root / "spool" if on_disk else None
        self.box = self.open()

    def open(self):
        return opened(
            self.folder, max_bytes=64 * 1024, memory_bytes=40_000, max_age_s=50, now_ns=self.clock
        )

    @rule(size=st.integers(1, 6000), times=st.integers(1, 12))
    def put(self, size, times):
        for _ in range(times):
            self.put_names.append(f"n{len(self.put_names)}")
            self.box.put(export(self.put_names[-1], size=size))

    @precondition(lambda self: not self.flight)
    @rule(most=st.integers(1, 20_000))
    def take(self, most):
        self.flight = self.box.take(most)

    @precondition(lambda self: self.flight)
    @rule(refused=st.booleans())
    def settle(self, refused):
        record = self.flight.pop(0)
        self.box.settle(refused=refused)
        if record.lost:
            # a refused word of losses is not told again; whoever refuses it does not want to know
            self.told += sum(n for _, _, n in record.lost)
        elif not refused:
            self.arrived += names_in(record.packed)

    @rule()
    def release(self):
        self.box.release()
        self.flight = []

    @rule(seconds=st.integers(0, 60))
    def wait(self, seconds):
        self.clock.go(seconds)

    @precondition(lambda self: self.folder is not None)
    @rule()
    def die(self):
        died(self.box)
        self.flight = []
        self.box = self.open()

    @invariant()
    def the_disk_is_not_overfull(self):
        if self.folder is not None:
            assert disk_bytes(self.folder) <= 64 * 1024

    def teardown(self):
        self.box.release()
        while records := self.box.take(100_000):
            for record in records:
                self.box.settle()
                if record.lost:
                    self.told += sum(n for _, _, n in record.lost)
                else:
                    self.arrived += names_in(record.packed)
            self.box.release()
        order = [int(name[1:]) for name in self.arrived]
        self.box.close()
        shutil.rmtree(self.root)
        assert order == sorted(set(order))
        assert len(order) + self.told == len(self.put_names)


def test_whatever_happens_each_export_is_sent_in_order_or_counted_once():
    run_state_machine_as_test(
        AnyLife,
        settings=hypothesis_settings(max_examples=30, stateful_step_count=30, deadline=None),
    )


def test_an_outbox_without_a_folder_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    Outbox(None, max_bytes=100_000, max_age_s=10).put(export("a", memo=b"x"))

    assert not list(tmp_path.iterdir())


def test_a_file_that_again_and_again_cannot_be_read_is_given_up_and_counted(tmp_path, monkeypatch):
    box = opened(tmp_path, max_bytes=64 * 1024)
    for name in names(12):
        box.put(export(name, size=2000))
    broken = spool_files(tmp_path)[0].name
    read = os.open

    def broken_disk(path, flags, *more):
        if str(path).endswith(broken) and not flags & os.O_WRONLY:
            raise OSError(5, "Input/output error")
        return read(path, flags, *more)

    monkeypatch.setattr(os, "open", broken_disk)
    tries = 0
    while not (taken := box.take(1)):
        tries += 1
        assert tries < 30
    box.release()
    kept, told = drained(box)

    assert tries > 3
    assert taken
    assert len(kept) + told["chat", "corrupt"] == 12


def test_exports_of_spans_wait_like_the_others(tmp_path):
    from dataclasses import replace

    box = opened(tmp_path, "a")
    box.put(replace(export("b"), traces=True))
    died(box)

    again = opened(tmp_path)

    assert [record.traces for record in again.take(1_000_000)] == [False, True]
