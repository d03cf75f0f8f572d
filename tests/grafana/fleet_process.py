"""Everything that the dashboards show, for half a minute: demo, sidecars, GPUs, probes, AWS, trouble."""

import math
import socket
import threading
import time
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

from exporters.cloudwatch.run import run as run_cloudwatch
from exporters.engine.run import run as run_engine
from exporters.engine.settings import EngineSettings
from exporters.probe.run import run as run_probe
from exporters.probe.settings import ProbeSettings
from tests.e2e.prometheus_process import Prometheus
from tests.e2e.running import Stagewatch
from tests.exporters.cloudwatch.polling import BEDROCK, MODEL, SAGEMAKER, VARIANT, settings_of
from tests.exporters.gpu.watching import watching
from tests.exporters.probe.asking import target_of
from tests.exporters.probe.streaming_server import StreamingServer
from tests.fake_cloudwatch.server import fake_cloudwatch
from tests.fake_nvml.library import FakeNvml
from tests.grafana.expressions import answer
from tests.paths import ROOT

__all__ = ["scraped"]

_LAST_TO_COME = (
    'rate(stagewatch_service_requests_total{outcome="cancelled"}[20s])',
    'stagewatch_latency_quantile_seconds{latency="itl",job="stagewatch"}',
    "rate(stagewatch_probes_total[20s])",
    "rate(stagewatch_cloudwatch_points_total[20s])",
    "stagewatch_gpu_xid_errors_total",
    'stagewatch_conditions_open{condition="engine stalled"}',
    "stagewatch_endpoint_latency_seconds",
    "stagewatch_endpoint_level",
    "rate(stagewatch_failed_scrapes_total[20s])",
    "rate(stagewatch_exports_dropped_total[20s])",
)


@contextmanager
def scraped(folder, seconds):
    """A Prometheus that has scraped all of it until the rarest was there, or for so long."""
    with ExitStack() as stack:
        demo, otlp = _demo(stack, folder / "demo")
        targets = {
            "gpu": _gpus(stack, folder / "gpu"),
            "probe": _probes(stack, folder / "probe"),
            "cloudwatch": _cloudwatch(stack, folder / "cloudwatch", otlp),
            "night": _night(stack),
            "trouble": _trouble(stack, folder / "trouble"),
            **demo,
        }
        addresses = {job: [f"127.0.0.1:{port}"] for job, port in targets.items()}
        prometheus = stack.enter_context(
            Prometheus(
                folder / "prometheus",
                lambda _: addresses,
                options=("--enable-feature=exemplar-storage",),
            )
        )
        prometheus.collectors_page = f"{otlp}/metrics"
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s and not _is_whole(prometheus):
            time.sleep(1)
        yield prometheus


def _is_whole(prometheus):
    return all(answer(prometheus, "query", query=each)["result"] for each in _LAST_TO_COME)


def _demo(stack, folder):
    """An engine stands still after a moment; the summary is that of the pages."""
    side = _free_port()
    demo = stack.enter_context(
        Stagewatch(
            *("demo", "--data-dir", str(folder), "--sidecar-port", str(side)),
            *("--incident", "stall", "--incident-after", "4"),
            STAGEWATCH_SUMMARY__REFRESH_S="2",
            STAGEWATCH_SUMMARY__WINDOW_S="60",
        )
    )
    refused = httpx.post(f"{demo.otlp_url}/v1/traces", content=b"no export")
    assert refused.status_code == 415
    pages = int(demo.pages_url.rpartition(":")[2])
    return {"sidecar": side, "stagewatch": pages}, demo.otlp_url


def _gpus(stack, folder):
    folder.mkdir()
    fake = FakeNvml(folder, "h100", 8)
    watch = stack.enter_context(watching(fake))
    watch.wait_until_read()
    fake.event(1, 79)
    return watch.sidecar.port


def _probes(stack, folder):
    server = stack.enter_context(StreamingServer(tokens=10))
    settings = ProbeSettings(
        targets=[
            target_of(
                server.url,
                handshakes=1,
                name="edge",
                input_usd_per_million=1.0,
                output_usd_per_million=4.0,
            )
        ],
        interval_s=2.0,
        endpoint=None,
        spool_dir=folder / "spool",
        state_file=folder / "probe.json",
        listen_port=0,
    )
    return _in_thread(stack, run_probe, settings)


def _cloudwatch(stack, folder, otlp):
    """What it reads goes to the collector of the demo, which tells of it once it has settled."""
    server = stack.enter_context(fake_cloudwatch())
    minute = math.floor(time.time() / 60) * 60
    for ago in range(1, 11):
        at_s = minute - 60 * ago
        server.account.put("AWS/SageMaker", "Invocations", VARIANT, at_s, [1.0] * 3)
        server.account.put("AWS/SageMaker", "ModelLatency", VARIANT, at_s, [2e6, 3e6, 12e6])
        server.account.put("/aws/sagemaker/Endpoints", "GPUUtilization", VARIANT, at_s, [240.0])
        server.account.put("AWS/Bedrock", "TimeToFirstToken", MODEL, at_s, [400.0])
        server.account.put("AWS/Bedrock", "Invocations", MODEL, at_s, [1.0])
        server.account.put("AWS/Bedrock", "InvocationThrottles", MODEL, at_s, [1.0])
        server.account.put("AWS/Bedrock", "OutputTokenCount", MODEL, at_s, [120.0])
    settings = settings_of(
        SAGEMAKER,
        BEDROCK,
        url=server.url,
        scope={"budget_usd_per_day": 1.0},
        endpoint=otlp,
        spool_dir=folder / "spool",
        listen_port=0,
    )
    return _in_thread(stack, run_cloudwatch, settings)


def _night(stack):
    """The reviewed summary of a bad night: in a quarter of a minute no promise is broken."""
    return _answering(stack, 200, (ROOT / "tests" / "golden" / "summary-page.txt").read_bytes())


def _trouble(stack, folder):
    """A sidecar whose engine is gone and whose collector refuses what it sends."""
    settings = EngineSettings(
        targets=[{"url": f"http://127.0.0.1:{_free_port()}", "service": "gone"}],
        endpoint=f"http://127.0.0.1:{_answering(stack, 400, b'')}",
        spool_dir=folder / "spool",
        listen_port=0,
    )
    return _in_thread(stack, run_engine, settings)


def _answering(stack, status, body):
    """The port of a server that answers everything so."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self):
            self.do_GET()

        def log_message(self, *_):
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    stack.callback(thread.join)
    stack.callback(server.server_close)
    stack.callback(server.shutdown)
    return server.server_port


def _in_thread(stack, run, settings):
    """A sidecar in this process; the port of its page."""
    stop, up, ports = threading.Event(), threading.Event(), []

    def started(port):
        ports.append(port)
        up.set()

    thread = threading.Thread(target=run, args=(settings, stop), kwargs={"started": started})
    thread.start()
    stack.callback(thread.join, 20)
    stack.callback(stop.set)
    assert up.wait(20)
    return ports[0]


def _free_port():
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
