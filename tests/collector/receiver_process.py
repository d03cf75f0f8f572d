"""A collector's receivers and store as a process of their own; ends when its input ends.

Prints its two ports as one line of JSON. Every refusal is logged, none is left out.
"""

import json
import sys
from pathlib import Path

from collector import log
from collector.grpc_server import serve
from collector.own_metrics import OwnMetrics
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from tests.collector.serving import app_of, http_server

__all__ = ["main"]


def main(folder, settings_json):
    log.to_stderr()
    every = log.RefusalLog(interval_s=0)
    settings = CollectorSettings.model_validate_json(settings_json)
    metrics = OwnMetrics(version="test")
    with Writer(open_store(Path(folder)), settings) as writer:
        metrics.watch(writer.counts)
        app = app_of(writer, metrics, problem=writer.problem, log=every, **settings.model_dump())
        grpc_server = serve(writer, settings, metrics, log=every)
        with http_server(app) as url:
            print(json.dumps({"http": url, "grpc": f"127.0.0.1:{grpc_server.port}"}), flush=True)  # noqa: T201
            sys.stdin.read()
        grpc_server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
