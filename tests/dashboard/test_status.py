"""How Stagewatch itself is: worst first, each with what to do, also in a night without a store."""

import pytest

from collector.reader import StoreReader
from collector.store import file_of, open_store
from dashboard.health_line import Health, bytes_text, worst_first
from dashboard.status import StatusPage
from dashboard.theme import State
from dashboard.url import View
from dashboard.viewer import Viewer
from dashboard.vitals import Limits, ReceiverState, Vitals
from tests.collector.storing import writing
from tests.dashboard.memory import MemoryLedger, MemoryReader
from tests.dashboard.outside_scene import NOW, probed, sidecars, together
from tests.dashboard.told import told_of as to_json
from tests.dashboard.worlds import WORLDS

LIMITS = Limits(
    series=20_000, lateness_s=600, requests_kept_s=259_200, tiers_kept_s={10: 86_400, 60: 1_209_600}
)
OURS = "stagewatch_collector_"


class Told:
    """A process that says what a test wants."""

    def __init__(self, **told):
        self._told = Vitals(**({"collects": True, "evaluates": True, "limits": LIMITS} | told))

    def vitals(self):
        return self._told


def world(folder, **trouble):
    with writing(folder, now=lambda: float(NOW)) as writer:
        writer.metrics(together([*probed(minutes=5), *sidecars(**trouble)]))
        writer.settle()
    return StoreReader(folder, now=lambda: float(NOW))


def look(reader, witness, *, name="healthy", now_s=NOW):
    ledger = MemoryLedger(MemoryReader(WORLDS[name](NOW)))
    view, viewer = View(alone="status"), Viewer(now_s=now_s)
    content = StatusPage(witness).content(reader, ledger, view, viewer)
    return {name: to_json(each) for name, each in content.regions.items()}, content.title


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    made = world(tmp_path_factory.mktemp("well"))
    yield made
    made.close()


def test_all_is_well_in_one_sentence(reader):
    said, title = look(reader, Told(heartbeat="", receivers=()))

    assert "Stagewatch is well." in said["state"]
    assert title == "● Status"
    assert "of 20" in said["store"]
    assert "requests for 3 d" in said["store"]


def test_sidecars_that_hold_back_and_lose_are_told_with_the_way_out(tmp_path):
    reader = world(tmp_path, lost=12.0, waits_bytes=5e6, spent_usd=0.95)

    said, title = look(reader, Told(heartbeat=""))
    reader.close()

    assert "12 exports lost" in said["sidecars"]
    assert "spool full" in said["sidecars"]
    assert "4.77 MiB waits" in said["sidecars"]
    assert "95 % of 1.00 $ a day" in said["sidecars"]
    assert "budget_usd_per_day" in said["sidecars"]
    assert title == "◆ Status"


def test_a_receiver_that_cannot_be_told_and_a_held_back_heartbeat_are_broken(reader):
    failing = ReceiverState(
        name="pager", failing=True, waiting=3, waiting_since_s=NOW - 900, detail="HTTP 500"
    )

    said, title = look(reader, Told(heartbeat="held back", receivers=[failing]))

    assert "3 wait, the oldest for 15 min" in said["alerting"]
    assert "test-receiver --receiver pager" in said["alerting"]
    assert "2 broken" in said["state"]
    assert title == "▲ Status"


def test_a_missing_heartbeat_is_no_alarm_but_said(reader):
    said, _ = look(reader, Told(heartbeat=None))

    assert "nobody notices when Stagewatch itself stops" in said["alerting"]
    assert "Stagewatch is well." in said["state"]


@pytest.mark.parametrize(
    ("reason", "number", "state"),
    [("too_large", 120.0, "state-ticket"), ("overloaded", 1.0, "state-healthy")],
)
def test_refused_exports_are_told_by_reason(reader, reason, number, state):
    counted = [
        (f"{OURS}exports_total", {}, 4000.0),
        (f"{OURS}refused_exports_total", {"reason": reason}, number),
        (f"{OURS}stored_spans_total", {}, 100.0),
        (f"{OURS}late_spans_total", {}, 5.0),
    ]

    said, _ = look(reader, Told(heartbeat="", counted=counted))

    assert f"Exports refused: {reason.replace('_', ' ')}" in said["ingest"]
    assert state in said["ingest"]
    assert "5, 5 %" in said["ingest"]


def test_a_full_register_of_series_and_a_full_disk_are_told(reader):
    tight = Limits(series=2, lateness_s=1, requests_kept_s=60, tiers_kept_s={})

    said, _ = look(reader, Told(limits=tight, disk_bytes=10**11, disk_free_bytes=10**9))

    assert "collector.max_series" in said["store"]
    assert "give it a larger disk" in said["store"]


def test_services_that_fell_silent_are_not_observed(reader):
    said, _ = look(reader, Told(), now_s=NOW + 900)

    assert "state-not-observed" in said["services"]
    assert "15 min" in said["services"]


def test_an_evaluation_that_stands_still_is_broken(reader):
    said, _ = look(reader, Told(), now_s=NOW + 900)

    assert "15 min behind" in said["alerting"]
    assert "/readyz" in said["alerting"]


def test_without_a_store_the_page_says_so_and_the_rest_is_told(tmp_path):
    open_store(tmp_path).close()
    reader = StoreReader(tmp_path, now=lambda: float(NOW))
    reader.health()
    file_of(tmp_path).write_bytes(b"no database at all" * 1000)
    again = StoreReader(tmp_path, now=lambda: float(NOW))

    said, title = look(again, Told(heartbeat=""))
    reader.close()
    again.close()

    assert "cannot be read" in said["ingest"]
    assert "Check that the file is a Stagewatch store" in said["services"]
    assert "Evaluation" in said["alerting"]
    assert title == "▲ Status"


def test_what_another_process_would_know_is_not_known_here(reader):
    said, _ = look(reader, None)

    assert "not known here" in said["ingest"]
    assert "not known here" in said["store"]


def test_lines_stand_worst_first():
    states = (State.HEALTHY, State.PAGE, State.NO_TRAFFIC, State.TICKET)
    lines = [Health(what=str(each), state=each, now="") for each in states]

    assert [each.state for each in worst_first(lines)] == sorted(states, key=list(State).index)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (2048, "2 KiB"), (5 << 20, "5 MiB"), (3 << 40, "3 TiB")]
)
def test_sizes_have_the_unit_that_suits(size, text):
    assert bytes_text(size) == text
