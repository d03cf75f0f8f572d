"""What a row of the endpoints page says: how an endpoint stands, and its numbers with their doubt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dash import html
from dash.development.base_component import Component

from collector.query import EndpointSeries
from dashboard.parts import Cell, badge, name_text, quiet, table
from dashboard.quantity import NOTHING, age, count, percent, percent_range, seconds
from dashboard.theme import State
from dashboard.viewer import Viewer
from domain.endpoint import Good, availability, good_count, good_share
from domain.errors import InputError
from domain.managed_endpoint import ManagedEndpoint

__all__ = [
    "Standing",
    "endpoint_table",
    "is_throttled",
    "questions_table",
    "settled_only",
    "standings",
]

_STALE_S = 1200
"""An endpoint that is polled settles every few minutes, an idle one too."""
_THROTTLED = 0.01
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
_KINDS = {
    "bedrock": "Bedrock",
    "cloudfront": "CloudFront",
    "container_insights": "Container Insights",
    "http_api": "API Gateway",
    "lambda": "Lambda",
    "load_balancer": "load balancer",
    "mantle": "Bedrock Mantle",
    "rest_api": "API Gateway",
    "sagemaker": "SageMaker",
    "sagemaker_component": "SageMaker component",
}
_GPU_SHARE, _GPU_SUM = "gpu_utilization_share", "gpu_utilization"


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One endpoint, and how it stands."""

    endpoint: ManagedEndpoint
    state: State
    word: str
    settled_until_s: int | None


def standings(
    endpoints: Sequence[ManagedEndpoint], viewer: Viewer, *, live: bool
) -> list[Standing]:
    """Those of AWS's own metrics, the worst first."""
    told = [_standing(each, viewer, live=live) for each in endpoints if each.kind]
    order = list(State)
    return sorted(told, key=lambda each: (order.index(each.state), each.endpoint.service))


def _standing(endpoint: ManagedEndpoint, viewer: Viewer, *, live: bool) -> Standing:
    settled_s = _settled_until_s(endpoint)
    requests = endpoint.total("invocations")
    if settled_s is None or (live and viewer.now_s - settled_s > _STALE_S):
        state, word = State.NOT_OBSERVED, "not observed"
    elif endpoint.wall is not None:
        state, word = State.TICKET, "time limit"
    elif is_throttled(endpoint):
        state, word = State.TICKET, "throttled"
    elif not requests and not any(endpoint.total(name) for name in _LATENCIES):
        state, word = State.NO_TRAFFIC, "no traffic"
    else:
        state, word = State.HEALTHY, "traffic"
    return Standing(endpoint=endpoint, state=state, word=word, settled_until_s=settled_s)


def is_throttled(endpoint: ManagedEndpoint) -> bool:
    """More than one request in a hundred was turned away."""
    throttled = endpoint.total("throttles") or 0.0
    return throttled > _THROTTLED * (throttled + (endpoint.total("invocations") or 0.0))


def _settled_until_s(endpoint: ManagedEndpoint) -> int | None:
    series = [each for each in endpoint.by_metric.values() if isinstance(each, EndpointSeries)]
    ends = [each.settled_until_s for each in series if each.settled_until_s is not None]
    return max(ends, default=None)


_COLUMNS: tuple[tuple[str, Callable[[Standing, Viewer], Cell]], ...] = (
    ("Endpoint", lambda each, _: Cell(_name(each.endpoint))),
    ("State", lambda each, _: Cell(badge(each.state, word=each.word))),
    ("Requests", lambda each, _: Cell(count(each.endpoint.total("invocations")), number=True)),
    ("Failed", lambda each, _: _cell(*_failed(each.endpoint), number=True)),
    ("Throttled", lambda each, _: _cell(*_throttled(each.endpoint), number=True)),
    ("Answered", lambda each, _: _cell(*_available(each.endpoint))),
    ("Good", lambda each, _: _cell(*_good(each.endpoint))),
    ("P99, worst minute", lambda each, _: _cell(*_worst(each.endpoint))),
    ("GPUs", lambda each, _: _cell(*_gpus(each.endpoint))),
    ("Settled", lambda each, viewer: Cell(_age(each.settled_until_s, viewer), number=True)),
)
_ALWAYS = ("Endpoint", "State", "Requests", "Settled")
_Told = tuple[str, str]  # what it is, and what of
_UNTOLD: _Told = (NOTHING, "")


def _cell(what: str, of: str, *, number: bool = False) -> Cell:
    return Cell([what, " ", quiet(of)] if of else what, number=number)


def endpoint_table(told: Sequence[Standing], viewer: Viewer) -> Component:
    """A row each; a column that none of them can fill is left out."""
    columns = [
        (name, [make(each, viewer) for each in told])
        for name, make in _COLUMNS
        if name in _ALWAYS or any(make(each, viewer).content != NOTHING for each in told)
    ]
    rows = [[cells[at] for _, cells in columns] for at in range(len(told))]
    return table("Endpoints, trouble first", [name for name, _ in columns], rows)


def _name(endpoint: ManagedEndpoint) -> list[Component]:
    values = " ".join(value for _, value in endpoint.dimensions)
    of = f"{_KINDS.get(endpoint.kind, endpoint.kind)} "
    place = f"{endpoint.account} {endpoint.region}"
    return [
        html.Div(name_text(endpoint.service)),
        html.Div(quiet([of, name_text(values)])),
        html.Div(quiet(name_text(place))),
    ]


