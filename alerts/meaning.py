"""What a promise means in plain words: what is counted, when it pages, and what it leaves out."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.evaluate import surely_above
from alerts.promise import Composite, Definition
from alerts.quantity import duration_text, instant_text, period_text, seconds_text, share_text
from alerts.sentence import level_text, rate_text, selector_text, sentence
from domain.indicator import (
    ConditionIndicator,
    EndpointIndicator,
    GoodputIndicator,
    Indicator,
    LatencyIndicator,
    LevelIndicator,
    Limit,
    ThroughputIndicator,
)
from domain.objective import BurnRule, Objective, Severity
from domain.slice import MINUTE_S, EmptySlice, SlicePolicy

__all__ = ["composite_meaning", "meaning", "outage_until_s"]


def meaning(definition: Definition) -> list[str]:
    """The sentence as it is understood, and beneath it what follows from it."""
    objective = definition.objective
    lines = [f"{definition.id}: {sentence(objective)}", f"  {_promise(objective)}"]
    if objective.min_events:
        what = "minutes" if objective.counts_minutes else "requests"
        lines.append(
            f"  a page needs {objective.min_events} bad {what}, or a bad share that is surely too "
            "high"
        )
    lines += [f"  {_rule(definition, rule)}" for rule in definition.rules]
    lines += [f"  note: {_left_out(objective, rule)}" for rule in definition.left_out]
    return lines + [f"  {line}" for line in _watching(definition)]


def composite_meaning(composite: Composite) -> list[str]:
    """What it is made of, and by which arithmetic."""
    how = "the product of its parts, as of steps that all have to succeed"
    if composite.weights:
        parts = zip(composite.of, composite.weights, strict=True)
        said = ", ".join(f"{name} {float(weight):g}" for name, weight in parts)
        how = f"the weighted mean of what its parts burn ({said})"
    goal = "" if composite.target is None else f", promised at {share_text(composite.target)}"
    return [f"{composite.id}: all of {', '.join(composite.of)}{goal}", f"  {how}; its parts page"]


def outage_until_s(definition: Definition, rule: BurnRule) -> int:
    """How long a total outage lasts, after a clean past of steady traffic, until the rule fires.

    The bad share of the long window has to go above factor x budget, and it is looked at after
    each minute: the first whole minute beyond factor x budget x long window. Where minutes are
    counted, a page also waits for as many as it has to rest on.
    """
    objective = definition.objective
    limit = rule.factor * objective.budget
    minutes = int(limit * rule.long_s // MINUTE_S) + 1
    if objective.counts_minutes and rule.severity is Severity.PAGE:
        while minutes < objective.min_events and not surely_above(
            minutes, rule.long_s // MINUTE_S, limit
        ):
            minutes += 1
    return minutes * MINUTE_S + definition.timers.for_s


def _promise(objective: Objective) -> str:
    """In requests, or in minutes, or in minutes of requests."""
    share, slices = share_text(objective.target), objective.slices
    whose = f" ({selector_text(objective.indicator.where)})" if objective.indicator.where else ""
    if slices is not None:
        within = _subject(objective.indicator, share_text(slices.target))
        return f"in {share} of minutes, {within}{whose}, {_over(objective)}; {_empty(slices)}"
    if objective.counts_minutes:
        return f"in {share} of minutes {_state(objective.indicator)}{whose}, {_over(objective)}"
    failed = "" if isinstance(objective.indicator, EndpointIndicator) else "; one that fails is bad"
    return f"{_subject(objective.indicator, share)}{whose}, {_over(objective)}{failed}"


def _subject(indicator: Indicator, share: str) -> str:
    """Whether requests are good, of how many of them."""
    said = f"{share} of requests are answered"
    match indicator:
        case LatencyIndicator():
            what = "gaps between tokens" if indicator.metric == "itl" else "requests"
            said = f"{share} of {what} have {_limits(indicator.limits)}"
        case GoodputIndicator():
            said = f"{share} of requests have, each of them, {_limits(indicator.limits)}"
        case EndpointIndicator():
            names = (f"{name}={value}" for name, value in indicator.dimensions)
            place = " ".join((indicator.service, *names))
            said = f"{share} of requests to {place} are answered, as CloudWatch counts them"
            if indicator.threshold_s is not None:
                limit = f"{indicator.metric} of at most {duration_text(indicator.threshold_s)}"
                said = f"{share} of requests to {place} have {limit}, as CloudWatch counts them"
        case _:
            pass
    return said


def _state(indicator: Indicator) -> str:
    """What is true of a minute that is good."""
    match indicator:
        case ThroughputIndicator():
            floor = rate_text(indicator.at_least_per_s)
            return f"{indicator.metric} grows by at least {floor} over all replicas together"
        case LevelIndicator():
            return f"{level_text(indicator)} at every place that reports it"
        case ConditionIndicator():
            return f"no place is {' or '.join(indicator.kinds)}"
        case _:
            raise TypeError(f"{indicator} counts no minutes")


def _limits(limits: Sequence[Limit]) -> str:
    said = (f"{limit.metric} of at most {duration_text(limit.threshold_s)}" for limit in limits)
    return " and ".join(said)


def _over(objective: Objective) -> str:
    calendar = objective.calendar
    if calendar is None:
        return f"over the last {period_text(objective.period_s)}"
    return f"over each calendar {calendar.unit} ({calendar.zone})"


def _empty(slices: SlicePolicy) -> str:
    if slices.empty is EmptySlice.EXCLUDED:
        return "a minute without requests is left out"
    return f"a minute without requests is {slices.empty}"


def _rule(definition: Definition, rule: BurnRule) -> str:
    """`page-quick: burns more than 14.4x in 1h and in 5min; a total outage fires it after 9min`."""
    factor, windows = f"{float(rule.factor):g}x", (rule.long_s, rule.short_s)
    long, short = (seconds_text(window_s) for window_s in windows)
    after = _spoken(outage_until_s(definition, rule))
    return (
        f"{rule.name}: burns more than {factor} in {long} and in {short}; "
        f"a total outage fires it after {after}"
    )


def _spoken(value_s: int) -> str:
    """`3h 37min`."""
    hours, rest_s = divmod(value_s, 3600)
    parts = ((hours, "h"), (rest_s // 60, "min"), (rest_s % 60, "s"))
    return " ".join(f"{count}{unit}" for count, unit in parts if count)


def _left_out(objective: Objective, rule: BurnRule) -> str:
    most = float(1 / objective.budget)
    return (
        f"{rule.name} is left out: a total outage burns {most:.3g}x, "
        f"and it asks for more than {float(rule.factor):g}x"
    )


def _watching(definition: Definition) -> list[str]:
    lines = []
    if definition.receivers:
        lines.append(f"told: {', '.join(definition.receivers)}")
    for step in definition.escalation:
        after = seconds_text(step.after_s)
        lines.append(f"not acknowledged for {after}: {', '.join(step.receivers)} too")
    for window in definition.maintenance:
        when = f"at {window.cron!r}" if window.cron else "once"
        lines.append(
            f"maintenance {window.name}: {when} ({window.zone}) for "
            f"{seconds_text(window.duration_s)}; it costs no budget"
        )
    lines += [
        f"from {instant_text(change.since_s)} on the target is {share_text(change.target)}"
        for change in definition.changes
    ]
    if definition.since_s is not None:
        lines.append(f"counted from {instant_text(definition.since_s)} on")
    return lines
