"""`stagewatch slo backtest` and `slo plan` over a real store: what they say, and their JSON."""

import json
import time

import pytest

from alerts.evaluator import Evaluator
from alerts.tables import open_state
from collector.reader import StoreReader
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from stagewatch.__main__ import main
from tests.alerts.fleet import chat
from tests.alerts.test_with_the_store import export


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """Eighty minutes of requests, slow for twelve of them; one promise in force."""
    folder = tmp_path_factory.mktemp("past")
    end_s = int(time.time()) // 60 * 60
    store = open_store(folder)
    with Writer(store, CollectorSettings()) as writer:
        for ago in range(80, 0, -1):
            writer.traces(export(end_s - 60 * ago + 30, 2.5 if 22 > ago > 9 else 0.3, 50))
    state = open_state(f"sqlite:///{folder / 'alerts.db'}")
    reader = StoreReader(folder)
    Evaluator(reader, chat("- {phrase: p90 ttft <= 1.5s, name: chat}"), state).tick(end_s + 11)
    reader.close()
    store.close()
    state.dispose()
    return folder


def ask(past, action, text, *more):
    path = past / "wanted.yaml"
    path.write_text(text)
    return main(["slo", action, str(path), "--data-dir", str(past), "--from", "now-2h", *more])


def test_a_backtest_names_each_alert_its_reason_and_what_was_not_seen(past, capsys):
    assert ask(past, "backtest", "- {phrase: p99 ttft <= 1.5s, name: chat}") == 0

    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("chat: 1 page, 1 ticket from ")
    assert any(
        line.startswith("  page") and "200 of 3150 requests in the last 6 h waited" in line
        for line in told[1:-1]
    )
    assert told[-1].startswith("  600 of 4000 bad; ")
    assert told[-1].endswith("of 120 minutes not observed")


def test_a_plan_shows_what_the_file_would_have_paged_more(past, capsys):
    text = "- {phrase: p99 ttft <= 1.5s, name: chat}\n- {phrase: p99 e2e <= 20s, name: whole}"

    assert ask(past, "plan", text) == 0

    told = capsys.readouterr().out.splitlines()
    assert told[1].startswith("~ chat   pages 0 → 1")
    assert "p90 ttft <= 1.5s over 30d becomes p99 ttft <= 1.5s over 30d" in told[1]
    assert any(line.startswith("    + page ") for line in told)
    assert any(line.startswith("+ whole  pages 0") and "new:" in line for line in told)


def test_as_json_it_is_one_object(past, capsys):
    ask(past, "plan", "- {phrase: p99 ttft <= 1.5s, name: chat}", "--format", "json")

    (chat_plan,) = json.loads(capsys.readouterr().out)["plan"]
    assert chat_plan["verb"] == "change"
    assert (chat_plan["before"]["pages"], chat_plan["after"]["pages"]) == (0, 1)
    assert (chat_plan["after"]["total"], chat_plan["after"]["bad_low"]) == (4000, 600)
    assert chat_plan["after"]["alerts"][0]["started_at"]


def test_a_window_that_ends_before_it_begins_is_refused(past, capsys):
    path = past / "wanted.yaml"
    path.write_text("- p99 ttft <= 1.5s")

    status = main(["slo", "backtest", str(path), "--data-dir", str(past), "--from", "now+1h"])

    assert status == 1
    assert "--from and --to: the window ends before it begins" in capsys.readouterr().err


def test_a_folder_without_a_store_is_one_clear_error(tmp_path, capsys):
    path = tmp_path / "slo.yaml"
    path.write_text("- p99 ttft <= 1.5s")

    assert main(["slo", "backtest", str(path), "--data-dir", str(tmp_path / "none")]) == 1
    assert str(tmp_path / "none") in capsys.readouterr().err
