"""Boards, a sidecar that watches them in this process, and what its page says."""

import ctypes
import itertools
import os
import shutil
import threading
import time
from contextlib import contextmanager

from prometheus_client.parser import text_string_to_metric_families

from exporters.gpu.board import Board
from exporters.gpu.nvml import Nvml
from exporters.gpu.run import run
from exporters.gpu.settings import GpuSettings

_NUMBERS = itertools.count()

__all__ = ["Watch", "board", "environment", "loaded", "samples", "watching"]


@contextmanager
def environment(fake):
    """Processes started inside, and the library in this one, see these boards."""
    before = {name: os.environ.get(name) for name in fake.env()}
    os.environ.update(fake.env())
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def loaded(fake):
    """The real bindings in this process, on these boards."""
    with environment(fake):
        nvml = Nvml()
        # why a copy: another file is another library, whose counters begin anew
        own = shutil.copy(fake.library, fake.state_file.with_suffix(f".{next(_NUMBERS)}.so"))
        nvml.raw.nvmlLib = ctypes.CDLL(str(own))
        nvml.raw._nvmlGetFunctionPointer_cache.clear()
        nvml.ask("nvmlInit")
        try:
            yield nvml
        finally:
            fake.set(epoch=None, init_err=None)
            while not nvml.raw._nvmlGetFunctionPointer("nvmlShutdown")():
                pass
            nvml.raw.nvmlLib = None
            nvml.raw._nvmlGetFunctionPointer_cache.clear()


@contextmanager
def board(fake, gpu=0, **clock):
    """One board of them, asked in this process."""
    with loaded(fake) as nvml:
        yield Board(nvml, fake.uuid(gpu), **clock)


def samples(text):
    """By (name, labels), as Prometheus's own parser reads them."""
    return {
        (sample.name.removeprefix("stagewatch_"), frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


class Watch:
    """A sidecar in a thread."""

    def __init__(self, fake, **settings):
        defaults = {
            "endpoint": None,
            "spool_dir": fake.state_file.parent / "spool",
            "listen_port": 0,
            "pod_resources": "/nonexistent",
        }
        self.plan = GpuSettings(**{**defaults, **settings}).plan()
        self.fake = fake
        self.sidecar = None
        self.stop, self._ready, self.failure = threading.Event(), threading.Event(), None
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            run(self.plan, self.stop, started=self._started)
        except BaseException as error:
            self.failure = error
            raise
        finally:
            self._ready.set()

    def _started(self, sidecar):
        self.sidecar = sidecar
        self._ready.set()

    def start(self):
        self._thread.start()
        assert self._ready.wait(20)

    def end(self):
        self.stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()

    @property
    def text(self):
        return self.sidecar.metrics()

    def now(self):
        return samples(self.text)

    def value(self, name, **labels):
        """One sample, None where there is none."""
        return self.now().get((name, frozenset(labels.items())))

    def of(self, gpu, name, **labels):
        return self.value(name, gpu_uuid=self.fake.uuid(gpu), **labels)

    def all(self, name):
        """Every sample of one family: labels as a dict, value."""
        return [(dict(labels), value) for (own, labels), value in self.now().items() if own == name]

    def down(self):
        """Reason by GPU of those that are not up."""
        return {labels["gpu_uuid"]: labels["reason"] for labels, _ in self.all("gpu_down")}

    def wait_for(self, condition, seconds=20):
        end = time.monotonic() + seconds
        while not (found := condition()):
            assert time.monotonic() < end, f"it never came:\n{self.text}"
            time.sleep(0.02)
        return found

    def wait_until_read(self, count=8):
        self.wait_for(lambda: len(self.all("gpu_temperature_celsius")) == count)


@contextmanager
def watching(fake, **settings):
    with environment(fake):
        watch = Watch(fake, **settings)
        watch.start()
        try:
            yield watch
        finally:
            watch.end()
