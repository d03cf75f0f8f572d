"""What a person is told: what polling will cost, and what one round gave."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from domain.endpoint import EndpointPoint, PointState
from domain.endpoint_catalogue import metric_of, of_kind
from domain.endpoint_metric import TIERS_S, Tier
from exporters.cloudwatch.asked import Asked
from exporters.cloudwatch.discovery import Discovered, namespaces, wanted
from exporters.cloudwatch.plan import planned
from exporters.cloudwatch.poller import Poll
from exporters.cloudwatch.settings import CloudWatchSettings, ScopeSettings

__all__ = ["describe_plan", "describe_poll"]

_SHARES = ((0.0, "never"), (0.5, "half the hours"), (1.0, "every hour"))
_DAYS = 30
_WIDEST = 40
_MINUTE_S = 60


def describe_plan(settings: CloudWatchSettings) -> str:
    """Calls per hour and dollars per month, before anything is asked of AWS."""
    plans = ["\n".join(_plan(settings, scope)) for scope in settings.scopes]
    return "\n\n".join(plans) + "\n"


def _plan(settings: CloudWatchSettings, scope: ScopeSettings) -> Iterator[str]:
    asked = wanted(scope, settings.thresholds_s, Discovered())
    endpoints = len({each.endpoint for each in asked})
    yield f"{scope.account} {scope.region}: {_many(endpoints, 'endpoint')}, {len(asked)} metrics"
    if asked:
        yield ""
        yield from _table(asked)
        yield ""
        yield from _rhythm(asked)
    yield from _notes(settings, scope)


def _table(asked: Sequence[Asked]) -> Iterator[str]:
    """What each endpoint costs a month, by how many hours have traffic; then all of them."""
    by_name: defaultdict[str, list[Asked]] = defaultdict(list)
    for each in asked:
        by_name[_name(each)].append(each)
    width = max(len("  traffic in"), *(len(name) for name in by_name))
    heads = "  ".join(f"{name:>14s}" for _, name in _SHARES)
    yield f"  {'traffic in':{width}s}  {heads}"
    if len(by_name) > 1:
        for name, own in sorted(by_name.items()):
            yield f"  {name:{width}s}  {_across(own, 'usd_per_month', '.2f', ' $/month')}"
    total = f"  {'in all':{width}s}"
    yield f"{total}  {_across(asked, 'usd_per_month', '.2f', ' $/month')}"
    yield f"  {'':{width}s}  {_across(asked, 'metrics_per_hour', '.0f', ' metrics/h')}"
    yield f"  {'':{width}s}  {_across(asked, 'calls_per_hour', '.0f', ' calls/h')}"


def _across(asked: Sequence[Asked], of: str, form: str, unit: str) -> str:
    values = (getattr(planned(asked, active_share=share), of) for share, _ in _SHARES)
    return "  ".join(f"{value:{form}}{unit}".rjust(14) for value in values)


def _name(asked: Asked) -> str:
    name = f"{asked.service} ({asked.metric.family.kind})"
    return name if len(name) <= _WIDEST else name[: _WIDEST - 1] + "…"


def _rhythm(asked: Sequence[Asked]) -> Iterator[str]:
    for tier in Tier:
        busy_s, idle_s = TIERS_S[tier]
        names = list(dict.fromkeys(e.metric.name for e in asked if e.metric.tier is tier))
        if names:
            every = f"every {busy_s // _MINUTE_S} min"
            slower = f", {idle_s // _MINUTE_S} without traffic" if idle_s != busy_s else ""
            yield f"  {every}{slower}:"
            yield from _wrapped(names)


def _wrapped(names: Sequence[str]) -> Iterator[str]:
    line = "   "
    for at, name in enumerate(names):
        word = f" {name}{',' if at < len(names) - 1 else ''}"
        if len(line) + len(word) > 96:
            yield line
            line = "   "
        line += word
    yield line


def _notes(settings: CloudWatchSettings, scope: ScopeSettings) -> Iterator[str]:
    yield ""
    if more := sum(len([row for row in of_kind(e.kind) if row.optional]) for e in scope.endpoints):
        yield f"  up to {more} metrics more, where ListMetrics has them"
    lists = len(namespaces(scope)) * 3600 / settings.discover_interval_s
    yield f"  {lists:.0f} list calls/h at least (the first million a month are free)"
    if scope.discover:
        kinds = ", ".join(scope.discover)
        yield f"  not counted: endpoints yet to be discovered ({kinds})"
    if scope.promql:
        yield f"  {len(scope.promql) * 60} PromQL calls/h, billed by the samples they scan"
    if scope.budget_usd_per_day is None:
        yield "  no budget: set budget_usd_per_day, and cold metrics stop first"
    else:
        most = scope.budget_usd_per_day * _DAYS
        yield f"  the budget allows {most:.2f} $ a month; cold metrics stop first"


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def describe_poll(scope: ScopeSettings, done: Poll) -> str:
    """The newest period of every series, and what went wrong."""
    return "\n".join(_poll(scope, done)) + "\n"


def _poll(scope: ScopeSettings, done: Poll) -> Iterator[str]:
    told = f"{_many(len(done.points), 'point')} in {_many(done.calls, 'call')}"
    yield f"{scope.account} {scope.region}: {told}"
    newest: dict[tuple[str, str, str], EndpointPoint] = {}
    for point in sorted(done.points, key=lambda each: each.start_s):
        if point.state is PointState.VALUE:
            newest[point.service, point.key.namespace, point.key.name] = point
    wide = max((len(service) for service, *_ in newest), default=0)
    for (service, _, name), point in sorted(newest.items()):
        settled = "settled" if point.settled_at_s is not None else "provisional"
        yield f"  {service:{wide}s}  {name:28s}  {_statistics(point)} ({settled})"
    for text, times in Counter((*done.notes, *done.failures)).items():
        yield f"  ! {text}{f' ({times} times)' if times > 1 else ''}"


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
