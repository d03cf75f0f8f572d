"""A newcomer's path as it is written: from the first command to a page on a promise, no step missing."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import httpx
import pytest

from tests.docs.reading import BLOCKS
from tests.exporters.fake_engine import serving
from tests.paths import RECORDED

pytestmark = pytest.mark.slow

STEPS = [block for block in BLOCKS if block.page == "docs/start.md" and block.kind == "sh"]
ASKED = [
    block for block in BLOCKS if block.page == "README.md" and "stagewatch query" in block.text
]
PAGES = sorted((RECORDED / "vllm" / "overload").glob("*.prom"))
TTFT = "/api/v1/quantile?metric=ttft&q=0.5&by=service&from=now-5m"
PAGE_WITHIN_S = 110
"""A minute that has begun, one whole minute, what comes late, and the tick."""


def replaying():
    """A real vLLM under load: each look finds the next of its recorded pages, then the last."""
    left = list(PAGES)

    def answer(request):
        body = (left.pop(0) if len(left) > 1 else left[0]).read_bytes()
        request.send_response(200)
        request.send_header("Content-Type", "text/plain; version=0.0.4")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    return answer


class Newcomer:
    """Somebody in an empty folder who types what stands there, on ports that nobody has."""

    def __init__(self, folder, engine_url):
        self.folder, self._engine_url, self._terminals = folder, engine_url, []
        binary = folder / ".venv" / "bin" / "stagewatch"
        binary.parent.mkdir(parents=True)
        binary.symlink_to(Path(sys.executable).with_name("stagewatch"))
        with socket.socket() as a, socket.socket() as b, socket.socket() as c, socket.socket() as d:
            for each in (a, b, c, d):
                each.bind(("127.0.0.1", 0))
            self.pages, self.http, self.grpc, self.own = (
                each.getsockname()[1] for each in (a, b, c, d)
            )
        self._environment = {
            **{name: value for name, value in os.environ.items() if "STAGEWATCH" not in name},
            "STAGEWATCH_COLLECTOR__OTLP_HTTP_PORT": str(self.http),
            "STAGEWATCH_COLLECTOR__OTLP_GRPC_PORT": str(self.grpc),
            "STAGEWATCH_URL": f"http://127.0.0.1:{self.pages}",
        }

    def _typed(self, text):
        """The same command, away from the ports that the machine of this test may use."""
        text = text.replace("http://engine:8000", self._engine_url)
        text = text.replace(" up ", f" up --port {self.pages} ")
        if "exporter" in text:
            text = f"{text.rstrip()} --endpoint http://127.0.0.1:{self.http}\n"
            text = text if "--once" in text else f"{text.rstrip()} --listen-port {self.own}\n"
        return text

    def types(self, block):
        """What a block says until its end."""
        done = subprocess.run(
            ["bash", "-e", "-c", self._typed(block.text)],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{block.place}: {done.stdout}{done.stderr}"
        return done.stdout

    def opens_a_terminal(self, block):
        """What goes on in the foreground, and what it has said so far."""
        (line,) = self._typed(block.text).strip().splitlines()
        said = self.folder / f"terminal-{len(self._terminals)}"
        with said.open("w") as out:
            running = subprocess.Popen(
                shlex.split(line),
                cwd=self.folder,
                env=self._environment,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self._terminals.append(running)
        return said

    def reads(self, path):
        """What the server answers, or nothing."""
        try:
            answer = httpx.get(f"http://127.0.0.1:{self.pages}{path}", timeout=5)
        except httpx.HTTPError:
            return ""
        return answer.text if answer.is_success else ""

    def waits(self, true, within_s, said):
        until_s = time.monotonic() + within_s
        while not (found := true()):
            assert time.monotonic() < until_s, said.read_text()
            time.sleep(0.5)
        return found

    def goes(self):
        for running in reversed(self._terminals):
            running.send_signal(signal.SIGINT)
        return [running.wait(30) for running in self._terminals]


@pytest.fixture
def newcomer(tmp_path):
    with serving(replaying()) as engine:
        somebody = Newcomer(tmp_path, engine.root)
        yield somebody
        somebody.goes()


def test_from_the_first_command_to_a_page_on_a_promise(newcomer):
    promise, up, once, watch, ask, alerts = STEPS

    assert "objectives: 2" in newcomer.types(promise)
    server = newcomer.opens_a_terminal(up)
    newcomer.waits(lambda: newcomer.reads("/readyz"), 60, server)
    assert "vllm" in newcomer.types(once).lower()
    sidecar = newcomer.opens_a_terminal(watch)
    newcomer.waits(lambda: "chat" in newcomer.reads(TTFT), 40, sidecar)
    assert "chat" in newcomer.types(ask)
    for block in ASKED:
        assert newcomer.types(block).strip()
    newcomer.waits(lambda: "see-a-page" in newcomer.reads("/api/v1/alerts"), PAGE_WITHIN_S, server)
    listed = newcomer.types(alerts).splitlines()

    (page,) = [line for line in listed if "see-a-page pages since" in line]
    assert "waited more than 1 ms for the first token" in page
    assert newcomer.goes() == [0, 0]


def test_the_steps_are_numbered_without_a_gap():
    page = (RECORDED.parent.parent / "docs" / "start.md").read_text()
    numbers = [int(line.partition(".")[0]) for line in page.splitlines() if line[:1].isdigit()]

    assert all(after == before + 1 for before, after in pairwise(numbers))
    assert numbers[0] == 1
