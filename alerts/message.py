"""What an alert says: the same words in the notification, on the screen and in the API."""

from __future__ import annotations

from datetime import UTC, datetime
from fractions import Fraction

from alerts import wording
from alerts.blame import NOT_ASKED, Blame, Place
from alerts.budget import Level
from alerts.evaluate import Reason, Verdict
from domain.objective import Objective, Severity
from domain.slice import Tally

__all__ = [
    "accusation",
    "budget_back",
    "budget_low",
    "headline",
    "maintained",
    "no_data",
    "quiet",
    "resolved",
    "unjudged",
    "unobserved",
    "why",
]

_VERBS = {Severity.PAGE: "pages", Severity.TICKET: "has a ticket", Severity.INFO: "has a note"}
_HALF_DAY_S = 43_200


def headline(
    objective: Objective,
    severity: Severity,
    verdict: Verdict,
    *,
    since_s: int,
    at_s: int,
    stale_since_s: int | None = None,
) -> str:
    """Who pages, since when, how bad it is and what was promised, in one sentence."""
    surely = severity is Severity.PAGE
    stale = (
        ""
        if stale_since_s is None
        else f" (stale: nobody looks since {_clock(stale_since_s, at_s)})"
    )
    return (
        f"{objective.name} {_VERBS[severity]} since {_clock(since_s, at_s)}{stale}: "
        f"{_counted(verdict.long, objective, surely=surely)} in the last "
        f"{_span(verdict.rule.long_s)} {wording.deed(objective)}"
        f"{_share(verdict.long, surely=surely)}; "
        f"the promise is at most {wording.percent(objective.budget)}."
    )


def resolved(objective: Objective, verdict: Verdict | None, *, started_at_s: int, at_s: int) -> str:
    """That it is over, after how long, and what is true now."""
    over = f"{objective.name} is over at {_clock(at_s, at_s)} after {_span(at_s - started_at_s)}"
    if verdict is None or not verdict.short.total:
        return f"{over}."
    return (
        f"{over}: {_counted(verdict.short, objective, surely=False)} in the last "
        f"{_span(verdict.rule.short_s)} {wording.deed(objective)}."
    )


def no_data(
    objective: Objective, severity: Severity, *, observed_at_s: int | None, at_s: int
) -> str:
    """That nobody is looking, which is neither good nor bad."""
    since = "ever" if observed_at_s is None else f"since {_clock(observed_at_s, at_s)}"
    return (
        f"{objective.name} {_VERBS[severity]}: nobody observes it {since}, so a broken promise would "
        "go unseen. Next: look whether its exporters, replicas and collector are up."
    )


def budget_low(
    objective: Objective, level: Level, remaining: Fraction | None, *, since_s: int, at_s: int
) -> str:
    """That the budget runs low: a note, a ticket, or the word to change nothing more."""
    left = "is spent" if remaining is None or remaining <= 0 else f"has {_left(remaining)} left"
    said = f"{objective.name}: the budget {_of_what(objective)} {left}"
    if not level.share:
        return (
            f"{said} since {_clock(since_s, at_s)}. Freeze: change nothing but what makes it better, "
            "and take it to the weekly review."
        )
    return f"{said}, {wording.percent(level.share)} or less since {_clock(since_s, at_s)}."


def budget_back(objective: Objective, level: Level, remaining: Fraction | None) -> str:
    """That there is clearly more left than when it was told."""
    left = "" if remaining is None else f": {_left(remaining)} is left"
    return f"{objective.name}: the budget is above {wording.percent(level.share)} again{left}."


def maintained(text: str, name: str) -> str:
    """That what happens now does not count."""
    return f"{text} In maintenance ({name}): what happens now does not count."


def _left(remaining: Fraction) -> str:
    return f"{max(float(remaining), 0.0) * 100:.3g} %"


def _of_what(objective: Objective) -> str:
    if objective.calendar is not None:
        return f"of this {objective.calendar.unit}"
    return f"of {_span(objective.period_s)}"


def quiet(objective: Objective, last_hour: Tally) -> str:
    """That nothing is wrong, or that nobody came."""
    if not last_hour.observed_minutes:
        return f"{objective.name} is not observed: nobody was looking in the last 1 h."
    if not last_hour.total:
        return f"{objective.name} had no traffic in the last 1 h."
    return (
        f"{objective.name} is quiet: {_counted(last_hour, objective, surely=False)} in the last 1 h "
        f"{wording.deed(objective)}{_share(last_hour, surely=False)}; "
        f"the promise is at most {wording.percent(objective.budget)}."
    )


def unobserved(objective: Objective, *, observed_at_s: int | None, at_s: int) -> str:
    """Since when nobody has been looking."""
    since = "" if observed_at_s is None else f" since {_clock(observed_at_s, at_s)}"
    return f"{objective.name} is not observed{since}."


def unjudged(objective: Objective, trouble: str, *, since_s: int) -> str:
    """That it is not the promise that is in trouble, but our judgement of it."""
    return (
        f"{objective.name} has not been judged since {_clock(since_s, since_s)}, because its minutes "
        f"cannot be read: {trouble.rstrip('.')}. Next: look at the log of the evaluator."
    )


