"""What a process says of itself to its status page, from its real parts."""

import pytest

from alerts.courier import Courier
from alerts.receivers.settings import WebhookSettings
from alerts.receivers.webhook import Webhook
from alerts.settings import AlertsSettings
from alerts.tables import open_state
from collector.own_metrics import OwnMetrics
from stagewatch.config import Config, StoreSettings
from stagewatch.evaluation import Evaluation
from stagewatch.vitals import ProcessWitness
from tests.alerts.outbox import START_S, Clock, put
from tests.alerts.pager import Pager


@pytest.fixture
def state(tmp_path):
    engine = open_state(f"sqlite:///{tmp_path / 'alerts.db'}")
    yield engine
    engine.dispose()


def vitals(tmp_path, state, *, evaluation=None, own=None, problem=None):
    config = Config(store=StoreSettings(data_dir=tmp_path))
    own = own or OwnMetrics()
    told = (lambda: problem, lambda: None)
    return ProcessWitness(config, own, state, evaluation, collects=True, told=told).vitals()


def test_what_was_refused_is_told_by_reason(tmp_path, state):
    own = OwnMetrics()
    own.exports.labels("http", "traces").inc(9)
    own.refused.labels("http", "traces", "too_large").inc(2)
    own.refused.labels("grpc", "metrics", "too_large").inc()

    found = vitals(tmp_path, state, own=own)

    assert found.total("stagewatch_collector_exports_total") == 9
    assert found.by("stagewatch_collector_refused_exports_total", "reason") == {"too_large": 3}
    assert found.total("stagewatch_collector_never_counted") is None


def test_a_receiver_that_answers_badly_is_failing_with_its_word(tmp_path, state):
    with Pager([(500, {})] * 9) as pager:
        hook = Webhook(WebhookSettings(name="dead", url=pager.url, allow_private=True))
        put(state, "dead")
        Clock().run([Courier(state, hook)], START_S + 2)

    (found,) = vitals(tmp_path, state).receivers

    assert (found.name, found.failing, found.waiting) == ("dead", True, 1)
    assert (found.detail, found.delivered_at_s) == ("HTTP 500", None)


def test_limits_disk_and_trouble_are_those_of_the_process(tmp_path, state):
    found = vitals(tmp_path, state, problem="the disk is full")

    assert found.limits.series == 20_000
    assert found.limits.tiers_kept_s[10] == 86_400
    assert 0 < found.disk_free_bytes <= found.disk_bytes
    assert found.problem == "the disk is full"
    assert (found.evaluates, found.leads, found.heartbeat) == (False, None, None)


@pytest.mark.parametrize(("heartbeat", "said"), [({}, None), ({"url": "https://x.example"}, "")])
def test_a_heartbeat_that_nobody_set_is_not_one_that_works(tmp_path, state, heartbeat, said):
    evaluation = Evaluation(AlertsSettings(heartbeat=heartbeat), state, tmp_path)

    with evaluation.open():
        found = vitals(tmp_path, state, evaluation=evaluation)

    assert (found.evaluates, found.leads, found.heartbeat) == (True, False, said)
