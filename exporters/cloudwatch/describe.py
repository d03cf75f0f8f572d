"""What a person is told: what polling will cost, and what one round gave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from domain.endpoint import EndpointPoint, PointState
from domain.endpoint_catalogue import metric_of, of_kind
from exporters.cloudwatch.asked import Asked
from exporters.cloudwatch.discovery import Discovered, namespaces, wanted
from exporters.cloudwatch.plan import planned
from exporters.cloudwatch.poller import Poll
from exporters.cloudwatch.settings import CloudWatchSettings, ScopeSettings

__all__ = ["describe_plan", "describe_poll"]

_SHARES = ((0.0, "idle"), (0.5, "half the time"), (1.0, "always"))
_DAYS = 30


def describe_plan(settings: CloudWatchSettings) -> str:
    """Calls per hour and dollars per month, before anything is asked of AWS."""
    return "\n".join(line for scope in settings.scopes for line in _plan(settings, scope)) + "\n"


def _plan(settings: CloudWatchSettings, scope: ScopeSettings) -> Iterator[str]:
    asked = wanted(scope, settings.thresholds_s, Discovered())
    endpoints = len({each.endpoint for each in asked})
    yield f"{scope.account} {scope.region}: {endpoints} endpoints, {len(asked)} series"
    yield "  traffic         calls/hour  metrics/hour  $/month"
    for share, name in _SHARES:
        plan = planned(asked, active_share=share)
        yield (
            f"  {name:14s}  {plan.calls_per_hour:10.0f}  {plan.metrics_per_hour:12.0f}"
            f"  {plan.usd_per_month:7.2f}"
        )
    by_service: defaultdict[str, list[Asked]] = defaultdict(list)
    for each in asked:
        by_service[each.service].append(each)
    for service, own in sorted(by_service.items()):
        usd = planned(own, active_share=0.5).usd_per_month
        yield f"  {service}: {len(own)} metrics, {usd:.2f} $ at half the time"
    if more := sum(len([row for row in of_kind(e.kind) if row.optional]) for e in scope.endpoints):
        yield f"  up to {more} optional metrics more, where ListMetrics has them"
    lists = len(namespaces(scope)) * 3600 / settings.discover_interval_s
    yield f"  {lists:.0f} list calls/hour at least (the first million a month are free)"
    if scope.discover:
        kinds = ", ".join(scope.discover)
        yield f"  not counted: endpoints yet to be discovered ({kinds})"
    if scope.promql:
        yield f"  {len(scope.promql) * 60} PromQL calls/hour, billed by the samples they scan"
    if scope.budget_usd_per_day is not None:
        most = scope.budget_usd_per_day * _DAYS
        yield f"  the budget allows {most:.2f} $ a month; cold metrics stop first"


def describe_poll(scope: ScopeSettings, done: Poll) -> str:
    """The newest period of every series, and what went wrong."""
    return "\n".join(_poll(scope, done)) + "\n"


def _poll(scope: ScopeSettings, done: Poll) -> Iterator[str]:
    yield f"{scope.account} {scope.region}: {len(done.points)} points in {done.calls} calls"
    newest: dict[tuple[str, str, str], EndpointPoint] = {}
    for point in sorted(done.points, key=lambda each: each.start_s):
        if point.state is PointState.VALUE:
            newest[point.service, point.key.namespace, point.key.name] = point
    for (service, _, name), point in sorted(newest.items()):
        settled = "settled" if point.settled_at_s is not None else "provisional"
        yield f"  {service:20s} {name:28s} {_statistics(point)} ({settled})"
    for text in (*done.notes, *done.failures):
        yield f"  ! {text}"


def _statistics(point: EndpointPoint) -> str:
    known = metric_of(point.key.namespace, point.key.name, dict(point.key.dimensions))
    unit = known[0].our_unit if known else ""
    return ", ".join(
        f"{name} {value:.6g}{_suffix(name, unit)}" for name, value in point.statistics.items()
    )


def _suffix(statistic: str, unit: str) -> str:
    if statistic.startswith("PR"):
        return " %"
    return "" if statistic == "SampleCount" or unit != "s" else " s"
