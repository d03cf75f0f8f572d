"""Opening a store: made when asked, refused when newer, and every trouble in one clear sentence."""

import sqlite3
from contextlib import closing

import pytest

from collector.settings import CollectorSettings
from collector.store import FILE_NAME, errors_of, file_of, open_store
from collector.writer import Writer
from domain.errors import StoreError
from tests.collector.storing import rows, span, traces, writing


def test_a_folder_becomes_a_store_in_it(tmp_path):
    open_store(tmp_path / "data").close()

    assert (tmp_path / "data" / FILE_NAME).exists()
    assert rows(tmp_path / "data", "SELECT value FROM meta WHERE key = 'version'") == [("3",)]


def test_a_file_is_its_own_name(tmp_path):
    assert file_of(tmp_path / "mine.db") == tmp_path / "mine.db"
    assert file_of(tmp_path) == tmp_path / FILE_NAME


def test_a_store_is_written_ahead_in_large_pages(tmp_path):
    open_store(tmp_path).close()

    assert rows(tmp_path, "PRAGMA journal_mode") == [("wal",)]
    assert rows(tmp_path, "PRAGMA page_size") == [(16_384,)]


def test_opening_twice_changes_nothing(tmp_path):
    with writing(tmp_path) as writer:
        writer.traces(traces(span()))

    open_store(tmp_path).close()

    assert rows(tmp_path, "SELECT n FROM segment") == [(1,)]


def test_a_missing_store_is_not_made_by_those_who_read(tmp_path):
    with pytest.raises(StoreError, match=r"no store here.*stagewatch up"):
        open_store(tmp_path, create=False)

    assert not (tmp_path / FILE_NAME).exists()


def test_a_store_of_a_newer_version_is_refused_with_the_way_out(tmp_path):
    open_store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("UPDATE meta SET value = '99' WHERE key = 'version'")
        connection.commit()

    with pytest.raises(StoreError, match=r"version 99.*reads 3.*Update Stagewatch"):
        open_store(tmp_path)


def test_a_store_of_an_older_version_is_refused_with_the_way_out(tmp_path):
    open_store(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as connection:
        connection.execute("UPDATE meta SET value = '1' WHERE key = 'version'")
        connection.commit()

    with pytest.raises(StoreError, match=r"version 1.*reads 3.*Move it away"):
        open_store(tmp_path)


def test_a_file_that_is_no_database_is_said_to_be_none(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"certainly not SQLite " * 100)

    with pytest.raises(StoreError, match=r"no SQLite database.*another folder"):
        open_store(tmp_path)


def test_a_folder_that_cannot_be_made_is_said_to_be_so(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(StoreError, match="folder cannot be made"):
        open_store(tmp_path / "file" / "data")


def test_two_collectors_cannot_write_one_store(tmp_path):
    with writing(tmp_path):
        second = open_store(tmp_path)
        with pytest.raises(StoreError, match=r"another process is writing.*One collector owns"):
            Writer(second, CollectorSettings()).start()
        second.close()


def test_the_next_collector_may_write_once_the_first_is_gone(tmp_path):
    with writing(tmp_path) as first:
        first.traces(traces(span(1)))
    with writing(tmp_path) as second:
        second.traces(traces(span(2)))

    assert rows(tmp_path, "SELECT sum(n) FROM segment") == [(2,)]


def test_a_full_disk_is_one_sentence_and_nothing_is_acknowledged(tmp_path):
    store = open_store(tmp_path)
    with Writer(store, CollectorSettings(), now=lambda: 1_795_966_000.0) as writer:
        writer.traces(traces(span(1)))
        writer._upkeep_at_s = float("inf")  # not while we look
        pages = rows(tmp_path, "PRAGMA page_count")[0][0]
        writer._connection.connection.driver_connection.execute(f"PRAGMA max_page_count={pages}")
        big = traces(*(span(n, end_s=1_795_960_000 + n) for n in range(2, 3000)))
        with pytest.raises(StoreError, match=r"disk is full.*Free space"):
            writer.traces(big)
        assert "disk is full" in writer.problem()
        writer._upkeep_at_s = 0.0  # due
        writer._connection.connection.driver_connection.execute("PRAGMA max_page_count=1000000")
        assert writer.traces(big).rejected == 0
        assert writer.problem() is None
    store.close()

    assert rows(tmp_path, "SELECT sum(n) FROM segment") == [(2999,)]


def test_a_lock_held_by_another_process_is_one_sentence(tmp_path):
    store = open_store(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE_NAME)) as other:
        other.execute("BEGIN IMMEDIATE")
        with store.engine.connect() as connection:
            connection.connection.driver_connection.execute("PRAGMA busy_timeout=10")
            with pytest.raises(StoreError, match="another process is writing"):
                begin(connection, store.path)
        other.rollback()
    store.close()


def begin(connection, path):
    with errors_of(path):
        connection.begin()
