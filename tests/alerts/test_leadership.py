"""The lead on SQLite: one process by a lock on a file, and a clear word for a second one."""

import subprocess
import sys
import threading

import pytest

from alerts.leadership import Leadership
from alerts.tables import open_state
from domain.errors import StoreError
from tests.paths import ROOT


def test_a_second_process_on_one_sqlite_is_told_who_is_there_and_what_to_do(tmp_path):
    url = f"sqlite:///{tmp_path / 'alerts.db'}"
    first = Leadership(open_state(url))
    code = (
        "import sys; from alerts.tables import open_state; from alerts.leadership import Leadership\n"
        "Leadership(open_state(sys.argv[1]))"
    )

    second = subprocess.run(
        [sys.executable, "-c", code, url], capture_output=True, text=True, check=False, cwd=ROOT
    )
    first.close()

    assert second.returncode == 1
    assert "evaluates it already. End that process, or set alerts.state_url" in second.stderr


def test_who_is_gone_holds_no_lock(tmp_path):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    first = Leadership(state)
    with pytest.raises(StoreError, match="evaluates it already"):
        Leadership(state)
    first.close()

    Leadership(state).close()
    state.dispose()


def test_it_leads_at_once_and_ends_what_it_began(tmp_path):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    leadership, stop, said = Leadership(state, cadence_s=0.01), threading.Event(), []

    def govern(given):
        said.append(given is state)
        stop.set()
        return lambda: said.append("ended")

    leadership.run(stop, govern)
    leadership.close()
    state.dispose()

    assert said == [True, "ended"]
    assert not leadership.leads
