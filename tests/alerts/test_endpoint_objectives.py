"""CW4 the whole way: nothing fires, and nothing resolves, on a count that may still change."""

from dataclasses import replace
from fractions import Fraction

import pytest

from alerts.definition import Definition
from alerts.evaluator import Evaluator
from alerts.incident import Event
from alerts.sql_ledger import SqlLedger
from alerts.standing_json import standing_json
from alerts.tables import open_state
from collector.reader import StoreReader
from domain.indicator import EndpointIndicator
from domain.objective import DAY_S, Objective
from tests.collector.endpoint_points import T0, point
from tests.collector.storing import writing

FAST = EndpointIndicator(service="sagemaker", metric="model_latency", threshold_s=Fraction(2))
PROMISE = Objective(
    name="chat answers", indicator=FAST, target=Fraction(99, 100), period_s=30 * DAY_S
)
SETTLE_S = 180


class Endpoint:
    """CloudWatch as a poller tells of it, minute by minute, and the evaluator that looks on."""

    def __init__(self, path, writer, state):
        self._writer, self._state = writer, state
        self.now_s = float(T0)
        self._reader = StoreReader(path, now=lambda: self.now_s)
        self._evaluator = Evaluator(self._reader, [Definition(objective=PROMISE)], state)
        self._evaluator.tick(self.now_s)

    def tell(self, minute, good_percent, *, settled, samples=100.0):
        start_s = T0 + 60 * minute
        fetched_s = float(start_s + 60 + (SETTLE_S if settled else 15))
        self.now_s = max(self.now_s, fetched_s)
        statistics = {"SampleCount": samples, "Sum": 50.0, "PR(:2)": good_percent}
        made = point(start_s, statistics=statistics, at_s=fetched_s)
        self._writer.endpoints([replace(made, settled_at_s=fetched_s if settled else None)])

    def events(self):
        changes = self._evaluator.tick(self.now_s)
        return [each.event for each in changes if each.incident.tier == "page"]

    def budget(self):
        return standing_json(SqlLedger(self._state).standings()[0])["budget"]

    def close(self):
        self._reader.close()


@pytest.fixture
def endpoint(tmp_path):
    state = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    with writing(tmp_path / "data", now=lambda: T0 + 36_000.0) as writer:
        found = Endpoint(tmp_path / "data", writer, state)
        yield found
        found.close()
    state.dispose()


def test_an_alert_neither_fires_nor_resolves_on_a_provisional_count(endpoint):
    said = []
    for minute in range(5):
        endpoint.tell(minute, 0.0, settled=False, samples=11.0)
        said += endpoint.events()
    assert said == []  # five minutes that look dreadful, none of them settled

    for minute in range(5):
        endpoint.tell(minute, 0.0, settled=True)
        said += endpoint.events()
    assert said == [Event.FIRING]

    for minute in range(5, 41):
        endpoint.tell(minute, 100.0, settled=False, samples=11.0)
        said += endpoint.events()
    assert said == [Event.FIRING]  # half an hour that looks well, none of them settled

    for minute in range(5, 41):
        endpoint.tell(minute, 100.0, settled=True)
        said += endpoint.events()
    assert said == [Event.FIRING, Event.RESOLVED]


def test_cw8_the_budget_counts_requests_where_shares_would_be_averaged_to_49_5_percent(endpoint):
    """1000 requests at 99 % and 10 at 0 %: 98.02 % were good, through store and evaluator."""
    for minute, good_percent, samples in ((0, 99.0, 1000.0), (1, 0.0, 10.0)):
        endpoint.tell(minute, good_percent, settled=True, samples=samples)
        endpoint.events()

    budget = endpoint.budget()
    assert (budget["spent_low"], budget["spent_high"], budget["total"]) == (20, 20, 1010)
    assert round(100 * (1 - budget["spent_low"] / budget["total"]), 2) == 98.02
