"""`/api/v1/gpus`: the answer as JSON, checked against what it declares."""

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import TypeAdapter

from collector.api import router
from collector.gpu_answer import GpusAnswer
from collector.reader import StoreReader
from tests.collector.gpu_fleet import NOW, WELL, fleet, gpu_id

CHAT = {"service": "chat", "replica": "r0", "role": "decode", "pool": "a"}


def held(ago_s):
    counters = {"gpu_throttle/hw_thermal": 5, "gpu_energy": 5000, "gpu_xid_errors/48": ago_s == 40}
    return WELL, counters, [CHAT]


def lost(_):
    return {"gpu_up": 0, "gpu_index": 1, "gpu_down/hung": 1}, {}, [CHAT]


def decoding(_):
    return {"requests_running": 3}, {"prompt_tokens": 10, "generation_tokens": 1000}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpus")
    fleet(folder, [held, lost], [(CHAT, decoding)], length_s=600)
    reader = StoreReader(folder, now=lambda: float(NOW))
    app = FastAPI()
    app.include_router(router(reader, now=lambda: float(NOW)))
    with TestClient(app) as client:
        yield client
    reader.close()


def ask(client, **asked):
    return client.get("/api/v1/gpus", params={"from": "now-10m", **asked})


def test_the_answer_is_what_it_declares(client):
    told = ask(client).json()

    assert TypeAdapter(GpusAnswer).validate_python(told, strict=True) == told
    assert told.keys() == {"from", "to", "gpus", "replicas", "pools", "nodes"}


def test_a_gpu_in_the_fixed_form(client):
    down, up = ask(client).json()["gpus"]

    assert (down["gpu_uuid"], down["up"], down["reason"]) == (gpu_id(1), False, "hung")
    assert down["power_w"] is None
    assert up["up"] is True
    assert up["throttle"]["seconds"] == {"hw_thermal": 150.0}
    assert up["throttle"]["share"]["hw_thermal"] == pytest.approx(0.25, rel=0.05)
    assert up["energy_j"] == 150_000
    assert up["xids"] == {"48": 1}
    assert up["serves"] == [CHAT]
    assert up["missing"] == []


def test_a_pool_with_a_lost_gpu_has_headroom_of_what_answers_and_no_price(client):
    (pool,) = ask(client).json()["pools"]

    assert (pool["gpus"], pool["replicas"]) == (1, 1)
    assert pool["headroom"]["resource"] == "power"
    assert pool["energy"] is None
    assert "gpu_energy and tokens at one time" in pool["missing"]


def test_an_engine_that_works_is_not_wedged(client):
    (replica,) = ask(client).json()["replicas"]

    assert (replica["state"], replica["gpus"]) == ("nothing", [gpu_id(0), gpu_id(1)])


def test_one_asks_for_some_and_a_wrong_question_says_the_way_out(client):
    assert [g["gpu_uuid"] for g in ask(client, where=f"gpu_uuid={gpu_id(0)}").json()["gpus"]] == [
        gpu_id(0)
    ]
    assert ask(client, where="nothing").status_code == 400
    assert ask(client, to="now-1d").json()["remedy"]
