"""The plain sentence of a promise, read: `p99 ttft <= 1.5s over 30d where use_case=chat`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from alerts import kinds, quantity
from alerts.quantity import suggestion
from domain.errors import ConfigError
from domain.indicator import AvailabilityIndicator, EndpointIndicator, Indicator, counts_minutes
from domain.labels import LABEL_NAMES, Labels, labels_of
from domain.metric import LATENCIES
from domain.objective import DAY_S
from domain.period import Calendar, CalendarUnit
from domain.slice import EmptySlice, SlicePolicy

__all__ = ["CALENDAR_S", "Phrase", "calendar", "empty", "parse", "suggestion", "where_labels"]

CALENDAR_S = {
    CalendarUnit.DAY: DAY_S,
    CalendarUnit.WEEK: 7 * DAY_S,
    CalendarUnit.MONTH: 30 * DAY_S,
    CalendarUnit.QUARTER: 90 * DAY_S,
    CalendarUnit.YEAR: 365 * DAY_S,
}
"""How long a calendar period usually is: its rules are made for that."""

_EXAMPLE = "p99 ttft <= 1.5s over 30d where use_case=chat"
_LONGEST = 2000
_QUOTED = r""""(?:[^"\\]|\\.)*"|'[^']*'"""
_DIMENSION = rf"""\w+=(?:{_QUOTED}|[^\s="']+)"""
_TAILS = (
    re.compile(r" where (?P<where>.+)$", re.DOTALL),
    re.compile(r" over (?P<period>\d\S*(?: [a-z]+)?)$"),
    re.compile(r" (?:per|each)(?: calendar)? (?P<unit>[a-z]+)(?: in (?P<zone>\S+))?$"),
    re.compile(
        r"(?: in)? (?P<share>\S+) of minutes(?: counting empty ones as (?P<empty>[a-z]+))?$"
    ),
    re.compile(r" with failed invocations (?P<counted>counted)$"),
    re.compile(rf" at (?P<service>[a-z_]+)(?P<dimensions>(?: {_DIMENSION})*)$", re.DOTALL),
)
_SPACES = re.compile(rf"{_QUOTED}|\s+|[≤≥]", re.DOTALL)
_SIGNS = {"≤": "<=", "≥": ">="}
_DURATION = r"\d\S*(?: [a-zµ]+)?"
_LATENCY = re.compile(rf"p(?P<target>\S+) (?P<metric>\S+?) ?<= ?(?P<threshold>{_DURATION})")
_AVAILABLE = re.compile(r"(?P<target>\S+) available")
_GOODPUT = re.compile(r"goodput (?P<limits>.+?) p?(?P<target>\d[\d.]*%?)")
_LIMIT = re.compile(rf"(?P<metric>\S+?) ?<= ?(?P<threshold>{_DURATION})")
_NUMBER = re.compile(r"(?P<metric>[A-Za-z_]\w*) ?(?P<bounds>[<>]=.+)")
_BOUND = re.compile(r"(?P<side>[<>]=) ?(?P<value>\d.*)")
_PAIR = re.compile(rf"""\s*([^\s=,]+)\s*=\s*({_QUOTED}|[^\s,"']+)\s*""", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phrase:
    """The parts of the sentence as values."""

    target: Fraction
    indicator: Indicator
    period_s: int = 30 * DAY_S
    calendar: Calendar | None = None
    slices: SlicePolicy | None = None


def parse(text: str, *, at: str) -> Phrase:
    """The parts of a sentence; `at` says where it stands, for errors."""
    if len(text) > _LONGEST:
        raise ConfigError(
            f"is a sentence of {len(text)} characters", where=at, remedy="Write a mapping."
        )
    rest, tails = _without_tails(_SPACES.sub(_plain_space, text).strip(), at=at)
    indicator, target = _promised(rest, text, tails, at=at)
    where = _where(tails["where"], at=at) if "where" in tails else ()
    indicator = replace(indicator, where=where)
    minutes = "share" in tails
    share = quantity.target(tails["share"], at=at) if minutes else target
    slices = None
    if counts_minutes(indicator):
        _check_minutes(tails, text, at=at)
    elif minutes:
        slices = SlicePolicy(target=target, empty=empty(tails["empty"], at=at))
    by = _calendar(tails, at=at)
    return Phrase(
        target=share,
        indicator=indicator,
        period_s=CALENDAR_S[by.unit]
        if by
        else quantity.period_s(tails.get("period", "30d"), at=at),
        calendar=by,
        slices=slices,
    )


def _without_tails(text: str, *, at: str) -> tuple[str, dict[str, str]]:
    """What is promised, and apart from it how often, over how long and of whom, in any order."""
    rest, tails = text, dict[str, str]()
    while True:
        found = next((each for each in (p.search(rest) for p in _TAILS) if each), None)
        if found is None:
            return rest, tails
        twice = [name for name in found.groupdict() if name in tails]
        if twice:
            raise ConfigError(
                f"{found[0].strip()!r} is said twice", where=at, remedy="Keep one of the two."
            )
        tails.update((name, said or "") for name, said in found.groupdict().items())
        rest = rest[: found.start()]


def calendar(unit: str, zone: str, *, at: str) -> Calendar:
    """`month` in `Europe/Berlin`; UTC where no zone is named."""
    if unit not in CALENDAR_S:
        raise ConfigError(
            f"{unit!r} is no calendar period", where=at, remedy=suggestion(unit, CALENDAR_S)
        )
    return Calendar(unit=CalendarUnit(unit), zone=quantity.zone(zone or "UTC", at=at))


def empty(text: str, *, at: str) -> EmptySlice:
    """What a minute counts as in which nobody asked; nothing where it is not said."""
    known = tuple(each.value for each in EmptySlice)
    if text and text not in known:
        raise ConfigError(
            f"an empty minute cannot be {text!r}", where=at, remedy=suggestion(text, known)
        )
    return EmptySlice(text) if text else EmptySlice.EXCLUDED


def where_labels(pairs: Iterable[tuple[str, str]], *, at: str) -> Labels:
    """The selector; every name one of our labels, none twice."""
    kept = tuple(pairs)
    for index, (name, _) in enumerate(kept):
        if name not in LABEL_NAMES:
            raise ConfigError(
                f"{name!r} is no label", where=at, remedy=suggestion(name, LABEL_NAMES)
            )
        if name in (other for other, _ in kept[:index]):
            raise ConfigError(
                f"{name!r} is asked for twice", where=at, remedy="Keep one of the two."
            )
    return labels_of(kept)


def _promised(
    rest: str, text: str, tails: Mapping[str, str], *, at: str
) -> tuple[Indicator, Fraction]:
    """What is counted, and the share of it; where minutes are, the share stands behind."""
    of_requests = _LATENCY.fullmatch(rest) or _AVAILABLE.fullmatch(rest)
    if of_requests is not None:
        said = of_requests.groupdict()
        percent = said["target"] if "metric" not in said else f"p{said['target']}"
        target = quantity.target(percent, at=at)
        if "service" in tails:
            return _endpoint(said, tails, at=at), target
        if "metric" in said:
            return kinds.latency(said["metric"], said["threshold"], at=at), target
        return AvailabilityIndicator(), target
    goodput = _GOODPUT.fullmatch(rest)
    if goodput is not None:
        limits = _limits(goodput["limits"], at=at)
        return kinds.goodput(limits, at=at), quantity.target(goodput["target"], at=at)
    indicator = _of_minutes(rest, at=at)
    if indicator is None or "service" in tails:
        raise ConfigError(
            f"{text!r} is no promise", where=at, remedy=_near_miss(rest) or _like_this()
        )
    return indicator, Fraction(1, 2)


def _of_minutes(rest: str, *, at: str) -> Indicator | None:
    if rest.startswith("no "):
        return kinds.condition(rest.removeprefix("no ").split(" or "), at=at)
    found = _NUMBER.fullmatch(rest)
    if found is None or found["metric"] in LATENCIES:
        return None
    bounds = [_BOUND.fullmatch(part.strip()) for part in found["bounds"].split(" and ")]
    said = [(bound["side"], bound["value"]) for bound in bounds if bound is not None]
    return kinds.number(found["metric"], said, at=at) if len(said) == len(bounds) else None


def _limits(text: str, *, at: str) -> list[tuple[str, str, str]]:
    found = [_LIMIT.fullmatch(part.strip()) for part in text.split(" and ")]
    if None in found:
        raise ConfigError(
            f"{text!r} is no list of limits",
            where=at,
            remedy="Write goodput ttft <= 1s and tpot <= 50ms 99%.",
        )
    return [(each["metric"], each["threshold"], at) for each in found if each is not None]


def _endpoint(said: Mapping[str, str], tails: Mapping[str, str], *, at: str) -> EndpointIndicator:
    said_of = re.findall(_DIMENSION, tails["dimensions"])
    dimensions = [each.partition("=") for each in said_of]
    return kinds.endpoint(
        tails["service"],
        said.get("metric", ""),
        said.get("threshold"),
        [(name, _unquoted(value)) for name, _, value in dimensions],
        counts_failures="counted" in tails,
        at=at,
    )


def _check_minutes(tails: Mapping[str, str], text: str, *, at: str) -> None:
    if "share" not in tails:
        raise ConfigError(
            f"{text!r} does not say how often", where=at, remedy="Add: in 99% of minutes."
        )
    if tails["empty"]:
        raise ConfigError(
            "a minute of a number or a condition is never empty",
            where=at,
            remedy="Leave out 'counting empty ones as'.",
        )


def _calendar(tails: Mapping[str, str], *, at: str) -> Calendar | None:
    if "unit" not in tails:
        return None
    if "period" in tails:
        raise ConfigError("has two periods", where=at, remedy="Keep one of the two.")
    return calendar(tails["unit"], tails["zone"], at=at)


def _where(text: str, *, at: str) -> Labels:
    pairs, position = [], 0
    while position < len(text):
        found = _PAIR.match(text, position)
        if found is None:
            raise ConfigError(
                f"{text!r} selects nothing we understand",
                where=at,
                remedy="End with name=value, several with a comma between.",
            )
        pairs.append((found[1], _unquoted(found[2])))
        position = found.end()
        separator = re.compile(r",|and\s").match(text, position)
        position = separator.end() if separator else position
    return where_labels(pairs, at=at)


def _unquoted(text: str) -> str:
    if text[0] == "'":
        return text[1:-1]
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text[0] == '"' else text


def _plain_space(found: re.Match[str]) -> str:
    """One space for many, and signs as they are typed, but not within quotes."""
    return " " if found[0].isspace() else _SIGNS.get(found[0], found[0])


def _near_miss(text: str) -> str:
    if "<=" not in text and re.search(r"<|under|below", text):
        return f"A promise says <=, as in: {_EXAMPLE}."
    if re.match(r"p\d", text) and ">" in text:
        return f"A latency promise says <=, as in: {_EXAMPLE}."
    if "<=" in text and not text.startswith("p"):
        return f"Begin with the share of requests, as in: {_EXAMPLE}."
    return ""


def _like_this() -> str:
    return (
        f"Write it like one of: {_EXAMPLE}; 99.9% available; goodput ttft <= 1s and tpot <= 50ms "
        "99%; generation_tokens >= 500/s in 99% of minutes; no engine stalled in 99.9% of minutes."
    )
