"""The endpoints page: what AWS says of managed endpoints, up to the minute that has settled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from dash import html
from dash.development.base_component import Component

from alerts.ledger import Ledger
from collector.query import EndpointSeries, Reader
from dashboard.content import Content
from dashboard.frame import common_regions, frame, region
from dashboard.parts import Cell, empty, name_text, named_by, quiet, table
from dashboard.quantity import NOTHING, age, count, percent, seconds
from dashboard.url import View
from dashboard.viewer import Viewer
from domain.endpoint import Availability, Good, availability, good_count, good_share

__all__ = ["content", "page"]

_LATENCIES = (
    "ttft",
    "first_chunk",
    "model_latency",
    "e2e",
    "integration_latency",
    "gateway_latency",
    "target_response",
    "function_duration",
)
"""The one that users feel most, first."""
_WORDS = {"ttft": "TTFT", "e2e": "E2E"}
_COLUMNS = (
    "Endpoint",
    "Requests",
    "Server errors",
    "Throttled",
    "Good",
    "P99, worst minute",
    "Availability",
    "Settled",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Endpoint:
    """All series of one endpoint's canonical dimensions."""

    service: str
    place: str
    by_metric: dict[str, EndpointSeries]

    def total(self, metric: str) -> float | None:
        """Sum over the window, or how many samples where only those are told."""
        series = self.by_metric.get(metric)
        if series is None:
            return None
        told = [p.statistics for p in series.points if p.statistics]
        values = [each.get("Sum", each.get("SampleCount")) for each in told]
        known = [value for value in values if value is not None]
        return sum(known) if known else None

    @property
    def latency(self) -> EndpointSeries | None:
        """The latency to show: the first that has a value."""
        found = (self.by_metric.get(metric) for metric in _LATENCIES)
        return next((s for s in found if s and any(p.statistics for p in s.points)), None)

    @property
    def settled_until_s(self) -> int | None:
        ends = [s.settled_until_s for s in self.by_metric.values() if s.settled_until_s is not None]
        return max(ends, default=None)


def content(reader: Reader, ledger: Ledger, view: View, viewer: Viewer) -> Content:
    """The page at one instant."""
    del ledger  # objectives do not rest on endpoints yet
    endpoints = _endpoints(reader.endpoints(view.window(viewer.now_s)))
    settled = [e.settled_until_s for e in endpoints if e.settled_until_s is not None]
    regions = common_regions(
        view, viewer, newest_at_s=max(settled, default=None), title="Endpoints"
    )
    return Content(title="Endpoints", regions=regions | {"endpoints": _table(endpoints, viewer)})


def page(view: View, shown: Content) -> list[Component]:
    """The page with its content."""
    return frame(
        view,
        shown,
        [
            html.H1("Endpoints", id="endpoints-title"),
            html.Section(region("endpoints", shown), **named_by("endpoints-title")),
        ],
    )


def _endpoints(series: Iterable[EndpointSeries]) -> list[_Endpoint]:
    grouped: defaultdict[tuple[str, str], dict[str, EndpointSeries]] = defaultdict(dict)
    for each in series:
        if each.level == "endpoint":  # deeper ones are the same traffic again
            names = " ".join(value for _, value in each.key.dimensions)
            place = f"{names} · {each.key.account} {each.key.region}"
            grouped[each.service, place].setdefault(each.metric, each)
    return [
        _Endpoint(service=service, place=place, by_metric=own)
        for (service, place), own in sorted(grouped.items())
    ]


def _table(endpoints: Sequence[_Endpoint], viewer: Viewer) -> Component:
    if not endpoints:
        return empty(
            "No endpoint is watched",
            [
                html.P("SageMaker, Bedrock and the path before them are read from CloudWatch:"),
                html.Pre("stagewatch exporter cloudwatch --config stagewatch.yaml --plan"),
            ],
        )
    return table("Endpoints", _COLUMNS, [_row(each, viewer) for each in endpoints])


def _row(endpoint: _Endpoint, viewer: Viewer) -> list[Cell]:
    settled_s = endpoint.settled_until_s
    latency = endpoint.latency
    return [
        Cell([name_text(endpoint.service), " ", quiet(name_text(endpoint.place))]),
        *(
            Cell(count(endpoint.total(metric)), number=True)
            for metric in ("invocations", "server_errors", "throttles")
        ),
        Cell(NOTHING if latency is None else _good(latency), number=True),
        Cell(NOTHING if latency is None else _worst(latency), number=True),
        Cell(_available(endpoint), broad=True),
        Cell(NOTHING if settled_s is None else f"{age(viewer.now_s - settled_s)} ago"),
    ]


def _word(series: EndpointSeries) -> str:
    return _WORDS.get(series.metric, series.metric.replace("_", " "))


def _good(series: EndpointSeries) -> str:
    """Requests up to the threshold: counts that add, where percentiles would not."""
    by_rank: defaultdict[str, list[Good]] = defaultdict(list)
    for point in series.points:
        samples = point.statistics.get("SampleCount")
        for name, value in point.statistics.items():
            if name.startswith("PR(:") and samples is not None and samples == round(samples):
                by_rank[name].append(good_count(value, samples))
    for name, counts in sorted(by_rank.items()):
        share = good_share(counts)
        if share is not None:
            threshold_s = float(name.removeprefix("PR(:").removesuffix(")"))
            return f"{percent(share[0])} {_word(series)} ≤ {seconds(threshold_s)}"
    return NOTHING


def _worst(series: EndpointSeries) -> str:
    values = [p.statistics["p99"] for p in series.points if "p99" in p.statistics]
    return f"{_word(series)} {seconds(max(values))}" if values else NOTHING


def _available(endpoint: _Endpoint) -> str:
    """Bedrock's, under both definitions that AWS's pages give of Invocations."""
    invocations = endpoint.total("invocations")
    namespaces = {series.key.namespace for series in endpoint.by_metric.values()}
    if invocations is None or "AWS/Bedrock" not in namespaces:
        return NOTHING
    told = [
        availability(
            invocations=invocations,
            server_errors=endpoint.total("server_errors") or 0.0,
            throttles=endpoint.total("throttles") or 0.0,
            counts_failures=counts_failures,
        )
        for counts_failures in (False, True)
    ]
    return _shares([each for each in told if each is not None]) or NOTHING


def _shares(told: Sequence[Availability]) -> str:
    return ", ".join(f"{percent(Fraction(each.share))} if {each.label}" for each in told)
