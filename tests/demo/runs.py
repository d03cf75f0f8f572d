"""Runs of the pure fleet that several tests look at; each is simulated once."""

from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache

from stagewatch.demo.fleet import Fleet
from stagewatch.demo.incidents import incident
from stagewatch.demo.settings import FleetSettings
from stagewatch.demo.spans import ClientSpan, EngineSpan

__all__ = ["STARTED_AT_NS", "Run", "run"]

STARTED_AT_NS = 1_800_000_000_000_000_000


@dataclass
class Run:
    """A fleet after some time, and every span it sent."""

    fleet: Fleet
    spans: list = field(default_factory=list)

    @property
    def engine_spans(self):
        return [span for span in self.spans if isinstance(span, EngineSpan)]

    @property
    def client_spans(self):
        return [span for span in self.spans if isinstance(span, ClientSpan)]

    def of(self, replica):
        """The spans of one replica, in the order in which it sent them."""
        return [span for span in self.engine_spans if span.replica.name == replica]

    def of_pool(self, pool, from_s=0.0, to_s=float("inf")):
        """The spans of one pool that arrived in this time."""
        return [
            span
            for span in self.engine_spans
            if span.replica.pool == pool and from_s <= since_s(span.start_at_ns) < to_s
        ]

    def server_ttft_s(self, from_s=0.0, to_s=float("inf")):
        """First tokens of the disaggregated assistant: arrival at prefill to decode's first token."""
        legs = defaultdict(dict)
        for span in self.engine_spans:
            legs[span.trace_id][span.replica.role] = span
        return [
            (two["decode"].start_at_ns - two["prefill"].start_at_ns) / 1e9 + two["decode"].ttft_s
            for two in legs.values()
            if "decode" in two and from_s <= since_s(two["prefill"].start_at_ns) < to_s
        ]


def since_s(at_ns):
    return (at_ns - STARTED_AT_NS) / 1e9


@cache
def run(duration_s, name="none", *, drained_every_s=1.0, **changes):
    """The fleet after `duration_s`; the same arguments give the same run."""
    settings = FleetSettings(incident=name, **changes)
    found = Run(Fleet(settings, started_at_ns=STARTED_AT_NS, incident=incident(name)))
    for step in range(round(duration_s / drained_every_s)):
        found.fleet.advance((step + 1) * drained_every_s)
        found.spans.extend(found.fleet.drain())
    return found
