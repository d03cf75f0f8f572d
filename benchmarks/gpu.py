"""Eight GPUs on the stand-in for the driver's library: reading, showing, memory and start.

The floor of a reading is the bindings alone: the same calls of `pynvml`, their answers thrown away.
The scene is GPU 7 hung, GPU 5 lost and GPU 4 in MIG.
"""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from exporters.gpu.board import Board
from exporters.gpu.nvml import Nvml
from exporters.gpu.run import Sidecar
from tests.exporters.gpu.watching import watching
from tests.fake_nvml.library import FakeNvml

__all__ = ["main"]

READ_BAR_MS = 10.0
SCRAPE_BAR_MS = 50.0
PAGE_BAR_MS = 1.0
MEMORY_BAR_MB = 60.0
START_BAR_S = 1.5
_ROUNDS = 30
_STARTS = 3
_CALLS = (
    ("nvmlDeviceGetUtilizationRates",),
    ("nvmlDeviceGetClockInfo", 1),
    ("nvmlDeviceGetClockInfo", 2),
    ("nvmlDeviceGetCurrentClocksEventReasons",),
    ("nvmlDeviceGetPowerUsage",),
    ("nvmlDeviceGetTotalEnergyConsumption",),
    ("nvmlDeviceGetTemperatureV", 0),
    ("nvmlDeviceGetMarginTemperature",),
    ("nvmlDeviceGetPerformanceState",),
    ("nvmlDeviceGetMigMode",),
    ("nvmlDeviceGetComputeRunningProcesses_v3",),
    ("nvmlDeviceGetMPSComputeRunningProcesses_v3",),
)
_FIELDS = [74, 76, 269, 270, 271, 82, 197, 198, (138, 0xFFFFFFFF), (139, 0xFFFFFFFF), 230]


def main() -> int:
    """1 when a bar is missed."""
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        fake = FakeNvml(folder)
        missed += _reading(fake)
        missed += _scene(fake)
        missed += _process(fake, Path(folder))
    return 1 if missed else 0


def _reading(fake: Any) -> int:
    os.environ.update(fake.env())
    nvml = Nvml()
    nvml.raw.nvmlLib = ctypes.CDLL(str(fake.library))
    nvml.ask("nvmlInit")
    boards = [Board(nvml, fake.uuid(gpu)) for gpu in range(8)]
    handles = [nvml.ask("nvmlDeviceGetHandleByUUID", fake.uuid(gpu)) for gpu in range(8)]

    def read() -> None:
        for board in boards:
            assert board.read()["levels"]

    def bindings() -> None:
        for handle in handles:
            for call, *arguments in _CALLS:
                getattr(nvml.raw, call)(handle, *arguments)
            nvml.raw.nvmlDeviceGetMemoryInfo(handle, nvml.raw.nvmlMemory_v2)
            nvml.raw.nvmlDeviceGetFieldValues(handle, _FIELDS)

    read()
    ours, floor = [], []
    for _ in range(_ROUNDS):  # in turns, so that a busy machine slows both
        ours.append(_cpu_ms(read))
        floor.append(_cpu_ms(bindings))
    ratio = median(mine / least for mine, least in zip(ours, floor, strict=True))
    print(f"{'':36} {ratio:8.2f} x the bindings alone ({median(floor):.1f} ms)")
    return _told("8 GPUs read, CPU", median(ours), READ_BAR_MS, "ms")


def _scene(fake: Any) -> int:
    with watching(fake) as watch:
        watch.wait_until_read()
        fake.enable_mig(4)
        fake.set(5, lost=1)
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": -1})
        watch.wait_for(lambda: watch.down() == {fake.uuid(5): "gpu_lost", fake.uuid(7): "hung"})
        sidecar: Sidecar = watch.sidecar
        url = f"http://127.0.0.1:{sidecar.port}/metrics"
        urllib.request.urlopen(url).read()
        scrapes = [_wall_ms(lambda: urllib.request.urlopen(url).read()) for _ in range(_ROUNDS)]
        pages = [_wall_ms(sidecar.metrics) for _ in range(_ROUNDS)]
        fake.disable_mig(4)
        fake.set(5, lost=None)
        fake.set(7, **{"latency_ms.DeviceGetPowerUsage": None})
        watch.wait_until_read()
    missed = _told("scrape: hung, lost and MIG, worst", max(scrapes), SCRAPE_BAR_MS, "ms")
    return missed + _told("/metrics put together", median(pages), PAGE_BAR_MS, "ms")


def _process(fake: Any, folder: Path) -> int:
    """The best start of three, and the most that both processes held."""
    starts_s, held_mb = zip(*(_command(fake, folder) for _ in range(_STARTS)), strict=True)
    missed = _told("start to first page with 8 GPUs", min(starts_s), START_BAR_S, "s")
    return missed + _told("RSS of both processes", max(held_mb), MEMORY_BAR_MB, "MB")


def _command(fake: Any, folder: Path) -> tuple[float, float]:
    """The real command: until its page has all GPUs, and what both of its processes hold."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    file = folder / "stagewatch.yaml"
    file.write_text(
        f"store: {{data_dir: {folder / 'data'}}}\n"
        f"exporters: {{gpu: {{listen_port: {port}, endpoint: 'http://127.0.0.1:9'}}}}"
    )
    command = [sys.executable, "-m", "stagewatch", "exporter", "gpu", "--config", str(file)]
    began_s = time.perf_counter()
    (folder / "click.py").write_text("raise ImportError('only the lint tools bring it')\n")
    # why: with it httpx loads its command line, 5 MB that no installation of [gpu] has
    environment = {**os.environ, **fake.env(), "PYTHONPATH": str(folder)}
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, env=environment, stderr=subprocess.DEVNULL
    )
    try:
        while _page(port).count(b"\nstagewatch_gpu_power_watts{") < 8:
            time.sleep(0.005)
        started_s = time.perf_counter() - began_s
        time.sleep(12)  # until an export was made
        me = psutil.Process(process.pid)
        held = sum(each.memory_info().rss for each in (me, *me.children())) / 1e6
    finally:
        process.terminate()
        process.wait(10)
    return started_s, held


def _page(port: int) -> bytes:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            return bytes(page.read())
    except (urllib.error.URLError, ConnectionError):
        return b""


def _cpu_ms(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return (time.process_time() - began_s) * 1e3


def _wall_ms(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return (time.perf_counter() - began_s) * 1e3


def _told(name: str, value: float, bar: float, unit: str) -> int:
    verdict = "ok" if value <= bar else "MISSED"
    print(f"{name:36} {value:8.2f} {unit}  bar {bar:g} {unit}  {verdict}")
    return int(value > bar)


if __name__ == "__main__":
    sys.exit(main())
