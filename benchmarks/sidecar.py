"""A sidecar over pages of 1 000 series every 10 s: CPU and memory against the bars of DESIGN 11.

The real process, pages over HTTP whose every counter moves, a spool on disk, a collector that
answers. Ten targets every second are measured for information.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import yaml

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parent.parent
_PAGE = _ROOT / "tests/recorded/vllm/overload/98-after.prom"
_SERIES = 1000
_CPU_BAR, _RSS_BAR_BYTES = 0.05, 80_000_000
_WARM_S, _MEASURED_S = 12.0, 40.0


class _World(ThreadingHTTPServer):
    """Engines that answer more requests between any two looks, and a collector that takes all."""

    daemon_threads = True

    def __init__(self, series: int) -> None:
        self.samples = _samples(series)
        self.looks = self.exports = 0
        world = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                world.looks += 1
                self._answer(_page(world.samples, world.looks))

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                world.exports += 1
                self._answer(b"")

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Nothing: only figures are printed."""

        super().__init__(("127.0.0.1", 0), Handler)


def _samples(series: int) -> list[tuple[str, float]]:
    """A real page's lines, again for other models until there are so many series."""
    lines = _PAGE.read_text().splitlines()
    plain = [line.rsplit(" ", 1) for line in lines if line and not line.startswith("#")]
    found: list[tuple[str, float]] = []
    while len(found) < series:
        model = f'model_name="tiny-{len(found)}"'
        found += [(name.replace('model_name="tiny"', model), float(value)) for name, value in plain]
    return found[:series]


def _page(samples: list[tuple[str, float]], looks: int) -> bytes:
    """Counts grow as those of the real page did, so that every family has something to tell."""
    return "".join(
        f"{name} {value * looks if '_bucket' in name or '_total' in name or '_count' in name or '_sum' in name else value!r}\n"
        for name, value in samples
    ).encode()


@contextmanager
def _sidecar(world: _World, targets: int, interval_s: float) -> Iterator[psutil.Process]:
    address = f"http://127.0.0.1:{world.server_port}"
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "targets": [
                {"url": f"{address}/{n}/metrics", "service": "chat", "replica": f"r{n}"}
                for n in range(targets)
            ],
            "interval_s": interval_s,
            "endpoint": address,
            "listen_port": 0,
            "spool_dir": folder,
        }
        config = Path(folder) / "stagewatch.yaml"
        config.write_text(yaml.safe_dump({"exporters": {"engine": settings}}))
        command = [sys.executable, "-m", "stagewatch", "exporter", "engine"]
        process = subprocess.Popen([*command, "--config", str(config)], cwd=_ROOT)  # noqa: S603
        try:
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(10)


def measure(*, targets: int, interval_s: float, series: int) -> tuple[float, int, int]:
    """Share of one core, bytes of memory, and exports meanwhile."""
    world = _World(series // targets)
    threading.Thread(target=world.serve_forever, daemon=True).start()
    with _sidecar(world, targets, interval_s) as process:
        time.sleep(_WARM_S)
        before, begun_s, exports = _cpu_s(process), time.monotonic(), world.exports
        time.sleep(_MEASURED_S)
        cpu = (_cpu_s(process) - before) / (time.monotonic() - begun_s)
        rss = process.memory_info().rss
        exports = world.exports - exports
    world.shutdown()
    return cpu, rss, exports


def _cpu_s(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


def main() -> int:
    cpu, rss, exports = measure(targets=2, interval_s=10, series=_SERIES)
    assert exports >= _MEASURED_S / 10
    ratios = Fraction(cpu / _CPU_BAR), Fraction(rss, _RSS_BAR_BYTES)
    print(
        f"1 000 series / 10 s     {cpu:6.2%} of a core = {float(ratios[0]):4.2f} of the bar, "
        f"{rss / 1e6:5.1f} MB = {float(ratios[1]):4.2f} of the bar"
    )
    cpu, rss, exports = measure(targets=10, interval_s=1, series=10 * _SERIES // 2)
    print(
        f"10 targets / 1 s, 5 000 series: {cpu:6.2%} of a core, {rss / 1e6:5.1f} MB, "
        f"{exports / _MEASURED_S:.1f} exports/s (no bar)"
    )
    return 1 if any(ratio > 1 for ratio in ratios) else 0


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", str(_ROOT))
    raise SystemExit(main())
