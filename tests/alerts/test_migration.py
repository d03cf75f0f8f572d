"""A state that version 1 wrote is taken over: nothing lost, nothing told twice."""

import sqlite3

import pytest
from sqlalchemy import MetaData, create_engine, func, inspect, select, text
from sqlalchemy.orm import Session

from alerts.evaluator import Evaluator
from alerts.migration import VERSION
from alerts.settings import AlertsSettings
from alerts.sql_ledger import SqlLedger
from alerts.tables import Base, OutboxRow, open_state
from domain.errors import StoreError
from tests.alerts.fleet import Fleet, chat, outage
from tests.alerts.test_evaluator import RECEIVER, at
from tests.paths import ROOT

DUMP = ROOT / "tests" / "recorded" / "alerts" / "version-1.sql"
PROMISES = """
- {phrase: 'p99 ttft <= 1.5s over 30d', name: chat, keep_firing: 15min}
- {phrase: 'p95 e2e <= 30s over 7d where use_case=voice', name: voice, min_events: 5,
   no_data: ticket, runbook: 'https://runbooks.example/voice'}
"""


@pytest.fixture
def path(tmp_path):
    """The file as version 1 left it."""
    path = tmp_path / "alerts.db"
    with sqlite3.connect(path) as old:
        old.executescript(DUMP.read_text())
    old.close()
    return path


def counts(path):
    """Rows of each table."""
    state = create_engine(f"sqlite:///{path}")
    tables = MetaData()
    tables.reflect(state)
    with state.connect() as connection:
        found = {
            name: connection.scalar(select(func.count()).select_from(table))
            for name, table in tables.tables.items()
        }
    state.dispose()
    return found


def test_no_row_of_version_1_is_lost(path):
    before = counts(path)

    open_state(f"sqlite:///{path}").dispose()

    after = counts(path)
    assert before == {name: after[name] for name in before}
    assert before["minute_slice"] == 160


def test_the_tables_are_those_of_a_new_state(path):
    migrated, new = open_state(f"sqlite:///{path}"), open_state("sqlite://")

    with Session(migrated) as session:
        assert session.scalar(text("SELECT value FROM alert_meta")) == VERSION
    columns = [
        {
            name: {each["name"] for each in inspect(state).get_columns(name)}
            for name in Base.metadata.tables
        }
        for state in (migrated, new)
    ]
    migrated.dispose()
    new.dispose()

    assert columns[0] == columns[1]


def test_promises_alerts_and_history_are_read_as_they_were(path):
    state = open_state(f"sqlite:///{path}")
    ledger = SqlLedger(state)

    standings = {each.id: each for each in ledger.standings()}
    history = ledger.alert("chat-page-1772355840").history
    state.dispose()

    assert {name: each.state.value for name, each in standings.items()} == {
        "chat": "page",
        "voice": "page",
    }
    assert standings["chat"].budget.total == 80 * 600
    assert standings["voice"].objective.runbook == "https://runbooks.example/voice"
    assert [(each.event, each.author) for each in history] == [("firing", "")]


def test_evaluation_goes_on_where_version_1_stopped_and_tells_nothing_twice(path):
    state = open_state(f"sqlite:///{path}")
    fleet = Fleet(outage(60, 15, after=300))
    settings = AlertsSettings(receivers=(RECEIVER,))
    with Session(state) as session:
        told = list(session.scalars(select(OutboxRow.key)))
    alerts = Evaluator(fleet, chat(PROMISES), state, settings=settings)

    alerts.tick(at(81, 11))
    with Session(state) as session:
        again = list(session.scalars(select(OutboxRow.key)))
    for index in range(82, 200):
        alerts.tick(at(index, 11))

    with Session(state) as session:
        ended = [row.body for row in session.scalars(select(OutboxRow)) if "resolved" in row.body]
    state.dispose()
    assert again == told
    assert any('"alert_id": "chat-page-1772355840"' in each for each in ended)


def test_a_state_is_migrated_once(path):
    open_state(f"sqlite:///{path}").dispose()
    before = counts(path)

    open_state(f"sqlite:///{path}").dispose()

    assert counts(path) == before


def test_a_later_version_is_refused_with_the_way_out(path):
    with sqlite3.connect(path) as file:
        file.execute("UPDATE alert_meta SET value = '9' WHERE key = 'version'")
    file.close()

    with pytest.raises(StoreError, match="is of version 9, and this program reads 2"):
        open_state(f"sqlite:///{path}")
