"""The GPUs page in a real Chromium, over a real store: with data, without, in trouble, with any name."""

import re
import socket
import threading
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI

from collector.reader import StoreReader
from collector.store import open_store
from dashboard.app import attach
from tests.collector.gpu_fleet import NOW, WELL, fleet
from tests.dashboard.browsing import looking, marks, overflow
from tests.dashboard.memory import MemoryLedger, MemoryReader
from tests.dashboard.worlds import WORLDS

pytestmark = marks

CHAT = {"service": "chat", "replica": "r0", "role": "decode", "pool": "a"}


@contextmanager
def serving(folder, at_s):
    reader = StoreReader(folder, now=lambda: float(at_s))
    api = FastAPI(docs_url=None, redoc_url=None)
    ledger = MemoryLedger(MemoryReader(WORLDS["empty"](at_s)))
    attach(api, reader, ledger, now=lambda: float(at_s))
    listener = socket.create_server(("127.0.0.1", 0))
    http = uvicorn.Server(uvicorn.Config(api, log_level="warning", lifespan="on"))
    thread = threading.Thread(target=http.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        http.should_exit = True
        thread.join(timeout=10)
        listener.close()
        reader.close()


def held(_):
    return WELL, {"gpu_throttle/hw_thermal": 8, "gpu_energy": 9000}, [CHAT]


def hung(ago_s):
    if ago_s > 200:
        return WELL, {}, [CHAT]
    return {"gpu_up": 0, "gpu_index": 1, "gpu_down/hung": 1}, {}, [CHAT]


def lost(ago_s):
    if ago_s > 200:
        return {**WELL, "gpu_index": 2}, {}, []
    return {"gpu_up": 0, "gpu_index": 2, "gpu_down/gpu_lost": 1}, {"gpu_xid_errors/79": 1}, []


def silent(ago_s):
    return ({**WELL, "gpu_index": 3}, {}, []) if ago_s > 200 else None


def decoding(_):
    return {"requests_running": 2, "kv_cache_usage": 0.3}, {"generation_tokens": 3000}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("gpus")
    fleet(path, [held, hung, lost, silent], [(CHAT, decoding)])
    return path


@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (360, "light")])
def test_trouble_stands_first_with_its_reason_and_nothing_old_is_shown(
    chromium, folder, width, scheme
):
    with (
        serving(folder, NOW) as url,
        looking(chromium, url, "/gpus", width=width, scheme=scheme) as page,
    ):
        rows = page.locator("section[aria-label=Now] tbody tr").all_inner_texts()
        down = page.locator("ul[aria-label='GPUs that do not answer'] li").all_inner_texts()

        assert page.locator(".headline").inner_text().startswith("▲\n1 of 4 GPUs answer")
        assert [re.search("hung|lost", each)[0] for each in down] == ["hung", "lost"]
        assert ["hung" in rows[0], "lost" in rows[1], "held down" in rows[2]] == [True] * 3
        assert "not observed" in rows[3]
        assert not any("500 W" in row for row in (rows[0], rows[1], rows[3]))
        assert overflow(page) == 0


def test_causes_pools_and_strips_are_drawn_and_said(chromium, folder):
    with serving(folder, NOW) as url, looking(chromium, url, "/gpus") as page:
        causes = page.locator("section[aria-label^='Held down'] .heat").first
        pools = page.locator("section[aria-label=Pools] tbody").inner_text()

        assert re.match(r"GPU 0: heat \(hardware\) 4\d", causes.get_attribute("aria-label"))
        assert causes.locator(".layer.held").count() == 1
        assert "power" in pools
        assert page.locator(".heat .layer.down").count() == 2
        assert "not observed" in page.locator(".heat").nth(3).get_attribute("aria-label")
        assert "XID 79" in page.locator("section[aria-label=Now]").inner_text()


def test_without_any_gpu_the_next_command_stands_there(chromium, tmp_path):
    open_store(tmp_path).close()

    with (
        serving(tmp_path, NOW) as url,
        looking(chromium, url, "/gpus", width=360, scheme="dark") as page,
    ):
        assert "stagewatch exporter gpu --once" in page.locator(".empty").inner_text()
        assert page.locator("section:visible").count() == 1
        assert overflow(page) == 0
