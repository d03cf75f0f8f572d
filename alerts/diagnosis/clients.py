"""What users and probes see as signals: regions, hops, refusals, their own first and next tokens."""

from __future__ import annotations

from alerts.diagnosis import readings
from alerts.diagnosis.case import Case
from alerts.diagnosis.signals import Signal
from collector.query import Selection
from domain.labels import value_of

__all__ = ["ask_clients", "ask_probes", "ask_reported"]

_REFUSED = ("http_429", "throttled")


def ask_clients(case: Case) -> None:
    """How long users waited, by region and against the engines."""
    told, regions = readings.of_clients(case.reader, case.where, case.now)
    case.numbers |= told
    if regions:
        case.places[Signal.NETWORK_BY_REGION] = regions
    if regions and case.looked.before is not None:
        _, then = readings.of_clients(case.reader, case.where, case.looked.before)
        case.places_before[Signal.NETWORK_BY_REGION] = then


def ask_probes(case: Case) -> None:
    """Whether answers arrive in lumps, and how often a probe was refused for load."""
    asked = case.selection(("region",))
    if lumps := case.reader.numbers("buffering", asked):
        case.places[Signal.PROBE_LUMPS] = {
            value_of(each.labels, "region") or "the probe": each.points[-1].last for each in lumps
        }
    probes = {
        value_of(each.labels, "reason"): sum(point.value for point in each.points)
        for each in case.reader.numbers("probes", case.selection(("reason",)))
    }
    if (sent := sum(probes.values())) > 0 and Signal.QUOTA_SHARE not in case.numbers:
        case.put(Signal.QUOTA_SHARE, sum(probes.get(name, 0.0) for name in _REFUSED) / sent)


def ask_reported(case: Case) -> None:
    """What only somebody on the way can measure, and pushed under our names."""
    hops = case.gauge("first_chunk_share", by="node")
    if hops:
        case.places[Signal.HOPS] = dict(sorted(hops.items()))
    for metric, signal in (
        ("chunks_per_answer", Signal.CHUNKS),
        ("late_byte_rate", Signal.BYTE_RATE),
    ):
        asked = Selection(window=case.now, where=case.where)
        for each in case.reader.numbers(metric, asked)[:1]:
            case.put(signal, each.points[-1].last)
