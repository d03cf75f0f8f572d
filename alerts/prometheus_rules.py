"""Objectives as recording and alerting rules for Prometheus, for those who want the verdicts there.

Per objective and window the rates of all and of bad requests are recorded; an alert asks for both
windows of a rule. What Prometheus cannot say is listed (`Exported.losses`), never left out silently.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from alerts.definition import Definition
from alerts.runbook import address
from domain.errors import ConfigError
from domain.indicator import AvailabilityIndicator, LatencyIndicator
from domain.labels import Labels
from domain.metric import LATENCIES, METRICS
from domain.objective import BurnRule, Severity

__all__ = ["Exported", "Histogram", "Source", "export", "sidecar_source"]

_Z_SQUARED = Fraction(1645, 1000) ** 2
"""One-sided 95 %, as in `alerts.evaluate`."""

_TOTAL = "stagewatch:slo_total:rate"
_BAD = "stagewatch:slo_bad:rate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """A latency as Prometheus holds it. `edges_s`: of a classic one, as its `le` are written.

    `bounded`: it stands there twice, `bound="low"` at best and `bound="high"` at worst.
    """

    name: str
    edges_s: Mapping[Fraction, str] | None = None
    bounded: bool = False

    @property
    def native(self) -> bool:
        return self.edges_s is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where the numbers are: a histogram for each latency, a counter of failures if there is one."""

    histograms: Mapping[str, Histogram]
    failed: str = ""
    finished: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The rule file as a value, and what it does not say, each with the objective it concerns."""

    document: Mapping[str, Any]
    losses: Sequence[str]


def sidecar_source(edges_s: Sequence[float], *, native: bool = False) -> Source:
    """What our sidecars show on `/metrics`; `edges_s` are their `le`, which both bounds have."""
    edges = {Fraction(str(edge)): _le(edge) for edge in edges_s}
    return Source(
        histograms={
            name: Histogram(
                name=METRICS[name].full_name,
                edges_s=None if native else edges,
                bounded=not native,
            )
            for name in LATENCIES
        },
        failed=METRICS["requests_failed"].full_name,
        finished=METRICS["requests_finished"].full_name,
    )


def export(definitions: Sequence[Definition], source: Source, *, pages_url: str = "") -> Exported:
    """Two groups an objective: rates first, alerts on them after.

    `pages_url`: where our pages are, for the runbook of those that name none.
    """
    groups: list[dict[str, Any]] = []
    losses: list[str] = []
    for definition in definitions:
        problem = _unsayable(definition)
        if problem:
            losses.append(f"{definition.id}: not exported: {problem}")
            continue
        exact = _counts(definition, source, "5m").exact
        losses += [f"{definition.id}: {loss}" for loss in _losses(definition, source, exact=exact)]
        groups += [
            _recorded(definition, source, exact=exact),
            _alerting(definition, source, pages_url, exact=exact),
        ]
    return Exported(document={"groups": groups}, losses=losses)


@dataclass(frozen=True, slots=True)
class _Counts:
    """PromQL over one window: per second all requests, the surely and the possibly bad."""

    total: str
    surely: str
    possibly: str

    @property
    def exact(self) -> bool:
        return self.surely == self.possibly


def _unsayable(definition: Definition) -> str:
    objective = definition.objective
    if not isinstance(objective.indicator, LatencyIndicator | AvailabilityIndicator):
        return "only latencies and availability are counters that Prometheus has"
    if objective.slices is not None:
        return "it promises slices, and a rule counts requests"
    return ""


def _losses(definition: Definition, source: Source, *, exact: bool) -> Iterator[str]:
    objective = definition.objective
    yield (
        "Prometheus resolves an alert whose data are gone, where ours stays and says stale; "
        f"watch {_alert_name(definition, 'no data')} besides"
    )
    if isinstance(objective.indicator, LatencyIndicator) and not source.failed:
        yield "requests that failed are in no histogram, so that here they are in no denominator"
    if not exact:
        yield "the threshold lies between edges: a page asks what is surely bad, a ticket what may be"
    if objective.calendar is not None:
        yield "a calendar period is kept as a rolling one"
    if definition.maintenance:
        yield "maintenance windows are not left out"


def _counts(definition: Definition, source: Source, window: str) -> _Counts:
    indicator = definition.objective.indicator
    failed = _or_none(_rate(source.failed, window, indicator.where)) if source.failed else ""
    if isinstance(indicator, AvailabilityIndicator):
        if not (failed and source.finished):
            raise ConfigError(
                "availability wants counters of finished and failed requests",
                where=f"objective {definition.name!r}",
                remedy="Leave it out, or export for our sidecars (without --histogram).",
            )
        total = f"({_rate(source.finished, window, indicator.where)} + {failed})"
        return _Counts(total, failed, failed)
    assert isinstance(indicator, LatencyIndicator)  # noqa: S101 - `_unsayable` let nothing else in
    histogram = source.histograms.get(indicator.metric)
    if histogram is None:
        raise ConfigError(
            f"no histogram is named for {indicator.metric!r}",
            where=f"objective {definition.name!r}",
            remedy=f"Name it with --histogram {indicator.metric}=NAME.",
        )
    answered, at_best, at_worst = _of_histogram(histogram, indicator, window, definition.name)
    counts_requests = indicator.metric != "itl"  # of gaps a request that failed had none
    also = f" + {failed}" if failed and counts_requests else ""
    return _Counts(
        f"({answered}{also})",
        f"({answered} - {at_best}{also})",
        f"({answered} - {at_worst}{also})",
    )


def _of_histogram(
    histogram: Histogram, indicator: LatencyIndicator, window: str, name: str
) -> tuple[str, str, str]:
    """All that were answered, those good at best, and those good at worst."""
    where, threshold = indicator.where, indicator.threshold_s
    if histogram.native:
        rate = _rate(histogram.name, window, where)
        good = f"(histogram_fraction(0, {float(threshold):g}, {rate}) * histogram_count({rate}))"
        return f"histogram_count({rate})", good, good
    edges = histogram.edges_s or {}
    above = min((edge for edge in edges if edge >= threshold), default=None)
    below = max((edge for edge in edges if edge <= threshold), default=None)
    if above is None or below is None:
        known = ", ".join(edges[edge] for edge in sorted(edges)) or "none"
        raise ConfigError(
            f"{float(threshold):g} s lies outside the edges of {histogram.name}",
            where=f"objective {name!r}",
            remedy=f"Use a threshold within them: {known}.",
        )
    low, high = ({"bound": "low"}, {"bound": "high"}) if histogram.bounded else ({}, {})
    return (
        _rate(f"{histogram.name}_count", window, where, **low),
        _rate(f"{histogram.name}_bucket", window, where, **low, le=edges[above]),
        _rate(f"{histogram.name}_bucket", window, where, **high, le=edges[below]),
    )


def _rate(name: str, window: str, where: Labels, **further: str) -> str:
    return f"sum(rate({name}{_selector(where, **further)}[{window}]))"


def _or_none(failed: str) -> str:
    """A counter that nobody has ever raised is not there; that is none, not unknown."""
    return f"({failed} or vector(0))"


def _selector(where: Labels, **further: str) -> str:
    pairs = [*where, *further.items()]
    said = ",".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in pairs)
    return f"{{{said}}}" if pairs else ""


def _recorded(definition: Definition, source: Source, *, exact: bool) -> dict[str, Any]:
    spans_s = sorted({span for rule in definition.rules for span in (rule.long_s, rule.short_s)})
    rules = []
    for window in map(_window, spans_s):
        counts = _counts(definition, source, window)
        rules.append(_record(definition, _TOTAL + window, counts.total))
        rules.append(_record(definition, _BAD + window, counts.surely, bound="sure"))
        if not exact:
            rules.append(_record(definition, _BAD + window, counts.possibly, bound="possible"))
    return {"name": f"stagewatch-slo-{definition.id}", "interval": "1m", "rules": rules}


def _record(definition: Definition, name: str, expression: str, **labels: str) -> dict[str, Any]:
    return {
        "record": name,
        "expr": expression,
        "labels": {"objective": definition.id, **labels},
    }


def _alerting(
    definition: Definition, source: Source, pages_url: str, *, exact: bool
) -> dict[str, Any]:
    alerts = []
    for severity in Severity:
        rules = [rule for rule in definition.rules if rule.severity is severity]
        side = "possible" if severity is Severity.TICKET and not exact else "sure"
        if rules:
            alerts.append(_alert(definition, severity, rules, side))
    if definition.no_data is not None:
        alerts.append(_no_data(definition, definition.no_data, source))
    if pages_url and not definition.objective.runbook:
        for each in alerts:
            each["annotations"]["runbook_url"] = address(pages_url, _anchor(each))
    return {"name": f"stagewatch-slo-{definition.id}-alerts", "interval": "1m", "rules": alerts}


def _anchor(alert: Mapping[str, Any]) -> str:
    silent = str(alert["alert"]).endswith("NoData")
    return "no-data" if silent else str(alert["labels"]["severity"])


def _alert(
    definition: Definition,
    severity: Severity,
    rules: Sequence[BurnRule],
    side: str,
) -> dict[str, Any]:
    burning = " or ".join(f"({_burning(definition, rule, side)})" for rule in rules)
    return {
        "alert": _alert_name(definition, severity.value),
        "expr": burning,
        **_timers(definition),
        "labels": {"severity": severity.value, "objective": definition.id},
        "annotations": _annotations(definition, "burns its budget too fast in both windows"),
    }


def _burning(definition: Definition, rule: BurnRule, side: str) -> str:
    """Counts held against counts: no traffic is 0 > 0, which is false, and no division by it."""
    asked = [_above(definition, rule, side, span_s) for span_s in (rule.short_s, rule.long_s)]
    if rule.severity is Severity.PAGE and definition.objective.min_events:
        asked.append(f"({_enough(definition, rule)})")
    return " and ignoring(bound) ".join(asked)


def _above(definition: Definition, rule: BurnRule, side: str, span_s: int) -> str:
    bad, total = _recorded_names(definition, side, span_s)
    return f"{bad} > ignoring(bound) {_number(rule.factor * definition.objective.budget)} * {total}"


def _recorded_names(definition: Definition, side: str, span_s: int) -> tuple[str, str]:
    window = _window(span_s)
    return (
        f'{_BAD}{window}{{objective="{definition.id}",bound="{side}"}}',
        f'{_TOTAL}{window}{{objective="{definition.id}"}}',
    )


def _enough(definition: Definition, rule: BurnRule) -> str:
    """Many bad ones, or a share that is surely above the limit (Wilson): `alerts.evaluate`."""
    limit = rule.factor * definition.objective.budget
    bad, total = _recorded_names(definition, "sure", rule.long_s)
    excess = f"({bad} - ignoring(bound) {_number(limit)} * {total})"
    chance = f"{_number(_Z_SQUARED * limit * (1 - limit) / rule.long_s)} * {total}"
    return (
        f"{bad} * {rule.long_s} >= {definition.objective.min_events} or "
        f"({excess} > 0 and {excess} ^ 2 > {chance})"
    )


def _no_data(definition: Definition, severity: Severity, source: Source) -> dict[str, Any]:
    return {
        "alert": _alert_name(definition, "no data"),
        "expr": f"absent({_counts(definition, source, '2m').total})",
        "for": f"{max(definition.no_data_after_s - 120, 0)}s",
        "labels": {"severity": severity.value, "objective": definition.id},
        "annotations": _annotations(definition, "is not observed"),
    }


def _timers(definition: Definition) -> dict[str, str]:
    timers = definition.timers
    said = {"for": timers.for_s, "keep_firing_for": timers.keep_firing_s}
    return {name: f"{span_s}s" for name, span_s in said.items() if span_s}


def _annotations(definition: Definition, what: str) -> dict[str, str]:
    runbook = definition.objective.runbook
    return {
        "summary": f"{definition.name} {what}.",
        **({"description": definition.description} if definition.description else {}),
        **({"runbook_url": runbook} if runbook else {}),
    }


def _alert_name(definition: Definition, what: str) -> str:
    words = f"{definition.id} {what}".replace("-", " ").split()
    return "Slo" + "".join(word[:1].upper() + word[1:] for word in words)


def _window(span_s: int) -> str:
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60)):
        if span_s % length_s == 0:
            return f"{span_s // length_s}{unit}"
    return f"{span_s}s"


def _number(value: Fraction) -> str:
    return repr(float(value))


def _le(edge: float) -> str:
    return repr(float(edge))
