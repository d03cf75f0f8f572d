"""The real command in a process of its own, on ports nobody else has."""

import os
import re
import signal
import subprocess
import sys
import threading
import time

import httpx

from tests.paths import ROOT

__all__ = ["Stagewatch"]

_PAGES = re.compile(r"(?:pages|pages and API on) +(http://\S+)")
_OTLP = re.compile(r"OTLP +(?:on )?(http://\S+) \(HTTP\)")


class Stagewatch:
    """`stagewatch …` until the block ends; what it says is kept for the reader of a failure."""

    def __init__(self, *arguments, **environment):
        self.said = []
        self.pages_url = self.otlp_url = None
        free = {f"STAGEWATCH_COLLECTOR__OTLP_{way}_PORT": "0" for way in ("HTTP", "GRPC")}
        self._command = [sys.executable, "-m", "stagewatch", *arguments, "--port", "0"]
        self._environment = {**os.environ, **free, **environment}
        self._known = threading.Event()

    def __enter__(self):
        self.process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()
        assert self._known.wait(60), "".join(self.said)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stderr.close()

    def interrupt(self):
        """Ctrl-C; how many seconds until everything was over."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(30)
        return time.monotonic() - begun

    def get(self, path, **parameters):
        answer = httpx.get(self.pages_url + path, params=parameters, timeout=20)
        answer.raise_for_status()
        return answer.json()

    def eventually(self, question, *, within_s, what):
        """The first answer that is true; asks four times a second."""
        until_s = time.monotonic() + within_s
        while time.monotonic() < until_s:
            assert self.process.poll() is None, "".join(self.said)
            if found := question():
                return found
            time.sleep(0.25)
        raise AssertionError(f"{what}: not within {within_s} s\n{''.join(self.said)}")

    def _listen(self):
        for line in self.process.stderr:
            self.said.append(line)
            if found := _PAGES.search(line):
                self.pages_url = found[1]
            if found := _OTLP.search(line):
                self.otlp_url = found[1]
            if self.pages_url and (self.otlp_url or "dashboard" in self._command):
                self._known.set()
        self._known.set()
