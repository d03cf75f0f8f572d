"""What the pages on security and upgrades promise."""

import re
import sqlite3
from contextlib import closing

import pytest
from pydantic import BaseModel

from collector.settings import CollectorSettings
from collector.store import open_store
from dashboard.security import POLICY
from domain.errors import StoreError
from stagewatch.config import Config
from tests.collector.storing import span, traces, writing
from tests.paths import ROOT

SECURITY = (ROOT / "docs" / "security.md").read_text()
WORDS = "whatthepatientsaid"


def test_no_text_of_prompts_or_answers_reaches_the_disk(tmp_path):
    told = span(gen_ai__input__messages=WORDS, gen_ai__output__messages=WORDS)
    assert WORDS.encode() in traces(told).SerializeToString()

    with writing(tmp_path) as writer:
        assert not writer.traces(traces(told)).rejected
        assert writer.counts()["stored_spans_total"] == 1

    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and WORDS.encode() in path.read_bytes()
    ]


def hosts(model):
    """Every address that something listens on, by default."""
    for name, field in model.model_fields.items():
        if name in ("host", "listen_host") and "listen" in f"{name} {field.description}".lower():
            yield field.default
        inside = [field.annotation, *getattr(field.annotation, "__args__", ())]
        for each in inside:
            if isinstance(each, type) and issubclass(each, BaseModel):
                yield from hosts(each)


def test_nothing_listens_on_another_address_until_somebody_says_so():
    found = [*hosts(Config), CollectorSettings().host]

    assert set(found) == {"127.0.0.1"}
    assert len(found) >= 6


def test_the_policy_that_the_page_quotes_is_the_one_that_is_sent():
    (quoted,) = re.findall(r"Content-Security-Policy: ([^…]+) …`", SECURITY)

    assert POLICY.startswith(quoted)


def test_the_bounds_that_the_page_names_are_the_defaults():
    settings = CollectorSettings()

    assert f"{settings.max_body_bytes >> 20} MiB as they travel" in SECURITY
    assert f"{settings.max_decompressed_bytes >> 20} MiB unpacked" in SECURITY
    assert f"{settings.max_items:,} items".replace(",", " ") in SECURITY
    assert f"{settings.max_label_values:,} values each".replace(",", " ") in SECURITY
    assert f"{settings.max_series:,} series".replace(",", " ") in SECURITY


@pytest.mark.parametrize("version", ["1", "99"])
def test_a_store_of_another_version_is_refused_and_stays_as_it_was(tmp_path, version):
    open_store(tmp_path).close()
    (file,) = tmp_path.glob("*.db")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'version'", (version,))
        connection.execute("DROP TABLE readings")

    with pytest.raises(StoreError, match=f"version {version}, and this Stagewatch reads"):
        open_store(tmp_path)

    with closing(sqlite3.connect(file)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        kept = connection.execute("SELECT value FROM meta WHERE key = 'version'").fetchall()
    assert "readings" not in tables
    assert kept == [(version,)]
