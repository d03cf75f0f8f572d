"""How every promise stands, what is open, and what is wrong with engines, as gauges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

from alerts.ledger import AlertRecord, Ledger, Standing, StandingState
from collector.query import Reader
from domain.condition import Condition
from domain.labels import Labels, labels_of, value_of
from stagewatch.summary.family import Family, Sample

__all__ = ["promise_families"]

_MOST_ALERTS = 1000
_PLACE = ("service", "model", "replica")


def promise_families(ledger: Ledger, reader: Reader, at_s: int) -> list[Family]:
    """Of this instant."""
    standings = ledger.standings(spark_s=0)
    alerts = [each for each in ledger.alerts(limit=_MOST_ALERTS) if each.open]
    return [
        *_standing_families(standings),
        Family(
            name="stagewatch_alerts_open",
            help="Alerts that are not over, and whether somebody has them.",
            samples=_counted(map(_alert_labels, alerts)),
        ),
        Family(
            name="stagewatch_conditions_open",
            help="What is wrong with engines themselves.",
            samples=_counted(
                _condition_labels(each) for each in reader.conditions(at_s) if not each.over
            ),
        ),
    ]


def _standing_families(standings: Sequence[Standing]) -> Iterator[Family]:
    yield Family(
        name="stagewatch_objective_info",
        help="Always 1; what an objective is called, and its promise in percent.",
        samples=[_info(each) for each in standings],
    )
    yield Family(
        name="stagewatch_objective_state",
        help="1 for the state that an objective is in.",
        samples=[sample for each in standings for sample in _states(each)],
    )
    yield Family(
        name="stagewatch_objective_stale",
        help="1 while that state is older than it should be.",
        samples=[_of(each, float(each.stale)) for each in standings],
    )
    yield Family(
        name="stagewatch_objective_target_ratio",
        help="The share that is promised to be good.",
        samples=[_of(each, float(each.objective.target)) for each in standings],
    )
    yield Family(
        name="stagewatch_objective_burn_rate",
        help="How many times too fast the budget burns: surely (bound low), possibly (bound high).",
        samples=[sample for each in standings for sample in _burns(each)],
    )
    yield Family(
        name="stagewatch_objective_budget_remaining_ratio",
        help="The share of the budget that is left, below 0 when overspent.",
        samples=[
            sample
            for each in standings
            for sample in _both(each, {}, (each.budget.remaining_low, each.budget.remaining_high))
        ],
    )
    yield Family(
        name="stagewatch_objective_budget_exhausted_seconds",
        help="In how many seconds the budget is gone at the burn of the last hour, at the earliest.",
        samples=[
            _of(each, float(each.exhausted_in_s))
            for each in standings
            if each.exhausted_in_s is not None
        ],
    )
    yield Family(
        name="stagewatch_objective_evaluated_timestamp_seconds",
        help="The end of the newest minute that was judged.",
        samples=[_of(each, float(each.evaluated_at_s)) for each in standings],
    )


def _info(standing: Standing) -> Sample:
    where = dict(getattr(standing.objective.indicator, "where", ()))
    about = {
        "name": standing.objective.name,
        "service": where.get("service", ""),
        "target": f"{float(standing.objective.target) * 100:g} %",
    }
    return _of(standing, 1.0, about)


def _states(standing: Standing) -> Iterator[Sample]:
    for state in StandingState:
        yield _of(standing, float(standing.state is state), {"state": state.value})


def _burns(standing: Standing) -> Iterator[Sample]:
    burns = {3600: (standing.burn_low, standing.burn_high)}
    for each in standing.rules:
        burns[each.verdict.rule.long_s] = each.long_burn or (None, None)
        burns[each.verdict.rule.short_s] = each.short_burn or (None, None)
    for span_s, burn in sorted(burns.items()):
        yield from _both(standing, {"window": _span(span_s)}, burn)


def _both(
    standing: Standing, about: dict[str, str], values: tuple[Fraction | None, Fraction | None]
) -> Iterator[Sample]:
    for bound, value in zip(("low", "high"), values, strict=True):
        if value is not None:
            yield _of(standing, float(value), {**about, "bound": bound})


def _of(standing: Standing, value: float, about: dict[str, str] | None = None) -> Sample:
    return Sample(labels=labels_of({"objective": standing.id, **(about or {})}), value=value)


def _alert_labels(alert: AlertRecord) -> Labels:
    return labels_of(
        {
            "objective": alert.objective_id,
            "severity": alert.severity.value,
            "kind": alert.kind,
            "stage": alert.stage or "",
            "handled": _handled(alert),
        }
    )


def _handled(alert: AlertRecord) -> str:
    if alert.response.silence_id is not None:
        return "silenced"
    if alert.inhibited:
        return "inhibited"
    return "acknowledged" if alert.response.acknowledgement is not None else "no"


def _condition_labels(condition: Condition) -> Labels:
    place = {name: value_of(condition.labels, name) for name in _PLACE}
    return labels_of({"condition": condition.kind.value, **place})


def _counted(found: Iterable[Labels]) -> list[Sample]:
    return [Sample(labels=labels, value=float(n)) for labels, n in sorted(Counter(found).items())]


def _span(span_s: int) -> str:
    for unit, length_s in (("d", 86_400), ("h", 3600), ("m", 60)):
        if span_s % length_s == 0:
            return f"{span_s // length_s}{unit}"
    return f"{span_s}s"
