"""The ladder beside AIPerf on one server: what both measure must agree within 5 %.

Not part of `make bench`: AIPerf is a gigabyte of its own. `docs/load-test-an-endpoint.md` says how.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.exporters.probe.streaming_server import StreamingServer
from tests.paths import ROOT

__all__ = ["main"]

BAR = 0.05
PLANTED = {"concurrency": 4, "first_token_s": 0.4, "gap_s": 0.02}
# ours, theirs, their figure, factor to ours
SAME = (
    *((("latencies", "ttft", q), "time_to_first_token", q, 1e3) for q in ("p50", "p95", "p99")),
    (("latencies", "tpot", "p50"), "inter_token_latency", "p50", 1e3),
    (("latencies", "tpot", "p95"), "inter_token_latency", "p95", 1e3),
    *((("latencies", "e2e", q), "request_latency", q, 1e3) for q in ("p50", "p95", "p99")),
    (("rates", "tokens_hz"), "output_token_throughput", "avg", 1.0),
    (("rates", "requests_hz"), "request_throughput", "avg", 1.0),
)


def main(words: list[str] | None = None) -> int:
    told = _told(words)
    off = []
    with contextlib.ExitStack() as stack:
        if told.target is None:
            server = StreamingServer(**PLANTED, tokens=told.output_tokens)
            told.target = stack.enter_context(server).url
        print(f"{'c':>3}  {'figure':<14}{'ladder':>10}{'AIPerf':>10}{'apart':>9}")
        for concurrency in told.concurrency.split(","):
            with tempfile.TemporaryDirectory() as folder:
                ours, theirs = (
                    _ladder(told, concurrency, folder),
                    _aiperf(told, concurrency, folder),
                )
            off += list(_compared(concurrency, ours, theirs))
    print(f"bar: {BAR:.0%}; " + (f"missed by {', '.join(off)}" if off else "kept by all"))
    return 1 if off else 0


def _told(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aiperf", required=True, help="AIPerf's own environment, bin/aiperf")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer's folder")
    parser.add_argument("--target", help="default: a server of ours with planted delays")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--concurrency", default="1,4,8")
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=32)
    return parser.parse_args(words)


def _ladder(told: argparse.Namespace, concurrency: str, folder: str) -> dict[str, Any]:
    report = Path(folder) / "ladder.json"
    command = [sys.executable, "-m", "stagewatch", "probe", "ladder", "--target", told.target]
    command += ["--model", told.model, "--prompts", f"short={told.prompt_tokens}"]
    command += ["--output-tokens", str(told.output_tokens), "--requests", str(told.requests)]
    command += ["--concurrency", concurrency, "--loop", "closed", "--runs", "1"]
    command += ["--run-seconds", "600", "--out", str(report)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - our own
    (step,) = json.loads(report.read_text())["shapes"][0]["steps"]
    return dict(step)


def _aiperf(told: argparse.Namespace, concurrency: str, folder: str) -> dict[str, Any]:
    """Offline mode must be off, or it refuses a local folder; nothing is fetched either way."""
    offline = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
    environment = {name: value for name, value in os.environ.items() if name not in offline}
    command = [told.aiperf, "profile", "-m", told.model, "--tokenizer", told.tokenizer]
    command += ["--url", told.target, "--endpoint-type", "chat", "--streaming"]
    command += ["--concurrency", concurrency, "--request-count", str(told.requests)]
    command += ["--warmup-request-count", str(2 * int(concurrency))]
    command += ["--isl", str(told.prompt_tokens), "--isl-stddev", "0"]
    command += ["--osl", str(told.output_tokens), "--osl-stddev", "0", "--random-seed", "1"]
    command += ["--extra-inputs", "ignore_eos:true", "--use-server-token-count"]
    command += ["--workers-max", "1", "--ui-type", "none", "--output-artifact-dir", folder]
    subprocess.run(command, check=True, capture_output=True, env=environment)  # noqa: S603 - asked for
    return dict(json.loads((Path(folder) / "profile_export_aiperf.json").read_text()))


def _compared(concurrency: str, ours: dict[str, Any], theirs: dict[str, Any]) -> Iterator[str]:
    for path, name, quantile, factor in SAME:
        value: Any = ours
        for key in path:
            value = value[key]
        mine, other = value["median"] * factor, theirs[name][quantile]
        apart = mine / other - 1
        mark = "" if abs(apart) <= BAR else "  !"
        print(
            f"{concurrency:>3}  {' '.join(path[1:]):<14}{mine:>10.2f}{other:>10.2f}{apart:>+9.1%}{mark}"
        )
        if mark:
            yield f"{' '.join(path[1:])} at {concurrency}"


if __name__ == "__main__":
    sys.exit(main())
