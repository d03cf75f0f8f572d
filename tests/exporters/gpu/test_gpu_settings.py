"""Settings of the GPU exporter, and the plain plan that comes of them."""

import json
from dataclasses import asdict

import pytest
from pydantic import ValidationError

from exporters.gpu.orders import Orders
from exporters.gpu.plan import Plan
from exporters.gpu.settings import GpuSettings

TOKEN = "hush"  # noqa: S105 - nobody's
REPLICA = {"service": "chat", "replica": "r0"}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"interval_s": 5}, "at least twice interval_s"),
        ({"replace_after_s": 1}, "at least deadline_s"),
        ({"endpoint": "collector:4318"}, "no web address"),
        ({"endpoint": "http://me:secret@collector"}, "ends up in logs"),
        ({"interval_s": 0.1}, "greater than or equal to 1"),
        ({"replicas": [REPLICA]}, "either `gpus` or `process`"),
        ({"replicas": [{**REPLICA, "gpus": ["0"], "process": "x"}]}, "either `gpus` or `process`"),
        ({"replicas": [{**REPLICA, "process": "("}]}, "no regular expression"),
        ({"colour": "red"}, "Extra inputs"),
    ],
)
def test_what_can_never_work_is_refused(told, words):
    with pytest.raises(ValidationError, match=words):
        GpuSettings(**told)


def test_a_plan_survives_its_way_to_the_process_that_follows_it():
    told = GpuSettings(token=TOKEN, replicas=[{**REPLICA, "gpus": ["0", "MIG-1"], "pool": "p"}])

    plan = Plan.from_plain(json.loads(json.dumps(asdict(told.plan()), default=str)))

    assert plan == told.plan()
    assert plan.way.token == TOKEN
    assert plan.replicas[0].series == (("pool", "p"), ("replica", "r0"), ("service", "chat"))


def test_a_token_is_not_shown():
    assert TOKEN not in repr(GpuSettings(token=TOKEN))
    assert TOKEN not in repr(GpuSettings(token=TOKEN).plan())


@pytest.mark.parametrize(
    ("orders", "wanted"),
    [
        (Orders(), True),
        (Orders(skip=("GPU-a",)), False),
        (Orders(skip=("index-1",)), False),
        (Orders(only=("GPU-a",)), True),
        (Orders(only=("GPU-b", "index-2")), False),
    ],
)
def test_a_reading_process_takes_the_gpus_that_are_its(orders, wanted):
    assert orders.wants("GPU-a", "index-1") is wanted
