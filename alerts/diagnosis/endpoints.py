"""What a provider says of a managed endpoint as signals: throttles, its own tail, what runs there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from alerts.diagnosis.case import Case
from alerts.diagnosis.signals import Signal
from collector.query import Window
from domain.managed_endpoint import ManagedEndpoint, managed

__all__ = ["ask_endpoints", "ask_knee"]

_LATENCIES = ("model_latency", "e2e")
_MONTH_S = 30 * 86_400


def ask_endpoints(case: Case) -> None:
    """Throttles and latency of the endpoints behind a service; what AWS does not tell is absent."""
    told = managed(case.reader.endpoints(case.now, service=case.service))
    if not told:
        return
    throttles = [each.total("throttles") for each in told if "throttles" in each.by_metric]
    known = [each for each in throttles if each is not None]
    if known:
        case.put(Signal.QUOTA_COUNT, sum(known))
    case.put(Signal.PROVIDER_TAIL, max(_tails(told), default=None))
    if Signal.IN_FLIGHT not in case.numbers:
        inside = [_last(each.statistics("concurrent_requests")) for each in told]
        running = [each for each in inside if each is not None]
        case.put(Signal.IN_FLIGHT, sum(running) if running else None)


def _tails(told: Iterable[ManagedEndpoint]) -> Iterable[float]:
    """P99 over P50 of each endpoint, in the middle of its periods."""
    for each in told:
        for metric in _LATENCIES:
            ratios = sorted(
                period["p99"] / period["p50"]
                for period in each.statistics(metric)
                if period.get("p50", 0.0) > 0 and "p99" in period
            )
            if ratios:
                yield ratios[len(ratios) // 2]


def _last(periods: Iterable[Mapping[str, float]]) -> float | None:
    """The newest period's most, or its mean."""
    found = [each.get("Maximum", each.get("Average")) for each in periods]
    known = [each for each in found if each is not None]
    return known[-1] if known else None


def ask_knee(case: Case) -> None:
    """Where first tokens began to wait in the last ladder anybody climbed here."""
    until_s = case.now.until_s
    month = Window(since_s=max(until_s - _MONTH_S, 0), until_s=until_s)
    knees = case.gauge("concurrency_knee", month, by="service")
    case.put(Signal.PROVIDER_KNEE, max(knees.values(), default=None))
    if knees and Signal.IN_FLIGHT not in case.numbers:
        rate = case.numbers.get(Signal.RATE)
        stay_s = case.numbers.get(Signal.CLIENT_E2E_MEAN)
        if rate is not None and stay_s is not None:  # Little's law: in flight = rate x stay
            case.put(Signal.IN_FLIGHT, rate * stay_s)
