"""Engines as a sidecar tells of them, second by second, into a real store: levels and increments."""

import re
from contextlib import contextmanager

from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from collector.reader import StoreReader
from collector.settings import CollectorSettings
from collector.store import open_store
from collector.writer import Writer
from domain.metric import METRICS, Kind
from tests.collector.storing import gauge_of, metrics, sum_of
from tests.paths import RECORDED

__all__ = ["STALLED_AFTER_S", "START_S", "Sidecar", "hang", "sidecar"]

START_S = 1_795_946_400  # 2026-11-29T10:00:00Z
STALLED_AFTER_S = 5
_LINE = re.compile(r"t=(\d+) health=(\S+)/\S+ metrics=(\d+)/\S+ running,waiting,gen,ttft_n= ?(.*)")


class Sidecar:
    """Pushes readings of replicas at the seconds of an argument clock."""

    def __init__(self, writer, reader, path):
        self.writer = writer
        self.reader = reader
        self.path = path
        self.now_s = START_S

    def push(self, at_s, *, service="chat", replica="vllm-3", reason="", **values):
        """One reading: gauges by value, counters by what they grew in the last second."""
        self.now_s = at_s
        told = []
        for name, value in values.items():
            known = METRICS[name]
            metric = Metric(name=known.full_name, unit="1")
            labels = {"stagewatch.reason": reason} if reason and name in _REASONED else {}
            if known.kind is Kind.COUNTER:
                sum_of(metric, value, start_s=at_s - 1, end_s=at_s, **labels)
            else:
                gauge_of(metric, value, at_s=at_s, **labels)
            told.append(metric)
        outcome = self.writer.metrics(
            metrics(*told, **{"service.name": service, "service.instance.id": replica})
        )
        assert not outcome.rejected, outcome.message


_REASONED = (
    "up",
    "schema_drift",
    "suspect_families",
    "exports_dropped",
    "not_reported",
    "failed_scrapes",
)


@contextmanager
def sidecar(path):
    store = open_store(path)
    clock = {}
    try:
        with Writer(store, CollectorSettings(), now=lambda: clock["of"].now_s) as writer:
            reader = StoreReader(path, now=lambda: clock["of"].now_s)
            clock["of"] = Sidecar(writer, reader, path)
            yield clock["of"]
            reader.close()
    finally:
        store.close()


def hang():
    """The recorded hang as a sidecar tells of it: (t, values) each second."""
    before = {}
    still_since = None
    for line in (RECORDED / "vllm-hang" / "timeline.txt").read_text().splitlines():
        found = _LINE.match(line)
        if found is None:
            continue
        t = int(found[1])
        if found[3] != "200":
            before = {}
            yield t, {"up": 0, "failed_scrapes": 1, "reason": "refused"}
            continue
        running, waiting, tokens, answers = map(float, found[4].split()[:4])
        now = {"generation_tokens": tokens, "requests_started": answers}
        grown = {name: value - before.get(name, value) for name, value in now.items()}
        idle = not running + waiting
        moved = any(grown.values()) or idle
        still_since = None if moved else still_since if still_since is not None else t - 1
        before = now
        stalled = still_since is not None and t - still_since >= STALLED_AFTER_S
        levels = {"requests_running": running, "requests_waiting": waiting}
        yield t, {"up": 1, "engine_stalled": int(stalled), **levels, **grown}