def _age(settled_s: int | None, viewer: Viewer) -> str:
    return NOTHING if settled_s is None else f"{age(viewer.now_s - settled_s)} ago"


def _failed(endpoint: ManagedEndpoint) -> _Told:
    """Errors of the server's, and which share of the requests they are."""
    failed, requests = endpoint.total("server_errors"), endpoint.total("invocations")
    if failed is None:
        return _UNTOLD
    return count(failed), percent(failed / requests) if failed and requests else ""


def _throttled(endpoint: ManagedEndpoint) -> _Told:
    throttled = endpoint.total("throttles")
    if throttled is None:
        return _UNTOLD
    tried = throttled + (endpoint.total("invocations") or 0.0)
    return count(throttled), percent(throttled / tried) if throttled else ""


def _latency(endpoint: ManagedEndpoint) -> str | None:
    """The latency to show: the first that has a value."""
    return next((name for name in _LATENCIES if endpoint.statistics(name)), None)


def _word(metric: str) -> str:
    return _WORDS.get(metric, metric.replace("_", " "))


def _good(endpoint: ManagedEndpoint) -> _Told:
    """Requests up to the threshold: counts that add, where percentiles would not."""
    metric = _latency(endpoint)
    by_rank: defaultdict[str, list[Good]] = defaultdict(list)
    for each in endpoint.statistics(metric) if metric else ():
        for name, value in each.items():
            if name.startswith("PR(:"):
                by_rank[name].append(_counted(value, each.get("SampleCount", 0.0)))
    for name, counts in sorted(by_rank.items()):
        share = good_share(counts)
        if share is not None and metric is not None:
            threshold_s = float(name.removeprefix("PR(:").removesuffix(")"))
            return percent_range(*share), f"{_word(metric)} ≤ {seconds(threshold_s)}"
    return _UNTOLD


def _counted(share: float, samples: float) -> Good:
    try:
        return good_count(share, samples)
    except InputError:  # why: fractional samples are counted as nothing but doubt
        return Good(0, int(samples), int(samples))


def _worst(endpoint: ManagedEndpoint) -> _Told:
    metric = _latency(endpoint)
    told = endpoint.statistics(metric) if metric else []
    values = [each["p99"] for each in told if "p99" in each]
    return (seconds(max(values)), _word(metric)) if values and metric else _UNTOLD


def _available(endpoint: ManagedEndpoint) -> _Told:
    """Bedrock's, under both definitions that AWS's pages give of Invocations."""
    invocations = endpoint.total("invocations")
    if invocations is None or endpoint.kind != "bedrock":
        return _UNTOLD
    told = [
        availability(
            invocations=invocations,
            server_errors=endpoint.total("server_errors") or 0.0,
            throttles=endpoint.total("throttles") or 0.0,
            counts_failures=counts_failures,
        )
        for counts_failures in (False, True)
    ]
    shares = [(percent(Fraction(each.share)), each.label) for each in told if each is not None]
    if not shares:
        return _UNTOLD
    if len({share for share, _ in shares}) == 1:
        return shares[0][0], "whatever Invocations counts"
    (first, of), *others = shares
    return first, "".join([f"if {of}", *(f"; {share} if {label}" for share, label in others)])


def _gpus(endpoint: ManagedEndpoint) -> _Told:
    """The mean of one GPU; where nobody knows how many a sum is of, the sum, named as one."""
    if (share := _mean(endpoint, _GPU_SHARE)) is not None:
        return f"{percent(share)} busy", ""
    mean, number = _mean(endpoint, _GPU_SUM), endpoint.accelerators
    if mean is None:
        return _UNTOLD
    if number is None:
        return percent(mean), "of N × 100 %, N not known"
    return f"{percent(mean / number)} busy", f"{count(number)} a machine"


def _mean(endpoint: ManagedEndpoint, metric: str) -> float | None:
    told = [
        (each["Sum"], each["SampleCount"])
        for each in endpoint.statistics(metric)
        if {"Sum", "SampleCount"} <= each.keys()
    ]
    samples = sum(n for _, n in told)
    return sum(total for total, _ in told) / samples if samples else None


def questions_table(series: Sequence[EndpointSeries], viewer: Viewer) -> Component:
    """What CloudWatch's PromQL answered: the newest value of each series."""
    rows = [_answered(each, viewer) for each in series[:50]]
    columns = ("Question", "Newest", "Lowest", "Highest", "At")
    return table("Answers of CloudWatch's PromQL", columns, rows)


def _answered(series: EndpointSeries, viewer: Viewer) -> list[Cell]:
    told = [(p.since_s, p.statistics["Last"]) for p in series.points if "Last" in p.statistics]
    values = [value for _, value in told]
    labels = " ".join(f"{name}={value}" for name, value in series.key.dimensions)
    name = [
        html.Div(name_text(f"{series.service} {series.key.name}")),
        html.Div(quiet(name_text(labels))),
    ]
    numbers = [values[-1], min(values), max(values)] if values else []
    cells = [Cell(f"{each:.4g}", number=True) for each in numbers] or [
        Cell(NOTHING, number=True)
    ] * 3
    newest = f"{age(viewer.now_s - told[-1][0] - series.key.period_s)} ago" if told else NOTHING
    return [Cell(name), *cells, Cell(newest, number=True)]


def settled_only(series: EndpointSeries) -> EndpointSeries:
    """Without what may still change: a count that grows is no fall of traffic."""
    return replace(series, points=[point for point in series.points if not point.provisional])
