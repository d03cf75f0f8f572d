"""kill -9 while it writes: everything that was acknowledged is there, once, and the store goes on."""

import os
import signal
import subprocess
import sys

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collector.storing import distribution, legs_in, number, rows, writing
from tests.paths import ROOT

WRITER = """
import sys, threading
from pathlib import Path
from tests.collector import storing
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

lock = threading.Lock()
with storing.writing(Path(sys.argv[1])) as writer:
    def send(sender):
        number = sender * 1_000_000
        while True:
            number += 1
            at_s = storing.NOW_S - 600 + number % 1_000_000 / 100
            spans = [
                storing.span(number * 100 + k, end_s=at_s - 500, gen_ai__latency__e2e=1.0)
                for k in range(20)
            ]
            writer.traces(storing.traces(*spans))
            metric = Metric(name="stagewatch_generation_tokens_total")
            storing.sum_of(metric, 1, start_s=at_s - 0.01, end_s=at_s, model_name=str(sender))
            writer.metrics(storing.metrics(metric))
            with lock:
                print(number, flush=True)

    senders = [threading.Thread(target=send, args=(k,), daemon=True) for k in range(1, 4)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
"""


def killed(path, after):
    """The numbers acknowledged by a writer that is killed after so many of them."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    with process:
        acknowledged = [int(process.stdout.readline()) for _ in range(after)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
    complete = rest[: rest.rfind("\n") + 1]  # the last line may be cut
    assert process.returncode == -signal.SIGKILL
    return acknowledged + [int(line) for line in complete.split()]


@pytest.mark.parametrize("after", [1, 10, 60, 150])
def test_everything_acknowledged_before_a_kill_is_stored_once(tmp_path, after):
    acknowledged = killed(tmp_path, after)

    stored = [int.from_bytes(leg.trace_id, "big") for leg in legs_in(tmp_path)]
    assert len(stored) == len(set(stored))
    wanted = {number * 100 + k for number in acknowledged for k in range(20)}
    assert wanted <= set(stored)
    assert distribution(tmp_path, "e2e").n == len(stored)
    counted = number(tmp_path, "generation_tokens")[1]
    assert len(acknowledged) <= counted <= len(acknowledged) + 3
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]


def test_a_sender_that_was_not_answered_sends_again_and_nothing_counts_twice(tmp_path):
    acknowledged = killed(tmp_path, 30)
    from tests.collector import storing

    with writing(tmp_path) as writer:
        for sent in range(max(acknowledged) % 1_000_000 + 3):
            number_ = 1_000_000 + sent + 1
            at_s = storing.NOW_S - 600 + number_ % 1_000_000 / 100
            spans = [
                storing.span(number_ * 100 + k, end_s=at_s - 500, gen_ai__latency__e2e=1.0)
                for k in range(20)
            ]
            request = ExportTraceServiceRequest.FromString(
                storing.traces(*spans).SerializeToString()
            )
            assert writer.traces(request).rejected == 0
        writer.settle()

    stored = [int.from_bytes(leg.trace_id, "big") for leg in legs_in(tmp_path)]
    assert len(stored) == len(set(stored))
    assert distribution(tmp_path, "e2e", 86_400).n == len(stored)
