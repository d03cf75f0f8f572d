"""A real Prometheus in a process of its own, and an engine's page that it scrapes."""

import json
import shutil
import socket
import subprocess
import threading
import time

import httpx

from tests.collector.prometheus_wire import exposed_counter, exposed_native

__all__ = ["BINARY", "GrowingPage", "NativePage", "Prometheus"]

BINARY = shutil.which("prometheus")
_EDGES = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
_FAMILIES = (
    "vllm:time_to_first_token_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
)


class GrowingPage:
    """vLLM's counters, growing by themselves while they may; `requests` are those finished so far."""

    def __init__(self, rate_hz=40):
        self.requests = 1000
        self.growing = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._grow, args=(1 / rate_hz,))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()

    def _grow(self, every_s):
        while not self._over.wait(every_s):
            if self.growing.is_set():
                self.requests += 1

    def __call__(self):
        n = self.requests
        lines = []
        for place, family in enumerate(_FAMILIES):
            lines.append(f"# TYPE {family} histogram")
            of, below = len(_EDGES) + 1 + place, 0
            for number, edge in enumerate(_EDGES):
                below += (n + of - 1 - number) // of  # why in turns: no bucket may ever shrink
                lines.append(f'{family}_bucket{{le="{edge}",model_name="llama"}} {below}')
            lines += [
                f'{family}_bucket{{le="+Inf",model_name="llama"}} {n}',
                f'{family}_count{{model_name="llama"}} {n}',
                f'{family}_sum{{model_name="llama"}} {n * 1.5}',
            ]
        lines += [
            "# TYPE vllm:generation_tokens_total counter",
            f'vllm:generation_tokens_total{{model_name="llama"}} {n * 7}',
            f'vllm:request_success_total{{finished_reason="stop",model_name="llama"}} {n - n // 3}',
            f'vllm:request_success_total{{finished_reason="length",model_name="llama"}} {n // 3}',
            f'vllm:num_requests_running{{model_name="llama"}} {n % 5}',
            'vllm:num_requests_waiting{model_name="llama"} 0',
        ]
        return "\n".join((*lines, "")).encode()


class NativePage(GrowingPage):
    """The same with a native histogram, as only protobuf can tell it: values in two buckets."""

    SCHEMA = 3
    TYPE = (
        "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
        "encoding=delimited"
    )

    def __call__(self):
        n, labels = self.requests, (("model_name", "llama"),)
        low, high = n - n // 4, n // 4
        return exposed_native(
            "vllm:e2e_request_latency_seconds",
            labels,
            count=n,
            total=n * 0.4,
            schema=self.SCHEMA,
            positive=[(-16, 1), (14, 1)],  # (0.229, 0.25] and (0.841, 0.917]
            deltas=[low, high - low],
        ) + exposed_counter("vllm:generation_tokens_total", labels, float(n * 7))


class Prometheus:
    """It scrapes `targets` (job to addresses) and writes to `write_url` until the block ends."""

    def __init__(self, folder, targets, *, write_url=None, write=None, labels=None, options=()):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.url = f"http://{self.address}"
        config = {
            "global": {"scrape_interval": "1s", "external_labels": labels or {}},
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": addresses}]}
                for job, addresses in targets(self.address).items()
            ],
            "remote_write": [{"url": f"{write_url}/api/v1/write", **(write or {})}]
            if write_url
            else [],
        }
        self._folder, self._options = folder, options
        self._folder.mkdir(parents=True, exist_ok=True)
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML

    def __enter__(self):
        self._log = (self._folder / "log").open("w")
        self.process = subprocess.Popen(
            [
                *(BINARY, f"--config.file={self._folder / 'prometheus.yml'}"),
                *(f"--storage.tsdb.path={self._folder / 'data'}", "--log.level=warn"),
                *(f"--web.listen-address={self.address}", *self._options),
            ],
            stderr=self._log,
        )
        until_s = time.monotonic() + 60
        while time.monotonic() < until_s:
            try:
                if httpx.get(f"{self.url}/-/ready").status_code == 200:
                    return self
            except httpx.TransportError:
                time.sleep(0.1)
        raise AssertionError(self.said)

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)
        self._log.close()

    @property
    def said(self):
        return (self._folder / "log").read_text()

    def ask(self, query):
        answer = httpx.get(f"{self.url}/api/v1/query", params={"query": query})
        answer.raise_for_status()
        return answer.json()["data"]["result"]

    def grown(self, selector, window="1h"):
        """By how much raw samples grew from the first to the last that it has."""
        return sum(
            float(series["values"][-1][1]) - float(series["values"][0][1])
            for series in self.ask(f"{selector}[{window}]")
        )
