"""What a source wants back: in step with its exports, whenever the process ends."""

import os

import pytest

from exporters.delivery import memos
from tests.exporters.delivery.outboxes import OWNER, drained, export, opened
from tests.exporters.delivery.test_outbox import died


def put(box, *instants):
    for at_ns in instants:
        box.put(export(f"n{at_ns}", at_ns=at_ns, memo=b"memo %d" % at_ns))


def memo_file(folder, suffix="memo"):
    return next((folder / "memos").glob(f"*.{suffix}"), None)


def test_the_last_memo_comes_back_sent_or_not(tmp_path):
    box = opened(tmp_path)
    put(box, 1, 2, 3)
    died(box)
    again = opened(tmp_path)
    assert again.memo(OWNER) == b"memo 3"
    drained(again)
    died(again)

    assert opened(tmp_path).memo(OWNER) == b"memo 3"


def test_exports_without_a_memo_leave_it_as_it_is_and_an_empty_one_forgets(tmp_path):
    box = opened(tmp_path)
    put(box, 1)
    box.put(export("failed", at_ns=2))
    assert box.memo(OWNER) == b"memo 1"
    box.put(export("anew", at_ns=3, memo=b""))

    assert box.memo(OWNER) is None


def test_killed_before_the_export_was_kept_the_memo_before_it_counts(tmp_path):
    box = opened(tmp_path)
    put(box, 1)
    box._spool.memos.prepare(OWNER, 2, b"memo 2")
    died(box)

    assert opened(tmp_path).memo(OWNER) == b"memo 1"
    assert memo_file(tmp_path, "next") is None


def test_killed_after_the_export_was_kept_its_memo_counts(tmp_path, monkeypatch):
    box = opened(tmp_path)
    put(box, 1)
    box._spool.memos.prepare(OWNER, 2, b"memo 2")
    box.put(export("n2", at_ns=2))  # the same bytes but for the memo, which tells by its instant
    box._spool.memos.prepare(OWNER, 2, b"memo 2")
    monkeypatch.setattr(type(box._spool.memos), "confirm", lambda *_: None)
    box.put(export("n3", at_ns=3, memo=b"memo 3"))
    monkeypatch.undo()
    died(box)

    assert opened(tmp_path).memo(OWNER) == b"memo 3"


def test_a_memo_older_than_its_owners_exports_is_not_believed(tmp_path):
    box = opened(tmp_path)
    put(box, 1)
    kept = memo_file(tmp_path).read_bytes()
    put(box, 2)
    died(box)
    memo_file(tmp_path).write_bytes(kept)  # a disk that forgot the last write

    assert opened(tmp_path).memo(OWNER) is None


@pytest.mark.parametrize("content", [b"", b"xx", b"\0" * 40, b"\xff" * 400])
def test_a_broken_memo_is_none(tmp_path, content):
    box = opened(tmp_path)
    put(box, 1)
    memo_file(tmp_path).write_bytes(content)

    assert box.memo(OWNER) is None


def test_after_a_power_cut_a_memo_is_not_believed(tmp_path, monkeypatch):
    box = opened(tmp_path)
    put(box, 1)
    died(box)
    other = tmp_path / "boot_id"
    other.write_text("another start of the machine")
    monkeypatch.setattr(memos, "_START", other)

    assert opened(tmp_path).memo(OWNER) is None


def test_after_an_orderly_end_and_a_restart_of_the_machine_it_is(tmp_path, monkeypatch):
    box = opened(tmp_path)
    put(box, 1)
    box.close()
    other = tmp_path / "boot_id"
    other.write_text("another start of the machine")
    monkeypatch.setattr(memos, "_START", other)

    assert opened(tmp_path).memo(OWNER) == b"memo 1"


def test_memos_of_owners_that_are_no_more_go_after_a_month(tmp_path):
    box = opened(tmp_path)
    put(box, 1)
    died(box)
    os.utime(memo_file(tmp_path), (1, 1))

    opened(tmp_path)

    assert memo_file(tmp_path) is None