def why(objective: Objective, verdict: Verdict) -> list[str]:
    """Each window with its counts and the limit they were held against."""
    limit = verdict.rule.factor * objective.budget
    surely = verdict.rule.severity is Severity.PAGE
    windows = ((verdict.rule.long_s, verdict.long), (verdict.rule.short_s, verdict.short))
    lines = [_window(span_s, counted, limit, surely=surely) for span_s, counted in windows]
    if verdict.reason is Reason.TOO_FEW:
        lines.append(
            f"{verdict.long.bad_low} bad of {verdict.long.total} may be chance: a page wants "
            f"{objective.min_events} bad ones, or a share that is surely above the limit"
        )
    if verdict.long.good_low != verdict.long.good_high:
        lines.append("the threshold lies between edges of the source; spans would make it exact")
    return lines


def accusation(blame: Blame | None) -> str:
    """The guilty stage, where, the next step, and what nobody measured."""
    if blame is None:
        return "Which stage is at fault could not be asked."
    if blame == NOT_ASKED:
        return ""
    if blame.stage is None:
        known = "Which stage is at fault is not known."
        return " ".join(p for p in (_behind(blame), known, _unmeasured(blame)) if p)
    before = "" if blame.before_s is None else f", {wording.seconds(blame.before_s)} before"
    carries = _carries(blame)
    stage = f"{_title(blame.stage.value)}{' per token' if blame.per_token else ''}"
    sentence = f"{stage} {carries}: now {wording.seconds(blame.now_s)}{before}"
    parts = (
        _behind(blame),
        f"{sentence}{_placed(blame.place)}.",
        f"Next: {blame.next_step}." if blame.next_step else "",
        _unmeasured(blame),
    )
    return " ".join(part for part in parts if part)


def _behind(blame: Blame) -> str:
    """The cause behind what grew, where an engine stood still."""
    if not blame.behind:
        return ""
    return f"Behind it: {' '.join(blame.behind)} What grew below is a consequence."


def _carries(blame: Blame) -> str:
    if blame.before_s is None:
        return "is the longest stage"
    if blame.share is None:
        return "is the longest stage, though none grew"
    return f"carries {blame.share * 100:.0f} % of what grew"


_AT = {"replica": "on", "region": "in"}


def _placed(place: Place | None) -> str:
    if place is None:
        return ""
    labels = dict(place.labels)
    name, at = place.name, _AT[place.of]
    pool = f" (pool {labels['pool']})" if "pool" in labels and "replica" in labels else ""
    if place.stands_out:
        return (
            f", worst {at} {name}{pool} with {wording.seconds(place.mean_s)} "
            f"against {wording.seconds(place.median_s)} {at} the median {place.of}"
        )
    if place.replicas > 1:
        whose = f" of pool {labels['pool']}" if "pool" in labels else ""
        return f", {at} all {place.replicas} {place.of}s{whose} alike"
    return f", {at} {name}{pool}"


def _unmeasured(blame: Blame) -> str:
    if not blame.missing:
        return ""
    return f"Not measured: {', '.join(stage.value.replace('_', ' ') for stage in blame.missing)}."


def _window(span_s: int, counted: Tally, limit: Fraction, *, surely: bool) -> str:
    if not counted.observed_minutes:
        return f"last {_span(span_s)}: not observed"
    if not counted.total:
        return f"last {_span(span_s)}: no traffic"
    bad = counted.bad_low if surely else counted.bad_high
    ratio = Fraction(bad, counted.total)
    doubt = "" if counted.bad_low == counted.bad_high else _side(surely=surely)
    unseen = counted.minutes - counted.observed_minutes
    gap = f" ({unseen} of {counted.minutes} min not observed)" if unseen else ""
    return (
        f"last {_span(span_s)}: {doubt}{bad} of {counted.total} bad, {wording.percent(ratio)} "
        f"{'>' if ratio > limit else '≤'} {wording.percent(limit)}{gap}"
    )


def _side(*, surely: bool) -> str:
    return "surely " if surely else "possibly "


def _counted(counted: Tally, objective: Objective, *, surely: bool) -> str:
    what = wording.unit(objective)
    bad = counted.bad_low if surely else counted.bad_high
    if counted.bad_low != counted.bad_high:
        return f"{counted.bad_low} to {counted.bad_high} of {counted.total} {what}"
    return f"{bad} of {counted.total} {what}"


def _share(counted: Tally, *, surely: bool) -> str:
    if not counted.total:
        return ""
    bad = counted.bad_low if surely else counted.bad_high
    doubt = "" if counted.bad_low == counted.bad_high else _side(surely=surely)
    return f" ({doubt}{wording.percent(Fraction(bad, counted.total))})"


def _span(span_s: int) -> str:
    for unit, length_s in (("d", 86_400), ("h", 3600)):
        if span_s >= length_s and span_s % length_s == 0:
            return f"{span_s // length_s} {unit}"
    hours, minutes = divmod(span_s // 60, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _clock(instant_s: int, now_s: int) -> str:
    day = "%Y-%m-%d " if abs(now_s - instant_s) > _HALF_DAY_S else ""
    return f"{datetime.fromtimestamp(instant_s, UTC):{day}%H:%M} UTC"


def _title(word: str) -> str:
    return word.replace("_", " ").capitalize().replace("Kv", "KV")
